"""Text to ids and back: lossless, with correct offsets; invalid files are refused."""

from __future__ import annotations

import io
from itertools import chain
from pathlib import Path

import pytest
import sentencepiece
from hypothesis import given
from hypothesis import strategies as st
from sentencepiece import sentencepiece_model_pb2

from model.errors import ArtifactError, ConfigError
from model.text.known_characters import KnownCharacters
from model.text.symbols import Symbol, placeholder, reserved_symbols
from model.text.tokenizer import END_ID, PAD_ID, START_ID, UNKNOWN_ID, VersoTokenizer
from model.text.tokenizer_training import learn_tokenizer
from tests.model.vocabulary import SENTENCES, TOKENIZER


@pytest.fixture(scope="module")
def tokenizer() -> VersoTokenizer:
    return TOKENIZER


def test_a_source_is_marker_pieces_and_end_token(tokenizer: VersoTokenizer) -> None:
    ids = tokenizer.encode("cat Katze.", "de")
    assert tokenizer.pieces(ids[:1]) == ["<2de>"]
    assert ids[-1] == END_ID
    assert tokenizer.decode(ids) == "cat Katze."
    assert tokenizer.encode_target("cat Katze.") == ids[1:]
    assert tokenizer.languages == ("de", "en")


@pytest.mark.parametrize("text", ["cat Hund.", "na\u00efve \U0001f600 cat", "\u4f60\u597d", "a\tb", "1234"])
def test_unknown_characters_round_trip_as_bytes(text: str, tokenizer: VersoTokenizer) -> None:
    ids = tokenizer.encode_target(text)
    assert UNKNOWN_ID not in ids
    assert tokenizer.decode(ids) == text.replace("\t", " ")


def test_offsets_give_the_characters_of_a_piece(tokenizer: VersoTokenizer) -> None:
    text = "cat  H\u00e4und \U0001f600 tree."
    ids, spans = tokenizer.encode_with_offsets(text, "en")
    assert ids == tokenizer.encode(text, "en")
    assert len(spans) == len(ids)
    assert spans[0] == (0, 0)
    assert spans[-1] == (len(text), len(text))
    for piece, (start, end) in zip(tokenizer.pieces(ids)[1:-1], spans[1:-1], strict=True):
        if not piece.startswith("<0x"):
            assert text[start:end] == piece.replace("\u2581", "")
    covered = {position for start, end in spans for position in range(start, end)}
    assert covered >= {position for position, character in enumerate(text) if not character.isspace()}


def test_offsets_of_a_decoded_text_refer_to_it(tokenizer: VersoTokenizer) -> None:
    ids = tokenizer.encode_target("old tree Haus.")[:-1]
    text, spans = tokenizer.decode_with_offsets(ids)
    assert text == "old tree Haus."
    assert [text[start:end] for start, end in spans] == [piece.replace("\u2581", "") for piece in tokenizer.pieces(ids)]


@given(st.text(alphabet=st.sampled_from([*"abcKH .,!1\t\u00e4\u00df\u4f60\u00a0", "\U0001f600"]), max_size=30))
def test_spans_are_in_order_and_cover_every_visible_character(text: str) -> None:
    ids, spans = TOKENIZER.encode_with_offsets(text, "de")
    assert ids == TOKENIZER.encode(text, "de")
    position = 0
    covered = ""
    for start, end in spans:
        assert position <= start <= end <= len(text)
        covered += text[start:end]
        position = end
    assert "".join(covered.split()) == "".join(text.split())


@pytest.mark.parametrize(
    "emoji",
    ["\U0001f600", "\U0001f44d\U0001f3fd", "\U0001f468\u200d\U0001f469", "\U0001f1e9\U0001f1ea"],
)
def test_an_emoji_round_trips_as_bytes_and_their_spans_cover_it(emoji: str, tokenizer: VersoTokenizer) -> None:
    text = f"cat {emoji} tree"
    ids = tokenizer.encode_target(text)
    assert sum(piece.startswith("<0x") for piece in tokenizer.pieces(ids)) >= 4
    assert tokenizer.decode(ids) == text
    decoded, spans = tokenizer.decode_with_offsets(ids)
    assert decoded == text
    assert "".join(decoded[start:end] for start, end in spans) == text.replace(" ", "")


