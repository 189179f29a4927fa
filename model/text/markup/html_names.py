"""Names of HTML that decide what is a text: elements, attributes, and what marks text that is not translated."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping


def _names(text: str) -> frozenset[str]:
    return frozenset(text.split())


BLOCKS = _names(
    "address article aside blockquote body button caption center col colgroup dd details dialog dir div dl dt fieldset "
    "figcaption figure footer form frame frameset h1 h2 h3 h4 h5 h6 head header hgroup hr html legend li listing main "
    "menu nav noframes ol optgroup option p plaintext pre search section select summary table tbody td template tfoot "
    "th thead title tr ul xmp textarea"
)
"""Elements that separate texts. All others, unknown ones included, are inline, as in a browser."""

VOID = _names("area base br col embed hr img input link meta param source track wbr")
KEPT = _names("script style code kbd samp var tt pre svg math iframe noembed noframes xmp plaintext")
"""Elements whose content is not translated, except code with translate="yes"."""

CODE = _names("code kbd samp var tt")
HIDDEN = _names("script style svg noscript iframe noembed audio video canvas object")
"""Those of the kept elements whose content is not part of the sentence around them."""

FALLBACKS = _names("noscript audio video canvas object")
"""Elements that separate texts if there are words in them."""

CLOSES_P = _names(
    "address article aside blockquote center details dialog dir div dl fieldset figcaption figure footer form h1 h2 h3 "
    "h4 h5 h6 header hgroup hr li listing main menu nav ol p plaintext pre search section summary table ul xmp dd dt"
)
IMPLIED_ENDS = {
    "p": CLOSES_P,
    "li": _names("li"),
    "dt": _names("dt dd"),
    "dd": _names("dt dd"),
    "option": _names("option optgroup"),
    "optgroup": _names("optgroup"),
    "td": _names("td th tr tbody tfoot thead"),
    "th": _names("td th tr tbody tfoot thead"),
    "tr": _names("tr tbody tfoot thead"),
    "thead": _names("tbody tfoot"),
    "tbody": _names("tbody tfoot"),
}
"""Elements whose end tag is optional, and the start tags that end them."""

_TRANSLATED = _names(
    "alt title placeholder label abbr aria-label aria-description aria-placeholder aria-roledescription aria-valuetext"
)
_BUTTONS = _names("button submit reset")
_METADATA = _names(
    "description keywords abstract summary headline dc.title dc.description dcterms.title dcterms.description og:title "
    "og:description og:image:alt twitter:title twitter:description twitter:image:alt"
)
_NOT_TRANSLATED_CLASSES = _names("notranslate no-translate skiptranslate wg-notranslate")
_NOT_TRANSLATED = _names("data-notranslate data-no-translation data-wg-notranslate")
_LANGUAGE = re.compile(r"[A-Za-z]{2,3}(?![^-_])")


def translated_names(name: str, attributes: Mapping[str, str]) -> Iterator[str]:
    """The attributes of a tag whose values readers see, as the standard lists them.

    Args:
        name: The name of the element.
        attributes: Its attributes.
    """
    for attribute in attributes:
        if attribute in _TRANSLATED:
            yield attribute
        elif attribute == "value" and name == "input":
            if attributes.get("type", "").lower() in _BUTTONS:
                yield attribute
        elif attribute == "content" and name == "meta":
            keys = (attributes.get(key, "").lower() for key in ("name", "property", "itemprop"))
            if not _METADATA.isdisjoint(keys):
                yield attribute


def is_not_translated(attributes: Mapping[str, str]) -> bool:
    """Whether attributes of HTML or XML say that an element is not translated.

    Args:
        attributes: The attributes of the element.
    """
    if "no" in (attributes.get("translate", "").lower(), attributes.get("its:translate")):
        return True
    classes = attributes.get("class", "").lower().split()
    return not (_NOT_TRANSLATED_CLASSES.isdisjoint(classes) and _NOT_TRANSLATED.isdisjoint(attributes))


def is_other_language(marked: str, language: str) -> bool:
    """Whether text that is marked with a language is in another one than the text around it.

    Args:
        marked: The value of an attribute: ``fr-CA``; no language if empty.
        language: The language of the text around it; empty if it is unknown.
    """
    code = _LANGUAGE.match(marked)
    return code is not None and bool(language) and code[0].lower() not in ("und", language.lower().split("-")[0])
