"""Corpora, batches, schedule and loss."""

from __future__ import annotations

import gzip
import lzma
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
import torch

from model.errors import ConfigError, DataError
from model.tokenizer import START_ID
from model.training.batches import BatchMaker
from model.training.corpus import detokenise, read_lines, read_parallel
from model.training.loss import label_smoothed_loss
from model.training.schedule import learning_rate
from model.training.settings import TrainingSettings
from tests.model.vocabulary import SENTENCES, TOKENIZER

ROOT = Path(__file__).resolve().parents[2]


def test_plain_gz_and_xz_are_read_alike(tmp_path: Path) -> None:
    text = "one\r\ntwo \u2028 still two\nthree"
    (tmp_path / "a.en").write_bytes(text.encode())
    (tmp_path / "b.en.gz").write_bytes(gzip.compress(text.encode()))
    (tmp_path / "c.en.xz").write_bytes(lzma.compress(text.encode()))
    for name in ("a.en", "b.en", "c.en"):
        assert read_lines(tmp_path / name) == ["one", "two \u2028 still two", "three"]


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("x.en", b"", "is empty"),
        ("x.en", b"\n  \n", "is empty"),
        ("x.en", b"good\nM\xfcnchen\n", "line 2 holds byte 0xfc"),
        ("x.en.gz", b"\x1f\x8b broken", "cannot be read or unpacked"),
        ("x.en.xz", b"broken", "cannot be read or unpacked"),
        ("other", b"x", "No text at"),
    ],
)
def test_a_file_that_cannot_be_used_says_why(name: str, content: bytes, said: str, tmp_path: Path) -> None:
    (tmp_path / name).write_bytes(content)
    with pytest.raises(DataError, match=said):
        read_lines(tmp_path / "x.en")


def test_two_files_must_line_up(tmp_path: Path) -> None:
    (tmp_path / "x.en").write_text("a\nb\n")
    (tmp_path / "x.de").write_text("a\n")
    with pytest.raises(DataError, match="2 lines of en and 1 of de"):
        read_parallel(tmp_path / "x", ("en", "de"))


def test_the_spaces_a_tokeniser_left_are_taken_out() -> None:
    assert detokenise("It 's , well ( so to say ) 5 % .") == "It's, well (so to say) 5%."


PAIRS = [(a, b) for a, b in zip(SENTENCES, reversed(SENTENCES), strict=True)] + [("cat " * 9, "Katze")]


def maker(**changes: Any) -> BatchMaker:
    values: dict[str, Any] = {"batch_tokens": 80, "max_tokens": 20, "seed": 3, **changes}
    return BatchMaker(PAIRS, ("en", "de"), [("en", "de"), ("de", "en")], TOKENIZER, **values)


def rows(batches: BatchMaker, epoch: int) -> Counter[tuple[tuple[int, ...], tuple[int, ...]]]:
    found: Counter[tuple[tuple[int, ...], tuple[int, ...]]] = Counter()
    for batch in batches.epoch(epoch):
        for source, target in zip(batch.source.tolist(), batch.target.tolist(), strict=True):
            found[tuple(i for i in source if i), tuple(i for i in target if i)] += 1
    return found


def test_an_epoch_has_every_example_once_in_both_directions() -> None:
    batches = maker()
    expected: Counter[tuple[tuple[int, ...], tuple[int, ...]]] = Counter()
    for english, german in PAIRS:
        for source, target, language in ((english, german, "de"), (german, english, "en")):
            ids = (tuple(TOKENIZER.encode(source, language)), (START_ID, *TOKENIZER.encode_target(target)))
            if max(len(ids[0]), len(ids[1]) - 1) <= 20:
                expected[ids] += 1
    assert rows(batches, 0) == rows(batches, 1) == expected
    assert batches.num_examples == sum(expected.values())
    assert batches.num_too_long == 2 * len(PAIRS) - batches.num_examples


def test_no_batch_exceeds_its_budget() -> None:
    for batch in maker().epoch(0):
        assert batch.source.size(0) * max(batch.source.size(1), batch.target.size(1) - 1) <= 80
        assert batch.num_target_tokens == int((batch.target[:, 1:] != 0).sum())


def test_skipped_batches_change_nothing_of_those_that_follow() -> None:
    options = {"subword_sampling": 0.5, "lowercase_share": 0.5}
    whole = list(maker(**options).epoch(2))
    rest = list(maker(**options).epoch(2, skip=3))
    assert len(rest) == len(whole) - 3
    for one, other in zip(whole[3:], rest, strict=True):
        assert torch.equal(one.target, other.target)