def test_invalid_bytes_become_a_replacement_character(tokenizer: VersoTokenizer) -> None:
    ids = tokenizer.encode_target("\U0001f600")
    (first,) = [i for i in ids if tokenizer.pieces([i]) == ["<0xF0>"]]
    text, spans = tokenizer.decode_with_offsets([first, *tokenizer.encode_target("cat")])
    assert text.startswith("\ufffd")
    assert text.endswith("cat")
    assert text[slice(*spans[0])] == "\ufffd"


def test_characters_expanded_by_normalisation_refer_to_their_original(tokenizer: VersoTokenizer) -> None:
    text = "\uff43\uff41\uff54 \u2026 cat"  # full-width letters, and one character that becomes three
    ids, spans = tokenizer.encode_with_offsets(text, "de")
    assert tokenizer.decode(ids[1:]) == "cat ... cat"
    assert "".join(text[start:end] for start, end in spans) == text.replace(" ", "")


def test_special_tokens_are_not_in_a_translation(tokenizer: VersoTokenizer) -> None:
    assert (tokenizer.pad_id, tokenizer.start_id, tokenizer.end_id) == (PAD_ID, START_ID, END_ID) == (0, 2, 3)
    assert set(tokenizer.never_generated) == {
        PAD_ID,
        UNKNOWN_ID,
        START_ID,
        *tokenizer.encode("", "de")[:1],
        *tokenizer.encode("", "en")[:1],
    }


def test_a_marker_typed_by_a_user_is_text(tokenizer: VersoTokenizer) -> None:
    marker = tokenizer.encode("", "en")[0]
    assert marker not in tokenizer.encode_target("<2en> cat </s>")[:-1]


def test_sampled_pieces_decode_to_the_same_text(tokenizer: VersoTokenizer) -> None:
    cuts = {tuple(tokenizer.encode_sampled("sees house Katze.", "de", alpha=0.1, seed=seed)) for seed in range(20)}
    assert len(cuts) > 1
    assert {tokenizer.decode(cut) for cut in cuts} == {"sees house Katze."}


def test_a_vocabulary_larger_than_the_text_allows_is_refused_with_the_bound() -> None:
    with pytest.raises(ConfigError, match=r"vocabulary of 9999 cannot be learned .* at most \d+"):
        learn_tokenizer(SENTENCES, 9999, ["de"])


def test_a_vocabulary_too_small_for_the_characters_is_refused_with_the_bound() -> None:
    with pytest.raises(ConfigError, match=r"vocabulary of 270 .* alone are \d+; raise vocab_size"):
        learn_tokenizer(SENTENCES, 270, ["de"])


@pytest.mark.parametrize("code", ["DE", "german", "d", "zh-Hans", ""])
def test_an_invalid_language_code_is_refused(code: str) -> None:
    with pytest.raises(ConfigError, match=f"'{code}' is not a language code"):
        learn_tokenizer(SENTENCES, 290, ["en", code])


def test_the_same_text_gives_the_same_tokenizer() -> None:
    assert learn_tokenizer(iter(SENTENCES), 290, ["de", "en"]).model_proto == TOKENIZER.model_proto


def test_a_vocabulary_has_the_requested_size_and_every_byte() -> None:
    assert TOKENIZER.vocab_size == 290
    pieces = TOKENIZER.pieces(range(290))
    assert [piece for piece in pieces if piece.startswith("<0x")] == [f"<0x{byte:02X}>" for byte in range(256)]


@pytest.mark.parametrize("length", [0, 1, 100, 5000, -1])
def test_a_damaged_tokenizer_is_refused(length: int) -> None:
    with pytest.raises(ArtifactError, match="tokenizer is damaged"):
        VersoTokenizer(TOKENIZER.model_proto[:length])


def test_a_piece_that_is_no_text_is_refused() -> None:
    content, piece = TOKENIZER.model_proto, "\u2581H".encode()
    assert content.count(piece) == 1
    with pytest.raises(ArtifactError, match="tokenizer is damaged: it has pieces that are not UTF-8"):
        VersoTokenizer(content.replace(piece, b"\xff" * len(piece)))


def test_a_sentencepiece_model_of_another_project_is_refused_with_its_ids() -> None:
    sink = io.BytesIO()
    sentencepiece.SentencePieceTrainer.Train(
        sentence_iterator=iter(SENTENCES), model_writer=sink, vocab_size=40, hard_vocab_limit=False, minloglevel=2
    )
    with pytest.raises(ArtifactError, match=r"ids are \(-1, 0, 1, 2\), but this model format needs \(0, 1, 2, 3\)"):
        VersoTokenizer(sink.getvalue())


