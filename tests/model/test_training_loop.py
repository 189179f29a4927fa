from __future__ import annotations

import csv
import hashlib
import math
import multiprocessing
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from model.artifacts.checkpoint import load_checkpoint, save_checkpoint
from model.artifacts.export import export_bundle
from model.artifacts.manifest import Manifest
from model.errors import ArtifactError, ConfigError
from model.network.quantised import int8_is_supported
from model.text.tokenizer import VersoTokenizer
from model.text.tokenizer_training import learn_tokenizer
from model.training import loop, update
from model.training.controls import Controls
from model.training.corpus import read_parallel, spread
from model.training.evaluation import dev_scores
from model.training.initial import fine_tuning_config, load_initial, with_vocabulary
from model.training.loop import train
from model.training.run_setup import LEXICON
from model.training.settings import CorpusSettings, TrainingSettings
from tests.toy import WORDS, write_toy

pytestmark = pytest.mark.thorough

BOTH = [("de", "en"), ("en", "de")]


@pytest.fixture(autouse=True)
def _undrawn(monkeypatch: pytest.MonkeyPatch) -> None:
    """Curves take longer to draw than a dozen updates; one test looks at its curve."""
    monkeypatch.setattr("model.plots.learning_curve", lambda rows, path: None)


def settings(folder: Path, **changes: object) -> TrainingSettings:
    """The toy's settings, short."""
    short = {"max_steps": 12, "evaluate_every": 6, "warmup_steps": 4, "cooldown_steps": 4, "dev_sentences": 6}
    return replace(TrainingSettings.load(write_toy(folder)), **{**short, **changes})  # type: ignore[arg-type]


def run(
    config: TrainingSettings,
    folder: Path,
    name: str = "run",
    stop_after_steps: int | None = None,
    init_from: Path | None = None,
    report: Callable[[str], None] = lambda line: None,
    tokenizer_dir: Path | None = None,
) -> Path:
    return train(
        config,
        folder,
        folder / name,
        tokenizer_dir=tokenizer_dir,
        init_from=init_from,
        show_progress=False,
        stop_after_steps=stop_after_steps,
        report=report,
    )


def weights_of(path: Path) -> dict[str, torch.Tensor]:
    return load_checkpoint(path).weights


def assert_same_weights(first: Path, other: Path, atol: float = 1e-6) -> None:
    torch.testing.assert_close(weights_of(first), weights_of(other), atol=atol, rtol=0)


def curve_of(folder: Path) -> list[dict[str, str]]:
    with (folder / "curve.csv").open(newline="") as source:
        return list(csv.DictReader(source))


@pytest.mark.sampled(1)
@pytest.mark.parametrize("changes", [{"subword_sampling": 0.3}, {"r_drop": 2.0}, {"optimizer": "muon"}], ids=str)
def test_an_interrupted_run_learns_and_ends_like_an_uninterrupted_one(
    changes: dict[str, object], tmp_path: Path
) -> None:
    config = settings(tmp_path, model={**settings(tmp_path).model, "dropout": 0.2}, **changes)
    process = run(config, tmp_path, "whole")
    stopped = [run(config, tmp_path, "parts", stop_after_steps=steps) for steps in (4, 1, 4)][-1]
    assert load_checkpoint(stopped).progress["step"] == 9
    assert_same_weights(run(config, tmp_path, "parts"), process)
    rows = curve_of(tmp_path / "whole")
    assert float(rows[1]["train_loss"]) < float(rows[0]["train_loss"]) < math.log(300) + 1
    for first, other in zip(rows, curve_of(tmp_path / "parts"), strict=True):
        for column in ("epoch", "train_loss", "dev_loss", "bleu_en-de", "bleu_de-en", "learning_rate"):
            assert float(first[column]) == pytest.approx(float(other[column]), abs=1e-6)


