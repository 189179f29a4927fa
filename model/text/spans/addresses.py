"""Kinds of protected spans: URLs, addresses, names of users, paths, files and version numbers."""

from __future__ import annotations

import re

from model.text.spans.kind import AFTER_SPACE, Kind

_OPENING = {")": "(", "]": "[", "}": "{"}
_AFTER_ADDRESS = ".,;:!?…'\"*’”“»«)]}"
_DOT_IN_WORD = re.compile(r"\.(?<=\w\.)\w")

# The characters of a URL after its beginning. Full-width punctuation ends it: Chinese has no space there.
_URL_BODY = r"""[^\s<>"`|\\“”„»«，。、；：！？（）【】《》]"""
_TOP_LEVEL = "com|org|net|edu|gov|info|io|dev|eu|de|ch|fr|nl|pl|uk"
_SCHEMES = "mailto|tel|magnet|urn|data|geo|sms|callto|skype|sip|sips|xmpp|irc|doi|javascript|bitcoin|spotify|LLL|EXT"
_EXTENSIONS = (
    "bat|bz2|cc|cfg|conf|cpp|cs|css|csv|doc|docx|env|epub|exe|gif|go|gz|hpp|htm|html|ini|ipynb|java|jpeg|jpg|js|json|"
    "jsx|kt|lock|log|md|mp3|mp4|mov|odt|onnx|pdf|php|png|po|ppt|pptx|properties|ps1|pt|py|pyi|rb|rs|rst|rtf|sh|sql|srt|"
    "svg|swift|tar|toml|ts|tsv|tsx|txt|vtt|wav|webp|whl|xlf|xliff|xls|xlsx|xml|yaml|yml|zip"
)
_PATH_PART = r"[\w.+~@%${}*:=-]"
_HAS_EXTENSION = re.compile(rf"\.(?:{_EXTENSIONS})$")


def _without_punctuation(match: re.Match[str]) -> int:
    """The end of an address, without the punctuation of its sentence; a closing bracket stays if it was opened."""
    address = match[0]
    surplus = {closing: address.count(closing) - address.count(opening) for closing, opening in _OPENING.items()}
    end = len(address)
    while end and address[end - 1] in _AFTER_ADDRESS:
        last = address[end - 1]
        if last in surplus:
            if surplus[last] <= 0:
                break
            surplus[last] -= 1
        end -= 1
    return match.start() + end


def _path(match: re.Match[str]) -> int:
    """The end of a path with a root, such as ``/usr/bin``, ``./run`` or ``~/notes``."""
    end = _without_punctuation(match)
    root, *parts = match.string[match.start() : end].split("/")
    names = [part for part in parts if part]
    # A single name may be the second of two words: "red /green". A single name of a path rarely has a capital.
    is_path = bool(names) and (bool(root) or len(names) > 1 or (len(names[0]) > 2 and names[0][0].islower()))
    return end if is_path and any(character.isalpha() for character in names[0]) else match.start()


def _relative_path(match: re.Match[str]) -> int:
    """The end of a path such as ``docs/guide.md`` or ``app/http/``; and/or, km/h and 24/7 are not paths."""
    end = _without_punctuation(match)
    path = match.string[match.start() : end]
    is_folder = path.endswith("/") and path.count("/") > 1
    return end if is_folder or _HAS_EXTENSION.search(path) else match.start()


def _version(match: re.Match[str]) -> int:
    """The end of a version number; dates and numbers with separated thousands are not version numbers."""
    numbers = match["numbers"]
    if numbers and not match["suffix"]:
        parts = numbers.split(".")
        if len(parts[0]) < 4 and all(len(part) == 3 for part in parts[1:]):
            return match.start()
        if len(parts) == 3 and _is_date(*parts):
            return match.start()
    return match.end()


def _is_date(first: str, second: str, third: str) -> bool:
    if len(first) == 4:  # 2024.02.01
        return int(second) <= 12 and int(third) <= 31
    if not (1 <= int(first) <= 31 and 1 <= int(second) <= 12):
        return False
    return len(third) == 4 or (len(third) == 2 and (first[0] == "0" or second[0] == "0" or int(first) > 12))


