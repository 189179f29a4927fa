"""BLEU of the shipped translator in each precision."""

from __future__ import annotations

import traceback
import warnings
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from benchmarks.contenders import VERSO_PRECISIONS
from benchmarks.engine_rounds import Plan
from benchmarks.processes import started


def serve_bleu(connection: Connection[Any, Any], folder: Path, plan: Plan) -> None:
    """Main function of a worker process: BLEU of Verso in each received precision, on each test set and pair."""
    try:
        warnings.simplefilter("ignore")
        from model.scores import score
        from model.training.corpus import read_parallel
        from model.translation.options import TranslationOptions
        from model.translator import Translator

        connection.send(None)
        while (precision := connection.recv()) is not None:
            translator = Translator.load(folder / f"Verso {precision}", num_threads=plan.num_threads)
            found: dict[str, dict[str, Any]] = {}
            for base in plan.test_sets:
                for source, target in translator.manifest.pairs:
                    lines = read_parallel(base, (source, target))[: plan.test_limit]
                    texts = translator.translate([line[0] for line in lines], TranslationOptions(), source, target)
                    scored = score([text.text for text in texts], [line[1] for line in lines])
                    found[f"{base.name} {source}-{target}"] = {
                        "texts": [text.text for text in texts],
                        "bleu": round(scored.bleu, 2),
                        "signature": scored.bleu_signature,
                        "sentences": scored.num_sentences,
                    }
            connection.send(found)
    except Exception:  # noqa: BLE001
        connection.send(traceback.format_exc())


def measure_bleu(folder: Path, plan: Plan) -> dict[str, Any]:
    """BLEU (beam 4, over texts) and the share of translations equal to float32's, by precision, test set and pair."""
    with started("BLEU", serve_bleu, folder, plan) as worker:
        worker.wait_until_loaded()
        found: dict[str, Any] = {precision: worker.run(precision) for precision in VERSO_PRECISIONS}
    full = {name: scored["texts"] for name, scored in found["float32"].items()}
    for of_sets in found.values():
        for name, scored in of_sets.items():
            pairs = list(zip(scored.pop("texts"), full[name], strict=True))
            scored["share_as_float32"] = round(sum(one == other for one, other in pairs) / len(pairs), 3)
    return found
