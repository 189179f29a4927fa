"""Small random checkpoints in the format of transformers."""

from __future__ import annotations

import io
import json
import random
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import sentencepiece
import torch
from torch import Tensor

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    import transformers
    from transformers import (
        GenerationConfig,
        M2M100Config,
        M2M100ForConditionalGeneration,
        M2M100Tokenizer,
        MarianConfig,
        MarianMTModel,
        MarianTokenizer,
        NllbTokenizer,
    )
    from transformers.models.m2m_100.tokenization_m2m_100 import FAIRSEQ_LANGUAGE_CODES

transformers.logging.set_verbosity_error()

_SYLLABLES = {
    "en": "an be ca do el fo gri ha in jo ku li mo ne or pa qui re st tu un ve wo xy ze",
    "de": "ä be chen dö er für gü ha ig jü keit lö mä nen ö pf qu ß sch tz ü ver wö zu",
    "ru": "а бо ва го де жи за ий ко ле мы но о пр ре ст ть у фо хо це ча ши ще эт ю я",
    "zh": "我 你 他 们 好 吗 是 不 在 有 人 大 中 国 学 生 天 上 下 来",
}

HARD_TEXTS = [
    "",
    " ",
    "Hello world",
    "  Two  spaces   and\ta tab ",
    "ALL CAPS AND MORE",
    "https://example.org/a?b=c&d=%20#e",
    "mail@example.org, 3.14 + 2,718 = 5,858; 50% of $100",
    "An emoji \U0001f600, a family \U0001f468\u200d\U0001f469\u200d\U0001f467 and a flag \U0001f1e9\U0001f1ea",
    "zero\u200bwidth\u200djoined\ufefftext\u00ad here",
    "Straße, Übergröße, naïve café \u2014 \u201equoted\u201c \u00abtoo\u00bb",
    "cafe\u0301 decomposed and \ufb01 ligature and Ｆｕｌｌ ｗｉｄｔｈ",
    "Привет, как дела? Ещё бы!",
    "我们好吗？中国大学生。",
    "日本語のテキスト、カタカナとひらがな",
    "한국어 문장입니다.",
    "مرحبا بالعالم، كيف حالك؟",
    "שלום עולם",
    "हिन्दी में एक वाक्य।",
    "ไทยไม่มีช่องว่าง",
    "ελληνικό κείμενο",
    "մի նախադասություն ქართული ტექსტი",
    "\u0000",
    "a\nb\r\nc",
    ">>fra<< Hello world",
    ">>fra<<Hello",
    ">>xxx<< unknown language",
    ">> not a << code",
    ">>open",
    "text >>fra<< inside",
    "<2de> __de__ deu_Latn",
    "\u2581 the mark itself \u2581word",
    "\u0627\u200f mixed \u202edirection\u202c",
    "x" * 300,
    "\U00020000\U0001f9ff rare planes \ue000",
]


def sentences(number: int, languages: Sequence[str] = tuple(_SYLLABLES), seed: int = 0) -> list[str]:
    """Random sentences that resemble languages."""
    rng = random.Random(seed)
    outputs = []
    for _ in range(number):
        syllables = _SYLLABLES[rng.choice(languages)].split()
        words = ["".join(rng.choice(syllables) for _ in range(rng.randint(1, 3))) for _ in range(rng.randint(2, 9))]
        outputs.append(" ".join(words).capitalize() + rng.choice(".?!"))
    return outputs


def random_sources(number: int, vocab_size: int, end_id: int, first_id: int = 4, seed: int = 0) -> list[list[int]]:
    """Sources of 1 to 14 tokens and the end token."""
    rng = random.Random(seed)
    return [
        [*(rng.randrange(first_id, vocab_size - 1) for _ in range(rng.randint(1, 14))), end_id] for _ in range(number)
    ]


def learn_spm(path: Path, languages: Sequence[str], size: int, seed: int = 0) -> sentencepiece.SentencePieceProcessor:
    """Learn a SentencePiece model without byte fallback, as those of the imported families."""
    sink = io.BytesIO()
    sentencepiece.SentencePieceTrainer.Train(
        sentence_iterator=iter(sentences(400, languages, seed)),
        model_writer=sink,
        vocab_size=size,
        character_coverage=0.995,
        hard_vocab_limit=False,
        minloglevel=2,
    )
    path.write_bytes(sink.getvalue())
    processor = sentencepiece.SentencePieceProcessor()
    processor.LoadFromSerializedProto(sink.getvalue())
    return processor


def shake(model: Any, eos_bias: float) -> None:
    """Give every parameter random values large enough that each step selects another token."""
    torch.manual_seed(3)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if "embed_positions" in name:
                continue
            if "norm" in name or name.endswith("bias"):
                parameter.add_(torch.randn_like(parameter) * 0.2)
            elif "embed_tokens" in name or "shared" in name or "lm_head" in name:
                parameter.normal_(0, 1.2 * parameter.size(1) ** -0.5)
                parameter[model.config.pad_token_id] = 0.0
            else:
                parameter.normal_(0, 2.0 * parameter.size(1) ** -0.5)
        if hasattr(model, "final_logits_bias"):
            model.final_logits_bias.normal_(0, 0.5)
            model.final_logits_bias[0, model.config.eos_token_id] += eos_bias
        else:  # the bias of the final norm is a component of every output
            direction = model.model.decoder.layer_norm.bias
            model.lm_head.weight[model.config.eos_token_id] += eos_bias * direction / direction.square().sum()