# The rows are as compact as those of a table.
# fmt: off
KINDS = (
    Kind("URL",
        rf"(?<![A-Za-z0-9])(?:[A-Za-z][A-Za-z0-9+.-]{{1,15}}://|www\.){_URL_BODY}+",
        ("://", "www."),
        ("https://example.com/{id}/edit", "git+ssh://git@example.com/x.git", "(⟦https://example.com/a_(b)⟧)!",
         "www.example.com"),
        ("a//b", "note: //"),
        trim=_without_punctuation),
    Kind("address with a scheme",
        rf"\b(?:{_SCHEMES}):(?!\s){_URL_BODY}+",
        (":",),
        ("mailto:jane@example.com", "⟦magnet:?xt=urn:btih:abc⟧ is a link", "urn:isbn:0451450523", "tel:+491234"),
        ("data: this", "tel: 123"),
        trim=_without_punctuation),
    Kind("address in brackets",
        rf"<(?:[a-z][a-z0-9+.-]{{1,15}}:{_URL_BODY}+|[\w.+-]{{1,64}}@[\w.-]{{1,255}})>",
        ("<",),
        ("<https://example.com/a>", "<me@example.com>"),
        ("<b>", "a <b: c>")),
    Kind("e-mail address",
        r"(?<![\w.+-])[\w.+-]{1,64}+@[\w-]{1,63}(?:\.[\w-]{1,63})+",
        ("@",),
        ("jane.doe+news@mail.example.co.uk",),
        ("5 @ 3 Euro", "me@home")),
    Kind("user",
        r"(?<![\w.@/:+-])@[^\W\d]\w*(?:[./@-]\w+)*",
        ("@",),
        ("@user", "@user@mastodon.social", "@scope/package", "@string/app_name"),
        ("5 @ 3", "a@b"),
        used_by="Mastodon, X, npm, Android references, Drupal, Razor"),
    Kind("subreddit or user of Reddit",
        r"(?<![\w/.-])[ru]/[A-Za-z0-9_-]{3,21}(?![\w/])",
        ("r/", "u/"),
        ("See ⟦r/germany⟧ now", "u/some_one"),
        ("und/oder", "he/r/she"),
        used_by="Reddit"),
    Kind("domain",
        rf"(?<![\w@./:-])(?:[A-Za-z0-9-]{{1,63}}\.){{1,8}}(?:{_TOP_LEVEL})(?![\w-])(?::\d{{1,5}})?(?:[/?#]{_URL_BODY}*)?",
        _DOT_IN_WORD,
        ("docs.example.org:8080/guide",),
        ("so.Dann", "e.g. this, U.S. law"),
        trim=_without_punctuation),
    Kind("IP or MAC address",
        r"(?<![\w:.])(?:(?=[0-9A-Fa-f:]{0,40}::)[0-9A-Fa-f:]{2,39}(?:%\w{1,20})?|[0-9A-Fa-f]{2}(?::[0-9A-Fa-f]{2}){5}"
        r"|[0-9A-Fa-f]{1,4}(?::[0-9A-Fa-f]{1,4}){7})(?![\w:])",
        (":",),
        ("fe80::1%eth0", "00:1a:2B:3c:4d:5e", "2001:db8::8a2e:370:7334"),
        ("12:30:45", "::before", "a:b"),
        trim=lambda match: match.end() if len(match[0].strip(":")) > 1 else match.start()),
    Kind("path with a root",
        rf"{AFTER_SPACE}(?:~|\.\.?|\$\w+|\$\{{\w+\}}|[A-Za-z]:)?/(?:{_PATH_PART}+/)*{_PATH_PART}*",
        ("/",),
        ("/usr/local/bin", "./run.sh", "~/notes.txt", "$HOME/.config/x", "/users/:id"),
        ("rot / grün", "// comment", "red /Green"),
        trim=_path),
    Kind("relative path",
        rf"{AFTER_SPACE}[\w.+-]++(?:/{_PATH_PART}+)+/?",
        ("/",),
        ("docs/guide.md", "app/http/"),
        ("and/or, he/she, 24/7, km/h, TCP/IP",),
        trim=_relative_path),
    Kind("Windows path",
        r"(?<![\w\\])(?:[A-Za-z]:|\\\\[\w.-]+)\\(?:[^\s\\<>:\"|?*]+\\)*[^\s\\<>:\"|?*]*",
        ("\\",),
        (r"C:\Users\me\file.txt", r"\\server\share"),
        (r"either\or",),
        trim=_without_punctuation),
    Kind("file",
        rf"(?<![\w.@/\\-])[\w-]++(?:\.[\w-]++)*\.(?:{_EXTENSIONS})(?![\w-])",
        _DOT_IN_WORD,
        ("setup.py", "docker-compose.override.yml", "Node.js"),
        ("Das ist so.Dann",)),
    Kind("version number",
        r"(?<![\w.,/-])(?:[vV]\d{1,5}(?:\.\d{1,5}){1,5}|(?P<numbers>\d{1,5}(?:\.\d{1,5}){2,5})|\d{1,5}\.\d{1,5}(?=-?(?:alpha|beta|rc|dev|a|b)[.-]?\d))"
        r"(?P<suffix>[-+.]?(?:alpha|beta|rc|dev|pre|post|a|b)[.-]?\d*|-\d+)?(?![\w]|[.,]\d)",
        _DOT_IN_WORD,
        ("v1.2.3", "1.2.3", "2.0.0-rc1", "10.15.7"),
        ("1.5, 1.234.567, 24.12.2024, 01.02.24, 2024.02.01",),
        trim=_version),
)
"""Addresses and paths."""
# fmt: on