def test_another_epoch_or_seed_has_another_order() -> None:
    first = [batch.source.tolist() for batch in maker().epoch(0)]
    assert first == [batch.source.tolist() for batch in maker().epoch(0)]
    assert first != [batch.source.tolist() for batch in maker().epoch(1)]
    assert first != [batch.source.tolist() for batch in maker(seed=4).epoch(0)]


def test_a_bound_no_sentence_meets_is_refused() -> None:
    with pytest.raises(DataError, match="which is 2"):
        maker(max_tokens=2)


def test_the_rate_rises_linearly_falls_with_the_root_and_cools_down() -> None:
    def rate(step: int) -> float:
        return learning_rate(step, peak=1.0, warmup_steps=100, cooldown_steps=50, max_steps=500)

    assert rate(49) == pytest.approx(0.5)
    assert rate(99) == pytest.approx(1.0)
    assert rate(399) == pytest.approx(0.5)
    assert rate(474) < rate(449) * 0.6
    assert 0 < rate(499) < 0.02
    assert rate(449) == pytest.approx((100 / 450) ** 0.5)


@pytest.mark.parametrize("smoothing", [0.0, 0.1])
@pytest.mark.parametrize("chunk_rows", [3, 1000])
def test_the_loss_and_its_gradients_are_torchs(smoothing: float, chunk_rows: int) -> None:
    generator = torch.Generator().manual_seed(0)
    tensors = [torch.randn(*shape, generator=generator) for shape in ((10, 6), (9, 6), (9,))]
    targets = torch.randint(0, 9, (10,), generator=generator)
    ours = [tensor.clone().requires_grad_() for tensor in tensors]
    theirs = [tensor.clone().requires_grad_() for tensor in tensors]
    loss, nll = label_smoothed_loss(ours[0], ours[1], ours[2], targets, smoothing, chunk_rows)
    logits = theirs[0] @ theirs[1].T + theirs[2]
    expected = torch.nn.functional.cross_entropy(logits, targets, label_smoothing=smoothing, reduction="sum")
    torch.testing.assert_close(loss, expected)
    torch.testing.assert_close(nll, torch.nn.functional.cross_entropy(logits, targets, reduction="sum").detach())
    (loss / 7).backward()
    (expected / 7).backward()
    for one, other in zip(ours, theirs, strict=True):
        assert one.grad is not None
        torch.testing.assert_close(one.grad, other.grad)


VALID: dict[str, Any] = {"name": "x", "languages": ["en", "de"], "train": ["a"], "dev": "b"}


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"languages": ["en", "en"]}, "two different languages"),
        ({"train": []}, "train is empty"),
        ({"pairs": ["en-fr"]}, "en-fr"),
        ({"max_steps": 0}, "max_steps is 0; it must be at least 1"),
        ({"learning_rate": "fast"}, "learning_rate is 'fast'"),
        ({"label_smoothing": 0.95}, "0 to 0.9"),
        ({"cooldown_steps": 30000}, "cooldown_steps is 30000; it must be 0 to 20000"),
        ({"precision": "float8"}, "float8"),
        ({"batch_tokens": 50}, "would fit no batch"),
        ({"model": {"num_heads": 7}}, "does not divide"),
        ({"modle": {}}, "Unknown key 'modle'"),
        ({"train": [{"path": "a", "lang": "x"}]}, "not complete"),
    ],
)
def test_a_wrong_setting_is_named_with_its_bound(change: dict[str, Any], said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        TrainingSettings.from_dict({**VALID, **change})


def test_a_missing_key_or_a_file_that_is_no_mapping_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="name"):
        TrainingSettings.from_dict({key: value for key, value in VALID.items() if key != "name"})
    path = tmp_path / "c.yaml"
    for content, said in ((b"- a", "must be a mapping"), (b"a: [", "is no YAML"), (b"\xff\xfe", "not UTF-8")):
        path.write_bytes(content)
        with pytest.raises(ConfigError, match=said):
            TrainingSettings.load(path)


@pytest.mark.parametrize("path", sorted((ROOT / "configs").glob("*.yaml")), ids=lambda path: path.name)
def test_the_configurations_that_ship_are_valid(path: Path) -> None:
    assert TrainingSettings.load(path).name
