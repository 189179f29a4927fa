"""How often a model complies with options: counts over translations of :mod:`benchmarks.quality.compliance_inputs`."""

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
    cases: Sequence[SpanCase], protected: Sequence[Translation], plain: Sequence[Translation], supported: bool
) -> dict[str, Any]:
    """The results of protected spans.

    Args:
        cases: Sentences with spans.
        protected: Their translations.
        plain: Translations of the same sentences without the spans.
        supported: Whether the model supports placeholders.

    Returns:
        Numbers, and shares of the sentences in per cent; None where nothing can be said.
    """
    texts = [translation.text for translation in protected]
    once = sum(case.has_all_once(text) for case, text in zip(cases, texts, strict=True))
    in_order = sum(case.in_order(text) for case, text in zip(cases, texts, strict=True))
    by_model = sum(map(placed_by_model, protected))
    return {
        "supported": supported,
        "sentences": len(cases),
        "spans": sum(len(case.spans) for case in cases),
        "exactly_once": percent(once, len(cases)),
        "placed_by_model": percent(by_model, len(cases)) if supported else None,
        "in_order": percent(in_order, len(cases)),
        "chrf": _chrf(protected, [case.target for case in cases]),
        "chrf_without_spans": _chrf(plain, [case.plain[1] for case in cases]),
    }


def address_figures(
    formality: Formality | None, pairs: Sequence[Pair], translations: Sequence[Translation] | None
) -> dict[str, Any]:
    """How translations address their reader.

    Args:
        formality: The form that was requested, if any.
        pairs: English sentences and their references.
        translations: Their translations; None if the model does not support forms of address.

    Returns:
        Numbers, and the share that complies in per cent; None where nothing can be said.
    """
    if translations is None:
        return {"requested": formality, "supported": False, "sentences": len(pairs)}
    counts = Counter(
        address_in(translation.text, source) for (source, _), translation in zip(pairs, translations, strict=True)
    )
    return {
        "requested": formality,
        "supported": True,
        "sentences": len(pairs),
        "formal": counts["formal"],
        "informal": counts["informal"],
        "not_clear": counts[None],
        "complies": percent(counts[formality], len(pairs)) if formality else None,
    }


def term_figures(
    cases: Sequence[TermCase], with_terms: Sequence[Translation], plain: Sequence[Translation], supported: bool
) -> dict[str, Any]:
    """How many glossary terms translations contain, in any inflection.

    Args:
        cases: Sentences with glossaries.
        with_terms: Their translations with the glossaries.
        plain: Their translations without.
        supported: Whether the model supports terms; if not, they replace its words.

    Returns:
        Numbers, and shares of the terms in per cent; None where nothing can be said.
    """
    num_terms = sum(len(case.glossary) for case in cases)
    counts = [
        sum(case.num_used(translation.text) for case, translation in zip(cases, translations, strict=True))
        for translations in (plain, with_terms)
    ]
    replaced = sum(use.status == "replaced" for translation in with_terms for use in translation.glossary or ())
    return {
        "supported": supported,
        "sentences": len(cases),
        "terms": num_terms,
        "without_glossary": percent(counts[0], num_terms),
        "with_glossary": percent(counts[1], num_terms),
        "replaced": percent(replaced, num_terms),
    }


def percent(part: int, total: int) -> float | None:
    """A share in per cent; None of nothing.

    Args:
        part: How many.
        total: Of how many.
    """
    return round(100.0 * part / total, 2) if total else None


def _chrf(translations: Sequence[Translation], references: Sequence[str]) -> float | None:
    return round(score([translation.text for translation in translations], references).chrf, 1) if references else None
