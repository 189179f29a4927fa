"""Names of HTML: which elements and attributes are what to a translation."""

from __future__ import annotations


def _names(text: str) -> frozenset[str]:
    return frozenset(text.split())


TRANSLATED_ATTRIBUTES = _names("alt title placeholder aria-label")

BLOCKS = _names(
    "address article aside blockquote body button caption center col colgroup dd details dialog dir div dl dt fieldset "
    "figcaption figure footer form frame frameset h1 h2 h3 h4 h5 h6 head header hgroup hr html legend li listing main "
    "menu nav noframes ol optgroup option p plaintext pre search section select summary table tbody td template tfoot "
    "th thead title tr ul xmp"
)
"""Elements that separate texts. All others, unknown ones included, are inline, as in a browser."""

VOID = _names("area base br col embed hr img input link meta param source track wbr")
KEPT = _names(
    "script style code pre textarea svg math noscript iframe noembed noframes xmp plaintext audio video canvas object"
)
"""Elements whose content is not translated; only ``code`` may say translate="yes"."""

HIDDEN = _names("script style textarea svg noscript iframe noembed audio video canvas object")
"""Of these, elements whose content is no part of the sentence around them."""

_CLOSES_P = _names(
    "address article aside blockquote center details dialog dir div dl fieldset figcaption figure footer form h1 h2 h3 "
    "h4 h5 h6 header hgroup hr li listing main menu nav ol p plaintext pre search section summary table ul xmp dd dt"
)
IMPLIED_ENDS = {
    "p": _CLOSES_P,
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
"""The elements whose end tag may be left out, and the start tags that end them."""