def test_a_run_writes_a_curve_and_checkpoints(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()  # it is drawn
    averaged = run(settings(tmp_path), tmp_path)
    folder = tmp_path / "run"
    assert averaged == folder / loop.AVERAGED
    assert (folder / "curve.png").read_bytes().startswith(b"\x89PNG")
    rows = curve_of(folder)
    assert [row["step"] for row in rows] == ["6", "12"]
    assert float(rows[1]["dev_loss"]) < float(rows[0]["dev_loss"])
    stored = [load_checkpoint(path).weights for path in sorted(folder.glob("step-*.pt"))]
    assert len(stored) == 2
    for name, value in weights_of(averaged).items():
        torch.testing.assert_close(value, (stored[0][name] + stored[1][name]) / 2)
    facts = load_checkpoint(averaged).facts
    assert facts["licence"] == "CC0"
    assert len(facts["dev_sample"]) == 6


def test_accumulated_gradients_equal_those_of_a_large_batch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # Adam's first step is the sign of the gradient, which depends on rounding if the gradient is zero.
    monkeypatch.setattr(torch.optim, "AdamW", lambda parameters, lr, **others: torch.optim.SGD(parameters, lr=lr))
    # One epoch is three batches here, so that accumulating three sees the same sentences in any order.
    for language in ("en", "de"):
        (tmp_path / f"few.{language}").write_text("cat sees dog\nold house likes\nred tree\n")
    config = settings(tmp_path, max_steps=1, evaluate_every=1, average=1, cooldown_steps=0, warmup_steps=1)
    tokenizer = run(config, tmp_path, "tokens").parent / "tokenizer.model"
    few = replace(config, train=(CorpusSettings("few"),), tokenizer=str(tokenizer), pairs=("en-de",))
    large = run(replace(few, batch_tokens=600), tmp_path, "large")
    small = run(replace(few, batch_tokens=24, accumulate=3), tmp_path, "small")
    assert_same_weights(small, large, atol=1e-5)


@pytest.mark.slow
def test_a_run_stops_early_when_bleu_stops_rising(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    bleu = iter([3.0, 5.0, 4.0, 5.0, 4.5, 9.0, 9.0, 9.0])
    monkeypatch.setattr(loop, "dev_scores", lambda *args: {"dev_loss": 1.0, "bleu_en-de": next(bleu)})
    run(settings(tmp_path, max_steps=40, evaluate_every=2, patience=3, cooldown_steps=0), tmp_path)
    rows = curve_of(tmp_path / "run")
    assert [float(row["bleu_en-de"]) for row in rows] == [3.0, 5.0, 4.0, 5.0, 4.5]
    assert load_checkpoint(tmp_path / "run" / loop.BEST).facts["step"] == 4


def test_a_full_disk_keeps_the_last_complete_checkpoint(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    config = settings(tmp_path)
    last = run(config, tmp_path, stop_after_steps=6)
    before = last.read_bytes()

    def no_space(*args: object, **options: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(torch, "save", no_space)
    with pytest.raises(ArtifactError, match=r"No space left.*previous one is intact"):
        run(config, tmp_path)
    assert last.read_bytes() == before


def test_a_run_that_diverges_is_stopped_with_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    nan = torch.tensor(math.nan, requires_grad=True)
    monkeypatch.setattr(update, "label_smoothed_loss", lambda *args: (nan * 1.0, nan.detach()))
    with pytest.raises(ArtifactError, match="Lower learning_rate"):
        run(settings(tmp_path), tmp_path)


def test_changed_settings_of_a_resumed_run_are_reported(tmp_path: Path) -> None:
    news: list[str] = []
    config = settings(tmp_path)
    run(config, tmp_path, stop_after_steps=2)
    changed = replace(config, max_steps=4, label_smoothing=0.2)
    run(changed, tmp_path, stop_after_steps=1, report=news.append)
    assert "max_steps was 12 and is 4 from here on" in news
    assert "label_smoothing was 0.1 and is 0.2 from here on" in news
    news.clear()
    run(changed, tmp_path, report=news.append)
    assert not any("from here on" in line for line in news)


def test_muon_updates_the_weights_inside_the_layers_and_adamw_all_others(tmp_path: Path) -> None:
    config = settings(tmp_path, optimizer="muon")
    process = run(config, tmp_path, "whole")
    optimizers = load_checkpoint(tmp_path / "whole" / "last.pt").progress["optimizers"]
    momenta = [state["momentum_buffer"].shape for state in optimizers["muon"]["state"].values()]
    shapes = [
        weight.shape
        for name, weight in weights_of(process).items()
        if name.startswith(("encoder.", "decoder.")) and weight.ndim == 2
    ]
    assert sorted(momenta) == sorted(shapes)
    assert len(momenta) + len(optimizers["adamw"]["state"]) == len(weights_of(process))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"optimizer": "muon"}, r"optimizer is 'muon', but .* was trained with 'adamw'"),
        ({"vocab_size": 310}, r"vocab_size is 310, but .* began with 300"),
        (
            {"model": {"d_model": 32, "num_heads": 2, "d_ff": 96, "dropout": 0.3}},
            r"another architecture, with d_ff \d+, not 96, .*dropout \S+, not 0\.3, .*; set",
        ),
    ],
    ids=["optimizer", "vocabulary", "architecture"],
)
def test_a_run_that_cannot_go_on_is_refused_before_its_text_is_read(
    tmp_path: Path, changes: dict[str, object], message: str
) -> None:
    config = settings(tmp_path)
    run(config, tmp_path, stop_after_steps=1)
    missing = (CorpusSettings("nowhere"),)
    with pytest.raises(ConfigError, match=message) as refusal:
        run(replace(config, train=missing, **changes), tmp_path)  # type: ignore[arg-type]
    assert "folder of its own" in str(refusal.value)