def make_marian(folder: Path, *, separate: bool = False, multilingual: bool = False, **config: Any) -> Any:
    """An OPUS-MT folder with random weights; returns transformers' model of it."""
    folder.mkdir(parents=True, exist_ok=True)
    source = learn_spm(folder / "source.spm", ("en",), 90, seed=1)
    target = learn_spm(folder / "target.spm", ("de", "ru"), 120, seed=2)
    vocabularies = []
    for processors in ((source,), (target,)) if separate else ((source, target),):
        pieces = dict.fromkeys(
            processor.IdToPiece(number)
            for processor in processors
            for number in range(len(processor))
            if not processor.IsControl(number) and not processor.IsUnknown(number)
        )
        languages = [">>fra<<", ">>deu<<", ">>zho<<", ">>cmn_Hans<<"] if multilingual else []
        # transformers has one padding id for both sides, so both vocabularies need it at the same index.
        ordered = ["</s>", "<unk>", "<pad>", *pieces] if separate else ["</s>", "<unk>", *languages, *pieces, "<pad>"]
        vocabularies.append({piece: number for number, piece in enumerate(ordered)})
    tokenizer_config = {
        "source_lang": "en",
        "target_lang": "mul" if multilingual else "de",
        "separate_vocabs": separate,
    }
    (folder / "vocab.json").write_text(json.dumps(vocabularies[0]))
    if separate:
        (folder / "target_vocab.json").write_text(json.dumps(vocabularies[1]))
    (folder / "tokenizer_config.json").write_text(json.dumps(tokenizer_config))
    target_pad = vocabularies[-1]["<pad>"]
    values = {
        "vocab_size": len(vocabularies[0]),
        "decoder_vocab_size": len(vocabularies[-1]),
        "share_encoder_decoder_embeddings": not separate,
        "tie_word_embeddings": not separate,
        "d_model": 32,
        "encoder_layers": 2,
        "decoder_layers": 2,
        "encoder_attention_heads": 4,
        "decoder_attention_heads": 4,
        "encoder_ffn_dim": 64,
        "decoder_ffn_dim": 64,
        "activation_function": "swish",
        "scale_embedding": True,
        "max_position_embeddings": 400,
        "pad_token_id": target_pad,
        "eos_token_id": 0,
        "decoder_start_token_id": target_pad,
        "forced_eos_token_id": 0,
        **config,
    }
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = MarianMTModel(MarianConfig(**values)).eval()
        if separate:
            model.resize_decoder_token_embeddings(len(vocabularies[1]))
        shake(model, eos_bias=5.5)
        model.generation_config = GenerationConfig(
            num_beams=4,
            max_length=400,
            bad_words_ids=[[target_pad]],
            renormalize_logits=True,
            pad_token_id=target_pad,
            eos_token_id=0,
            decoder_start_token_id=target_pad,
            forced_eos_token_id=0,
        )
        model.save_pretrained(folder)
    return model


def make_m2m100(folder: Path, *, nllb: bool = False, **config: Any) -> Any:
    """An M2M100 or NLLB folder with random weights; returns transformers' model of it."""
    folder.mkdir(parents=True, exist_ok=True)
    processor = learn_spm(folder / "sentencepiece.bpe.model", tuple(_SYLLABLES), 160)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        if nllb:
            tokenizer: Any = NllbTokenizer(str(folder / "sentencepiece.bpe.model"))
            rows = len(tokenizer)
        else:
            pieces = [processor.IdToPiece(number) for number in range(3, len(processor))]
            vocabulary = {piece: number for number, piece in enumerate(["<s>", "<pad>", "</s>", "<unk>", *pieces])}
            (folder / "vocab.json").write_text(json.dumps(vocabulary))
            tokenizer = M2M100Tokenizer(
                str(folder / "vocab.json"),
                str(folder / "sentencepiece.bpe.model"),
                # In the order of the published folders.
                additional_special_tokens=[f"__{code}__" for code in FAIRSEQ_LANGUAGE_CODES["m2m100"]],
            )
            rows = len(vocabulary) + 108
        tokenizer.save_pretrained(folder)
        values = {
            "vocab_size": rows,
            "d_model": 32,
            "encoder_layers": 2,
            "decoder_layers": 2,
            "encoder_attention_heads": 4,
            "decoder_attention_heads": 4,
            "encoder_ffn_dim": 64,
            "decoder_ffn_dim": 64,
            "activation_function": "relu",
            "scale_embedding": True,
            "max_position_embeddings": 400,
            "pad_token_id": 1,
            "eos_token_id": 2,
            "bos_token_id": 0,
            "decoder_start_token_id": 2,
            **config,
        }
        model = M2M100ForConditionalGeneration(M2M100Config(**values)).eval()
        shake(model, eos_bias=2.0)
        model.generation_config = GenerationConfig(
            num_beams=5,
            max_length=200,
            # Its class forbids no token. The padding row is forbidden so that it is no input (see M2M100Tokenizer).
            bad_words_ids=[[1]],
            pad_token_id=1,
            eos_token_id=2,
            bos_token_id=0,
            decoder_start_token_id=2,
        )
        model.save_pretrained(folder)
    return model


@contextmanager
def quiet() -> Iterator[None]:
    """Suppress irrelevant warnings of transformers."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


def marian_tokenizer(folder: Path) -> Any:
    """transformers' own tokenizer of an OPUS-MT folder."""
    with quiet():
        return MarianTokenizer.from_pretrained(folder)


def padded(sequences: Sequence[Sequence[int]], pad_id: int) -> tuple[Tensor, Tensor]:
    """Ids and mask in the form transformers expects."""
    length = max(map(len, sequences))
    ids = torch.tensor([[*sequence, *[pad_id] * (length - len(sequence))] for sequence in sequences])
    mask = torch.tensor([[1] * len(sequence) + [0] * (length - len(sequence)) for sequence in sequences])
    return ids, mask