def test_a_file_is_read_and_a_missing_one_is_named(tmp_path: Path) -> None:
    (tmp_path / "t.model").write_bytes(TOKENIZER.model_proto)
    assert VersoTokenizer.load(tmp_path / "t.model").encode("cat", "de") == TOKENIZER.encode("cat", "de")
    with pytest.raises(ArtifactError, match=r"nowhere\.model cannot be read: No such file"):
        VersoTokenizer.load(tmp_path / "nowhere.model")


def test_a_character_vocabulary_has_a_token_for_each_letter_and_none_for_the_leading_space() -> None:
    tokenizer = learn_tokenizer(["ab", "ba c"], 300, ["de"], kind="char")
    assert tokenizer.is_char and not TOKENIZER.is_char
    assert tokenizer.pieces(tokenizer.encode("abc", "de")) == ["<2de>", "a", "b", "c", "</s>"]
    assert tokenizer.decode(tokenizer.encode_target("ab c \U0001f600")) == "ab c \U0001f600"
    assert tokenizer.encode_with_offsets("ab c", "de")[1] == [(0, 0), (0, 1), (1, 2), (3, 3), (3, 4), (4, 4)]
    assert tokenizer.vocab_size == 4 + 1 + 256 + 4  # a space, whether the text has one or not


def test_targets_may_have_a_separate_vocabulary() -> None:
    sources = learn_tokenizer(["abc"], 300, ["de"], kind="char")
    targets = learn_tokenizer(["xyzv"], 300, [], kind="char")
    both = VersoTokenizer(sources.model_proto, targets.model_proto)
    assert (both.vocab_size, both.target_vocab_size) == (sources.vocab_size, targets.vocab_size)
    assert both.encode("abc", "de") == sources.encode("abc", "de")
    ids = both.encode_target("xyz")
    assert ids == targets.encode_target("xyz")
    assert both.decode(ids) == "xyz"
    assert both.decode_with_offsets(ids[:3]) == ("xyz", [(0, 1), (1, 2), (2, 3)])
    assert both.target_pieces(ids) == ["x", "y", "z", "</s>"]
    assert both.never_generated == (PAD_ID, UNKNOWN_ID, START_ID)


def test_reserved_symbols_are_never_read_from_a_text_nor_generated() -> None:
    tokenizer = learn_tokenizer(SENTENCES, 350, ["de", "en"], reserve_symbols=True)
    assert len(reserved_symbols()) == len(set(reserved_symbols())) == 64
    for symbol in reserved_symbols():
        ids = tokenizer.encode(f"{symbol} x", "de")
        assert symbol not in tokenizer.pieces(ids)
        (put_in,) = set(tokenizer.tagged(ids, symbol)) - set(ids)
        assert tokenizer.pieces([put_in]) == [symbol]
        assert put_in in tokenizer.never_generated


def test_nfc_keeps_the_visible_text_and_composes_accents() -> None:
    tokenizer = learn_tokenizer(SENTENCES, 290, ["de", "en"], normalisation="nfc")
    stored = "½ ﬁ … ² № 日本 🙂 „x“"
    assert tokenizer.decode(tokenizer.encode_target(stored)) == stored
    assert tokenizer.decode(tokenizer.encode_target("a\u0308 e\u0323\u0302 \u212b")) == "ä \u1ec7 Å"
    assert tokenizer.decode(tokenizer.encode_target("a\u00a0b\u2009c\td\u00ad\u200be\ufeff")) == "a b c de"


def test_required_characters_get_a_piece() -> None:
    tokenizer = learn_tokenizer(SENTENCES, 290, ["de", "en"], required_characters="€ñ")
    assert {"€", "ñ"} <= set(tokenizer.pieces(tokenizer.encode("€ñ", "de")))