@pytest.mark.slow
def test_batches_of_a_process_beside_training_are_those_of_a_thread(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    process = run(settings(tmp_path), tmp_path, "whole")
    monkeypatch.setattr(loop, "PIECE", 1)
    run(settings(tmp_path), tmp_path, "parts", stop_after_steps=5)
    parts = run(settings(tmp_path), tmp_path, "parts")
    assert_same_weights(parts, process, atol=0.0)
    assert not multiprocessing.active_children()


def test_a_checkpoint_without_a_position_in_pieces_begins_its_epoch_again(tmp_path: Path) -> None:
    config, lines = settings(tmp_path), list[str]()
    last = run(config, tmp_path, stop_after_steps=4)
    checkpoint = load_checkpoint(last)
    progress = {key: value for key, value in checkpoint.progress.items() if "piece" not in key}
    save_checkpoint(replace(checkpoint, progress={**progress, "batch_in_epoch": 2}), last)
    run(config, tmp_path, report=lines.append)
    assert any("its epoch begins again" in line for line in lines)


@pytest.mark.slow
def test_a_run_without_a_recorded_optimiser_resumes(tmp_path: Path) -> None:
    config = settings(tmp_path)
    process = run(config, tmp_path, "whole")
    last = run(config, tmp_path, "parts", stop_after_steps=5)
    checkpoint = load_checkpoint(last)
    progress = {**checkpoint.progress}
    progress["optimizer"] = progress.pop("optimizers")["adamw"]
    save_checkpoint(replace(checkpoint, progress=progress), last)
    parts = run(config, tmp_path, "parts")
    assert_same_weights(parts, process)


def without_model(config: TrainingSettings, **changes: object) -> TrainingSettings:
    """Settings without architecture and vocabulary."""
    return replace(config, vocab_size=TrainingSettings.vocab_size, **{"model": {}, **changes})  # type: ignore[arg-type]


def test_fine_tuning_starts_from_the_weights_of_the_other_run(
    toy_checkpoint: Path, toy_bundle: Path, tmp_path: Path
) -> None:
    config = without_model(
        settings(tmp_path), max_steps=2, evaluate_every=1, cooldown_steps=0, dev_sentences=20, average=1
    )
    checkpoint = load_checkpoint(toy_checkpoint)
    held_out = {"dev": spread(read_parallel(tmp_path / "dev", ("en", "de")), 20)}
    expected = dev_scores(checkpoint.build(), checkpoint.tokenizer, held_out, ("en", "de"), BOTH)
    for name, path in (("checkpoint", toy_checkpoint), ("bundle", toy_bundle)):
        tuned = load_checkpoint(run(config, tmp_path, name, init_from=path))
        first = curve_of(tmp_path / name)[0]
        assert first["step"] == "0"
        assert float(first["dev_loss"]) == pytest.approx(expected["dev_loss"], abs=1e-5)
        assert float(first["bleu_en-de"]) == pytest.approx(expected["bleu_en-de"], abs=1e-6)
        assert first["train_loss"] == ""
        assert tuned.config == checkpoint.config
        assert tuned.own_tokenizer.model_proto == checkpoint.own_tokenizer.model_proto
        # The initial checkpoint is not part of the final average, and the manifest names it.
        assert sorted(file.name for file in (tmp_path / name).glob("step-*.pt")) == ["step-0000002.pt"]
        origin = {"name": "toy", "sha256": hashlib.sha256(path.read_bytes()).hexdigest()}
        assert Manifest.of_checkpoint(tuned.facts, tuned.config, "float32").training["initialised_from"] == origin


def test_fine_tuning_resumes_from_its_own_checkpoint(toy_checkpoint: Path, tmp_path: Path) -> None:
    start = tmp_path / "start.pt"
    shutil.copy(toy_checkpoint, start)
    config = without_model(settings(tmp_path), model={"dropout": 0.1})
    process = run(config, tmp_path, "whole", init_from=start)
    run(config, tmp_path, "parts", stop_after_steps=5, init_from=start)
    run(config, tmp_path, "parts", stop_after_steps=2, init_from=start)
    start.unlink()
    for again in (None, start):  # it is no longer needed, but may be given
        run(config, tmp_path, "parts", stop_after_steps=1, init_from=again)
    parts = run(config, tmp_path, "parts")
    assert_same_weights(parts, process)


def test_fine_tuning_can_give_the_model_another_vocabulary(toy_checkpoint: Path, tmp_path: Path) -> None:
    config = without_model(
        settings(tmp_path), max_steps=2, evaluate_every=2, cooldown_steps=0, average=1, tokenizer="other.model"
    )
    checkpoint = load_checkpoint(toy_checkpoint)
    other = learn_tokenizer([*WORDS, *WORDS.values()], 285, ["en", "de"], normalisation="nfc")
    (tmp_path / "other.model").write_bytes(other.model_proto)
    tuned = load_checkpoint(run(config, tmp_path, "paused", 1, toy_checkpoint, tokenizer_dir=tmp_path))
    assert tuned.own_tokenizer.model_proto == other.model_proto
    assert tuned.config == replace(checkpoint.config, source_vocab_size=285, target_vocab_size=285)
    with pytest.raises(ConfigError, match=r"tokenizer is 'new.model', but .* began with 'other.model'"):
        run(replace(config, tokenizer="new.model"), tmp_path, "paused", tokenizer_dir=tmp_path)
    assert load_checkpoint(run(config, tmp_path, "paused")).config == tuned.config


def test_another_vocabulary_keeps_the_vectors_of_equal_tokens_and_takes_means_for_others(toy_checkpoint: Path) -> None:
    initial = load_initial(toy_checkpoint)
    old = initial.tokenizer
    assert isinstance(old, VersoTokenizer)
    other = learn_tokenizer([*WORDS, *WORDS.values()], 400, ["en", "de"], kind="char", reserve_symbols=True)
    changed = with_vocabulary(initial, other)
    ids = other.counterparts(old)
    for name in ("source_embedding.tokens.weight", "output.bias"):
        before, after = initial.weights[name], changed.weights[name]
        assert len(after) == other.vocab_size == changed.config.source_vocab_size
        assert after.isfinite().all()
        for token_id, former_ids in enumerate(ids):
            if former_ids:
                torch.testing.assert_close(after[token_id], before[former_ids].mean(0))
    for name in initial.weights.keys() - {"source_embedding.tokens.weight", "output.bias"}:
        assert changed.weights[name] is initial.weights[name]
    with pytest.raises(ConfigError, match="one vocabulary for source and target; leave it out"):
        with_vocabulary(initial, VersoTokenizer(other.model_proto, other.model_proto))


def test_a_run_cannot_resume_with_another_initial_checkpoint(
    toy_checkpoint: Path, toy_bundle: Path, tmp_path: Path
) -> None:
    config = settings(tmp_path)
    run(config, tmp_path, "afresh", stop_after_steps=1)
    with pytest.raises(ConfigError, match="began with random weights"):
        run(config, tmp_path, "afresh", init_from=toy_checkpoint)
    run(without_model(config), tmp_path, "tuned", stop_after_steps=1, init_from=toy_checkpoint)
    with pytest.raises(ConfigError, match="is another file"):
        run(without_model(config), tmp_path, "tuned", init_from=toy_bundle)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"model": {"d_ff": 96}}, "model asks for d_ff 96, but the model to start from has 64"),
        ({"vocab_size": 400}, "vocab_size is 400, but the vocabulary has the 300 tokens of the model to start from"),
        ({"max_tokens_per_sentence": 100}, "positions for 64 tokens"),
        ({"languages": ("en", "fr"), "pairs": ("en-fr",)}, "translations to 'fr'.*can be asked for de, en only"),
    ],
    ids=lambda value: next(iter(value)) if isinstance(value, dict) else "",
)
def test_settings_that_contradict_the_model_to_start_from_are_refused(
    changes: dict[str, object], message: str, toy_checkpoint: Path
) -> None:
    checkpoint = load_checkpoint(toy_checkpoint)
    config = TrainingSettings.from_dict({"name": "x", "languages": ["en", "de"], "train": ["a"], "dev": "b"})
    config = replace(config, **{"max_tokens_per_sentence": 20, "pairs": ("en-de",), **changes})  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match=message):
        fine_tuning_config(config, checkpoint.config, checkpoint.tokenizer)


