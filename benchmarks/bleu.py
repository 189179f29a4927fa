"""BLEU of the shipped translator in each precision."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from benchmarks.contenders import VERSO_PRECISIONS
from benchmarks.engine_rounds import Plan
from benchmarks.processes import started


def scorer(folder: Path, plan: Plan) -> Callable[[str], dict[str, dict[str, Any]]]:
    """Load a worker process whose jobs are precisions: BLEU of Verso on each test set and pair."""
    from model.scores import score
    from model.training.corpus import read_parallel
    from model.translation.options import TranslationOptions
    from model.translator import Translator

    def score_precision(precision: str) -> dict[str, dict[str, Any]]:
        translator = Translator.load(folder / f"Verso {precision}", num_threads=plan.num_threads)
        scores: dict[str, dict[str, Any]] = {}
        for base in plan.test_sets:
            for source, target in translator.manifest.pairs:
                lines = read_parallel(base, (source, target))[: plan.test_limit]
                results = translator.translate([line[0] for line in lines], TranslationOptions(), source, target)
                texts = [result.text for result in results]
                scored = score(texts, [line[1] for line in lines])
                scores[f"{base.name} {source}-{target}"] = {
                    "texts": texts,
                    "bleu": round(scored.bleu, 2),
                    "signature": scored.bleu_signature,
                    "sentences": scored.num_sentences,
                }
        return scores

    return score_precision


def measure_bleu(folder: Path, plan: Plan) -> dict[str, Any]:
    """BLEU (beam 4, over texts) and the share of translations equal to float32's, by precision, test set and pair."""
    with started("BLEU", scorer, folder, plan) as worker:
        by_precision: dict[str, Any] = {precision: worker.run(precision) for precision in VERSO_PRECISIONS}
    full = {name: scored["texts"] for name, scored in by_precision["float32"].items()}
    for by_set in by_precision.values():
        for name, scored in by_set.items():
            pairs = list(zip(scored.pop("texts"), full[name], strict=True))
            scored["share_as_float32"] = round(sum(text == exact for text, exact in pairs) / len(pairs), 3)
    return by_precision