def test_text_behind_a_symbol_is_cut_like_a_word_and_punctuation_stays_attached() -> None:
    tokenizer = learn_tokenizer(SENTENCES, 350, ["de", "en"], reserve_symbols=True)
    opening, closed = Symbol(placeholder(0)), Symbol(placeholder(15))
    ids = tokenizer.encode_parts(["cat ", opening, "Katze", closed, "."], "de")
    pieces = tokenizer.pieces(ids)
    assert pieces[0] == "<2de>" and pieces[-1] == "</s>"
    assert tokenizer.encode("cat", "de")[:-1] == ids[: pieces.index("<ph0>")]
    between = ids[pieces.index("<ph0>") + 1 : pieces.index("<ph15>")]

    assert between == tokenizer.encode("Katze", "de")[1:-1]
    assert pieces[pieces.index("<ph15>") + 1 : -1] == ["."], "no space before the full stop"
    assert tokenizer.encode_target_parts(["cat ", opening])[-2:] == [ids[pieces.index("<ph0>")], END_ID]


def test_symbols_need_a_vocabulary_that_has_them() -> None:
    with pytest.raises(ConfigError, match="no symbol '<ph0>'"):
        TOKENIZER.encode_parts([Symbol(placeholder(0))], "de")


def test_characters_without_a_piece_are_not_known() -> None:
    tokenizer = learn_tokenizer(
        ["the café is open", "a b c"], 277, ["de"], normalisation="nfc", required_characters="½"
    )
    known = tokenizer.known_characters
    assert [character for character in "aé½\u0301\u200b\u00a0EÉ" if character not in known] == []
    assert [character for character in "xyß猫😀\u0302\ufffd" if character in known] == []
    assert known.includes("the café")
    assert not known.includes("the cat 猫")


@pytest.mark.parametrize("character", ["\u2581", "\u0131", "\u212a"])
def test_characters_that_would_come_back_as_others_are_not_known(character: str) -> None:
    """The sign that stands for a space in pieces, and letters whose capital or small letter belongs to another one."""
    assert character not in KnownCharacters(["\u2581a", "I", "i", "k"], str)


@pytest.mark.parametrize(("character", "pieces"), [("ẞ", ["ß"]), ("É", ["é"]), ("é", ["É"])])
def test_the_other_case_of_a_known_letter_is_known(character: str, pieces: list[str]) -> None:
    assert character in KnownCharacters(pieces, str)


def test_an_unused_piece_is_neither_read_nor_written() -> None:
    pieces = sentencepiece_model_pb2.ModelProto.FromString(TOKENIZER.model_proto)  # type: ignore[attr-defined]
    unused = [piece for piece in pieces.pieces if piece.type == piece.NORMAL and "t" in piece.piece]
    assert len(unused) > 1
    for piece in unused:
        piece.type = piece.UNUSED
    tokenizer = VersoTokenizer(pieces.SerializeToString())
    ids = {token_id for token_id, piece in enumerate(pieces.pieces) if piece.type == piece.UNUSED}
    assert ids <= set(tokenizer.never_generated)
    assert ids & set(TOKENIZER.encode("the cat", "de"))
    assert ids.isdisjoint(tokenizer.encode("the cat", "de"))
    assert ids.isdisjoint(tokenizer.encode_sampled("the cat", "de", 0.1, seed=1))
    assert tokenizer.decode(tokenizer.encode_target("the cat")) == "the cat"
    assert "t" in TOKENIZER.known_characters
    assert "t" not in tokenizer.known_characters
    assert ids.isdisjoint(chain.from_iterable(TOKENIZER.counterparts(tokenizer)))


def test_a_vocabulary_finds_its_text_in_another_one() -> None:
    text = ["the windmill turns", "a windmill", "two windmills turned in the wind"]
    larger = learn_tokenizer(text, 346, ["de", "en"], reserve_symbols=True)
    counterparts = dict(zip(larger.pieces(range(larger.vocab_size)), larger.counterparts(TOKENIZER), strict=True))
    old = {piece: token_id for token_id, piece in enumerate(TOKENIZER.pieces(range(TOKENIZER.vocab_size)))}
    assert all(counterparts[piece] == [token_id] for piece, token_id in old.items() if piece in counterparts)
    assert [piece for piece, ids in counterparts.items() if not ids] == list(reserved_symbols())
    cut = {piece: ids for piece, ids in counterparts.items() if piece not in old and ids}
    assert cut, "no piece is new"
    for piece, ids in cut.items():
        assert TOKENIZER.decode(ids) == piece.removeprefix("▁")
        assert TOKENIZER.pieces(ids)[0].startswith("▁") == piece.startswith("▁")