def test_an_invalid_initial_checkpoint_is_refused(toy_checkpoint: Path, tmp_path: Path) -> None:
    config = without_model(settings(tmp_path))
    torn = tmp_path / "torn.pt"
    torn.write_bytes(toy_checkpoint.read_bytes()[:5000])
    (tmp_path / "text.pt").write_text("no model")
    for path, message in (
        (tmp_path / "nowhere.pt", "nowhere.pt cannot be read"),
        (torn, "cut short"),
        (tmp_path / "text.pt", "neither bundle nor checkpoint"),
        (tmp_path, "is a folder.*verso import"),
    ):
        with pytest.raises(ArtifactError, match=message):
            run(config, tmp_path, "new", init_from=path)


@pytest.mark.skipif(not int8_is_supported(), reason="no int8 kernels")
def test_fine_tuning_from_rounded_weights_is_refused(toy_checkpoint: Path, tmp_path: Path) -> None:
    rounded = tmp_path / "int8.pt"
    checkpoint = load_checkpoint(toy_checkpoint)
    export_bundle(
        replace(checkpoint, facts={**checkpoint.facts, "dev_sample": []}), "int8", rounded, report=lambda line: None
    )
    with pytest.raises(ArtifactError, match=r"int8 bundle.*--precision float32"):
        load_initial(rounded)


