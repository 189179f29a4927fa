from __future__ import annotations

from pathlib import Path

import pytest

from model.errors import ArtifactError, ConfigError, DataError
from model.tokenizer import END_ID, PAD_ID, START_ID, UNKNOWN_ID, Tokenizer, learn_tokenizer
from tests.model.vocabulary import SENTENCES, TOKENIZER


@pytest.fixture(scope="module")
def tokenizer() -> Tokenizer:
    return TOKENIZER


def test_a_source_is_marker_pieces_end(tokenizer: Tokenizer) -> None:
    ids = tokenizer.encode("cat Katze.", "de")
    assert tokenizer.pieces(ids[:1]) == ["<2de>"]
    assert ids[-1] == END_ID
    assert tokenizer.decode(ids) == "cat Katze."
    assert tokenizer.encode_target("cat Katze.") == ids[1:]
    assert tokenizer.languages == ("de", "en")


@pytest.mark.parametrize("text", ["cat Hund.", "na\u00efve \U0001f600 cat", "\u4f60\u597d", "a\tb", "1234"])
def test_what_the_vocabulary_lacks_becomes_bytes_and_comes_back(text: str, tokenizer: Tokenizer) -> None:
    ids = tokenizer.encode_target(text)
    assert UNKNOWN_ID not in ids
    assert tokenizer.decode(ids) == text.replace("\t", " ")


def test_offsets_point_at_the_characters_a_piece_came_from(tokenizer: Tokenizer) -> None:
    text = "cat  H\u00e4und \U0001f600 tree."
    ids, spans = tokenizer.encode_with_offsets(text, "en")
    assert ids == tokenizer.encode(text, "en")
    assert len(spans) == len(ids)
    assert spans[0] == (0, 0)
    assert spans[-1] == (len(text), len(text))
    for piece, (start, end) in zip(tokenizer.pieces(ids)[1:-1], spans[1:-1], strict=True):
        if not piece.startswith("<0x"):
            assert text[start:end] == piece.replace("\u2581", "")
    covered = {place for start, end in spans for place in range(start, end)}
    assert covered >= {place for place, character in enumerate(text) if not character.isspace()}


def test_offsets_of_a_decoded_text_point_into_it(tokenizer: Tokenizer) -> None:
    ids = tokenizer.encode_target("old tree Haus.")[:-1]
    text, spans = tokenizer.decode_with_offsets(ids)
    assert text == "old tree Haus."
    assert [text[start:end] for start, end in spans] == [piece.replace("\u2581", "") for piece in tokenizer.pieces(ids)]


def test_special_tokens_are_never_part_of_a_translation(tokenizer: Tokenizer) -> None:
    assert (tokenizer.pad_id, tokenizer.start_id, tokenizer.end_id) == (PAD_ID, START_ID, END_ID) == (0, 2, 3)
    assert set(tokenizer.never_generated) == {
        PAD_ID,
        UNKNOWN_ID,
        START_ID,
        *tokenizer.encode("", "de")[:1],
        *tokenizer.encode("", "en")[:1],
    }


def test_a_marker_typed_by_a_user_is_text(tokenizer: Tokenizer) -> None:
    marker = tokenizer.encode("", "en")[0]
    assert marker not in tokenizer.encode_target("<2en> cat </s>")[:-1]


def test_sampled_pieces_spell_the_same_text(tokenizer: Tokenizer) -> None:
    cuts = {tuple(tokenizer.encode_sampled("sees house Katze.", "de", alpha=0.1, seed=seed)) for seed in range(20)}
    assert len(cuts) > 1
    assert {tokenizer.decode(cut) for cut in cuts} == {"sees house Katze."}


def test_a_vocabulary_larger_than_the_text_allows_is_refused_with_the_bound() -> None:
    with pytest.raises(ConfigError, match=r"vocabulary of 9999 cannot be learned .* at most \d+"):
        learn_tokenizer(SENTENCES, 9999, ["de"])


def test_a_vocabulary_too_small_for_the_characters_is_refused_with_the_bound() -> None:
    with pytest.raises(ConfigError, match=r"vocabulary of 270 .* alone are \d+; raise vocab_size"):
        learn_tokenizer(SENTENCES, 270, ["de"])


def test_no_text_is_refused() -> None:
    with pytest.raises(DataError, match="every line is empty"):
        learn_tokenizer(["", "  "], 300, ["de"])


def test_a_damaged_or_missing_tokenizer_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ArtifactError, match="damaged"):
        Tokenizer(b"nonsense")
    with pytest.raises(ArtifactError, match="cannot be read"):
        Tokenizer.load(tmp_path / "nowhere.model")


def test_an_unknown_target_language_is_named(tokenizer: Tokenizer) -> None:
    with pytest.raises(ArtifactError, match=r"'fr'; it has de, en"):
        tokenizer.encode("cat", "fr")
