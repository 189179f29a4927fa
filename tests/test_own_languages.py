"""From two files in other languages than English and German to a served bundle, by the commands of the documents."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from model.__main__ import main
from model.scores import score
from model.training.corpus import read_parallel, unseen
from tests.grammar import write_text
from tests.server import served

EO_IT = ("eo", "it")

FEW_UPDATES = {
    "max_steps": 360,
    "warmup_steps": 60,
    "cooldown_steps": 120,
    "evaluate_every": 120,
    "average": 2,
    "threads": 1,  # so small a model gains little from more, and waits for them if the machine is busy
}
"""Enough for a text of 50 different words."""


@pytest.mark.slow
def test_two_files_become_a_served_translator(tmp_path: Path) -> None:
    source, target = write_text(tmp_path, 4000)
    data, run, bundle = tmp_path / "data", tmp_path / "run", tmp_path / "eo-it.pt"
    assert (
        main(["prepare", "--source", str(source), "--target", str(target), "--out", str(data), "--device", "cpu"]) == 0
    )
    configuration = data / "train.yaml"
    settings = {**yaml.safe_load(configuration.read_text(encoding="utf-8")), **FEW_UPDATES}
    configuration.write_text(yaml.safe_dump(settings), encoding="utf-8")
    train = [
        "train",
        "--config",
        str(configuration),
        "--data",
        str(data),
        "--run",
        str(run),
        "--device",
        "cpu",
        "--quiet",
    ]
    assert main(train) == 0
    assert (run / "curve.png").exists()
    export = ["export", "--checkpoint", str(run / "averaged.pt"), "--precision", "float32", "--device", "cpu"]
    assert main([*export, "--out", str(bundle)]) == 0

    pairs = read_parallel(data / "test", EO_IT)
    assert len(pairs) >= 80
    assert unseen(pairs, read_parallel(data / "train", EO_IT)) == pairs
    with served(bundle) as server:
        for source_language, target_language, sides in (
            ("eo", "it", pairs),
            ("it", "eo", [pair[::-1] for pair in pairs]),
        ):
            body = {"text": [side for side, _ in sides], "source": source_language, "target": target_language}
            answer = server.client.post("/translate", json=body).json()
            texts = [translation["text"] for translation in answer["translations"]]
            assert score(texts, [reference for _, reference in sides]).bleu > 90.0