def test_several_held_out_texts_are_scored_individually_and_on_average(tmp_path: Path) -> None:
    config = replace(
        settings(tmp_path), dev=("dev", "train"), dev_sentences=6, max_steps=1, cooldown_steps=0, average=1
    )
    run(config, tmp_path, "several")
    (row,) = curve_of(tmp_path / "several")
    for key in ("dev_loss", "bleu_en-de", "bleu_de-en"):
        assert float(row[key]) == pytest.approx((float(row[f"{key}/dev"]) + float(row[f"{key}/train"])) / 2)


def test_a_run_that_tells_placeholders_keeps_its_lexicon_and_resumes(tmp_path: Path) -> None:
    config = settings(tmp_path)
    config = replace(
        config,
        vocab_size=config.vocab_size + 64,
        reserve_symbols=True,
        controls=Controls(placeholders=0.4, glossary=0.2, formality=0.5),
        max_steps=2,
        evaluate_every=2,
        cooldown_steps=0,
        average=1,
    )
    run(config, tmp_path, "paused", stop_after_steps=1)
    learned = (tmp_path / "paused" / LEXICON).read_bytes()
    resumed = load_checkpoint(run(config, tmp_path, "paused"))
    assert (tmp_path / "paused" / LEXICON).read_bytes() == learned
    through = load_checkpoint(run(config, tmp_path, "through"))
    for name, weight in through.weights.items():
        assert torch.equal(weight, resumed.weights[name])
