"""How often a model does what it is told: counts over translations of :mod:`benchmarks.quality.compliance_inputs`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

from benchmarks.quality.compliance_inputs import SpanCase, TermCase, address_in
from model.scores import score
from model.training.corpus import Pair
from model.translation.options import Formality
from model.translation.results import Translation


def placed_by_model(translation: Translation) -> bool:
    """Whether the model placed all protected spans itself: the place of none was found by alignment.

    Args:
        translation: Of a text with protected spans.
    """
    return not any(use.restored for use in translation.integrity or ())


def span_figures(
    cases: Sequence[SpanCase], told: Sequence[Translation], plain: Sequence[Translation], supported: bool
) -> dict[str, Any]:
    """What became of protected spans.

    Args:
        cases: Sentences with spans.
        told: Their translations.
        plain: Translations of the same sentences without the spans.
        supported: Whether the model can be told placeholders.

    Returns:
        Numbers, and shares of the sentences in per cent; None where nothing can be said.
    """
    once = sum(case.has_all_once(one.text) for case, one in zip(cases, told, strict=True))
    in_order = sum(case.in_order(one.text) for case, one in zip(cases, told, strict=True))
    by_model = sum(placed_by_model(one) for one in told)
    return {
        "supported": supported,
        "sentences": len(cases),
        "spans": sum(len(case.spans) for case in cases),
        "exactly_once": percent(once, len(cases)),
        "placed_by_model": percent(by_model, len(cases)) if supported else None,
        "in_order": percent(in_order, len(cases)),
        "chrf": _chrf(told, [case.target for case in cases]),
        "chrf_without_spans": _chrf(plain, [case.plain[1] for case in cases]),
    }


def address_figures(
    wanted: Formality | None, pairs: Sequence[Pair], translations: Sequence[Translation] | None
) -> dict[str, Any]:
    """How translations address their reader.

    Args:
        wanted: The form the model was told, if any.
        pairs: English sentences and their references.
        translations: Their translations; None if the model cannot be told a form.

    Returns:
        Numbers, and the share that complies in per cent; None where nothing can be said.
    """
    if translations is None:
        return {"told": wanted, "supported": False, "sentences": len(pairs)}
    found = Counter(address_in(one.text, source) for (source, _), one in zip(pairs, translations, strict=True))
    return {
        "told": wanted,
        "supported": True,
        "sentences": len(pairs),
        "formal": found["formal"],
        "informal": found["informal"],
        "not_clear": found[None],
        "complies": percent(found[wanted], len(pairs)) if wanted else None,
    }


def term_figures(
    cases: Sequence[TermCase], told: Sequence[Translation], plain: Sequence[Translation], supported: bool
) -> dict[str, Any]:
    """How many glossary terms translations hold, in some inflection.

    Args:
        cases: Sentences with glossaries.
        told: Their translations with the glossaries.
        plain: Their translations without.
        supported: Whether the model can be told terms; if not, they replace what it wrote.

    Returns:
        Numbers, and shares of the terms in per cent; None where nothing can be said.
    """
    num_terms = sum(len(case.glossary) for case in cases)
    counts = [sum(case.found(one.text) for case, one in zip(cases, some, strict=True)) for some in (plain, told)]
    replaced = sum(use.status == "replaced" for one in told for use in one.glossary or ())
    return {
        "supported": supported,
        "sentences": len(cases),
        "terms": num_terms,
        "without_glossary": percent(counts[0], num_terms),
        "with_glossary": percent(counts[1], num_terms),
        "replaced": percent(replaced, num_terms),
    }


def percent(part: int, whole: int) -> float | None:
    """A share in per cent; None of nothing.

    Args:
        part: How many.
        whole: Of how many.
    """
    return round(100.0 * part / whole, 2) if whole else None


def _chrf(translations: Sequence[Translation], references: Sequence[str]) -> float | None:
    return round(score([one.text for one in translations], references).chrf, 1) if references else None
