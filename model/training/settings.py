"""What a training run is told: one YAML file, every key documented and bounded here."""

from __future__ import annotations

import re
from dataclasses import MISSING, asdict, dataclass, field, fields
from pathlib import Path
from typing import Any, get_args

import yaml

from model.errors import ConfigError
from model.network.config import ModelConfig
from model.network.presets import expand_preset
from model.text.tokenizer import Normalisation, TokenizerKind, reserved_symbols
from model.training.augmentation import Augmentation


@dataclass(frozen=True)
class CorpusSettings:
    """One parallel corpus.

    Args:
        path: Path without language ending: ``train/tatoeba`` means ``train/tatoeba.en.xz`` and
            ``train/tatoeba.de.xz`` (or ``.gz``, or plain), relative to the data folder.
        detokenise: The text has spaces round its punctuation; take them out.
        whole_sentences_only: Leave out pairs of which one side starts like the middle of a sentence.
        sentences: Most pairs to use of it, drawn at random, the same ones every time; all by default.
        direction: The only direction it is good for, such as ``en-de``; by default all of the run. Of back-translated
            text the source is synthetic: such text teaches one direction.
        tag: A reserved symbol that its sources begin with, such as ``<bt>``; none by default.
        weight: How often a pair comes in an epoch on average: 2 is twice, 0.5 is in every other epoch.
    """

    path: str
    detokenise: bool = False
    whole_sentences_only: bool = False
    sentences: int | None = None
    direction: str | None = None
    tag: str | None = None
    weight: float = 1.0

    def __post_init__(self) -> None:
        if not isinstance(self.path, str) or not self.path:
            raise ConfigError(f"train names the corpus {self.path!r}; it must be a path without language ending.")
        for name in ("detokenise", "whole_sentences_only"):
            if not isinstance(getattr(self, name), bool):
                raise ConfigError(f"{name} of {self.path} is {getattr(self, name)!r}; it must be true or false.")
        if self.sentences is not None and (type(self.sentences) is not int or self.sentences < 1):
            raise ConfigError(
                f"sentences of {self.path} is {self.sentences!r}; it must be a whole number of at least 1."
            )
        if isinstance(self.weight, bool) or not isinstance(self.weight, (int, float)) or not 0 < self.weight <= 100:
            raise ConfigError(f"weight of {self.path} is {self.weight!r}; it must be above 0 and at most 100.")
        if self.tag is not None and self.tag not in reserved_symbols():
            raise ConfigError(f"tag of {self.path} is {self.tag!r}; it must be a reserved symbol, such as <bt>.")

    @property
    def direction_pair(self) -> tuple[str, str] | None:
        """``direction`` as (source, target)."""
        if self.direction is None:
            return None
        source, _, target = self.direction.partition("-")
        return source, target


@dataclass(frozen=True)
class GeneratedCorpus:
    """A parallel corpus that is made rather than read: words and what becomes of them.

    Args:
        generate: What becomes of a word: ``reversal`` writes it backwards.
        words: How many, all different.
        letters: Shortest and longest word.
        alphabet: Letters they are drawn from, all as likely.
        seed: Decides the words.
    """

    generate: str
    words: int = 50000
    letters: tuple[int, int] = (10, 20)
    alphabet: str = "abcdefghijklmnopqrstuvwxyz"
    seed: int = 1

    def __post_init__(self) -> None:
        if self.generate != "reversal":
            raise ConfigError(f"generate is {self.generate!r}; what can be generated is 'reversal'.")
        if not isinstance(self.alphabet, str) or len(set(self.alphabet)) < max(2, len(self.alphabet)):
            raise ConfigError(f"alphabet is {self.alphabet!r}; it must be two or more different letters.")
        if not isinstance(self.letters, (list, tuple)) or len(self.letters) != 2:
            raise ConfigError(
                f"letters is {self.letters!r}; it must hold the shortest and the longest length of a word."
            )
        object.__setattr__(self, "letters", tuple(self.letters))
        for name, value in (
            ("words", self.words),
            ("seed", self.seed),
            *(("letters", length) for length in self.letters),
        ):
            if isinstance(value, bool) or not isinstance(value, int) or value < (name != "seed"):
                raise ConfigError(f"{name} is {value!r}; it must be a whole number of at least {int(name != 'seed')}.")
        shortest, longest = self.letters
        if shortest > longest:
            raise ConfigError(f"letters is {list(self.letters)}; the shortest word comes first.")
        # With few letters there are few words: half of them are as many as can be drawn without drawing for ever.
        possible = sum(len(self.alphabet) ** length for length in range(shortest, longest + 1))
        if self.words > possible // 2:
            raise ConfigError(
                f"words is {self.words}, but there are only {possible} of this kind; ask for half at most."
            )


@dataclass(frozen=True)
class TrainingSettings:
    """One training run.

    Args:
        name: Names the model in manifests and answers.
        languages: The two languages of the corpora; the model learns the directions in ``pairs``.
        pairs: Directions such as ``en-de``; both by default.
        train: Parallel corpora to learn from; one with ``generate`` in it is made (:class:`GeneratedCorpus`).
        dev: Parallel corpus to choose checkpoints on, or a list of them, one for each kind of text; a generated one
            holds no sentence of ``train``.
        dev_sentences: Sentences of each ``dev`` corpus to score at each evaluation, in each direction; taken evenly
            from beginning to end.
        vocab_size: Tokens of the SentencePiece vocabulary, shared by the languages.
        tokenizer_kind: ``unigram`` learns pieces of words; ``char`` takes every character for a token, and for
            ``vocab_size`` as many as there are.
        separate_vocabularies: Source and target have a vocabulary each, of ``vocab_size`` tokens at most; needs one
            direction and ``share_embeddings: false``.
        normalisation: ``nfkc`` or ``nfc`` (:data:`model.tokenizer.Normalisation`); of a vocabulary that is learned.
        reserve_symbols: The learned vocabulary gets 64 symbols that no text is cut into
            (:func:`model.tokenizer.reserved_symbols`).
        tokenizer: An existing SentencePiece model to use instead of learning one, relative to the config file.
        max_tokens_per_sentence: Longer training pairs are left out (and counted).
        batch_tokens: Largest padded size of one batch: sentence pairs times tokens of the longest side.
        accumulate: Batches whose gradients are added up before one update.
        max_steps: Updates in all.
        optimizer: ``adamw``, or ``muon``, which takes steps of orthogonal matrices for the weights inside the layers
            (Jordan et al. 2024) and AdamW's for all others.
        learning_rate: Peak, reached at the end of the warm-up.
        warmup_steps: Updates of linear rise; after them the rate falls with the inverse square root of the step.
        cooldown_steps: The last updates, over which the rate falls linearly to zero on top of that; 0 for none.
        betas: Adam's two decay rates.
        weight_decay: Decoupled weight decay (AdamW); 0 is Adam.
        label_smoothing: Probability spread evenly over the vocabulary.
        clip_norm: Largest norm of the gradient; longer ones are scaled down.
        precision: ``float32``, ``bfloat16``, or ``auto``, which is bfloat16 where the processor computes in it.
        r_drop: What a nat of disagreement between two passes with different dropout costs (R-Drop, Liang et al. 2021;
            5 there); each update then takes twice as long. 0 for one pass.
        subword_sampling: Share of the source sentences cut into random subwords (Kudo 2018), anew in every epoch.
        target_subword_sampling: Share of the target sentences, likewise.
        augment: Shares of the sentence pairs that are bent in an epoch, against surprises: capitals, typos, new names
            (:class:`model.training.augmentation.Augmentation`).
        fold_capitals: The model is to be given sentences in capitals in small letters, and its answers to them are put
            into capitals (:mod:`model.text.case_folding`); training does not change by it.
        retry_loops: The model's answers that say the same over and over, or nothing, are to be decoded a second time,
            with a guard (:mod:`model.decoding.repetition_guard`); training does not change by it.
        evaluate_every: Updates between evaluations and checkpoints.
        save_every_s: Seconds after which a checkpoint for resuming is written in between.
        patience: Evaluations without a better dev BLEU after which the run stops; 0 for never.
        average: Checkpoints whose mean is exported.
        seed: Fixes initialisation, batches and dropout.
        threads: Processor threads; 0 leaves it to torch.
        model: Architecture, without the vocabulary sizes, which the tokenizer decides; ``preset`` names one of
            :data:`model.network.presets.PRESETS`, and what stands beside it overrides it.
        licence: Licence of the trained weights, for the manifest.
        attribution: Sources the licence asks to be named.

    Raises:
        ConfigError: A value is out of its bounds.
    """

    name: str
    languages: tuple[str, str]
    train: tuple[CorpusSettings | GeneratedCorpus, ...]
    dev: str | tuple[str, ...] | GeneratedCorpus
    pairs: tuple[str, ...] = ()
    dev_sentences: int = 500
    vocab_size: int = 8000
    tokenizer_kind: TokenizerKind = "unigram"
    normalisation: Normalisation = "nfkc"
    reserve_symbols: bool = False
    separate_vocabularies: bool = False
    tokenizer: str | None = None
    max_tokens_per_sentence: int = 120
    batch_tokens: int = 2000
    accumulate: int = 1
    max_steps: int = 20000
    optimizer: str = "adamw"
    learning_rate: float = 1e-3
    warmup_steps: int = 1000
    cooldown_steps: int = 0
    betas: tuple[float, float] = (0.9, 0.98)
    weight_decay: float = 0.0
    label_smoothing: float = 0.1
    clip_norm: float = 1.0
    precision: str = "auto"
    r_drop: float = 0.0
    subword_sampling: float = 0.0
    target_subword_sampling: float = 0.0
    augment: Augmentation = field(default_factory=Augmentation)
    fold_capitals: bool = False
    retry_loops: bool = False
    evaluate_every: int = 1000
    save_every_s: float = 300.0
    patience: int = 0
    average: int = 5
    seed: int = 1
    threads: int = 0
    model: dict[str, Any] = field(default_factory=dict)
    licence: str = "unstated"
    attribution: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if len(self.languages) != 2 or self.languages[0] == self.languages[1]:
            raise ConfigError(f"languages is {list(self.languages)}; it must name two different languages.")
        for language in self.languages:
            if not isinstance(language, str) or not re.fullmatch("[a-z]{2,3}", language):
                raise ConfigError(f"languages names {language!r}; a code is two or three small letters, like 'de'.")
        for name in ("name", "dev", "licence"):
            if name == "dev" and isinstance(self.dev, GeneratedCorpus):
                continue
            if name == "dev" and isinstance(self.dev, tuple):
                if not self.dev or not all(isinstance(path, str) and path for path in self.dev):
                    raise ConfigError(f"dev is {list(self.dev)}; it must name at least one corpus.")
                continue
            if not isinstance(getattr(self, name), str) or not getattr(self, name):
                raise ConfigError(f"{name} is {getattr(self, name)!r}; it must be text.")
        if self.tokenizer is not None and not isinstance(self.tokenizer, str):
            raise ConfigError(f"tokenizer is {self.tokenizer!r}; it must be the path of a SentencePiece model.")
        if not all(isinstance(source, str) for source in self.attribution):
            raise ConfigError(f"attribution is {list(self.attribution)}; it must be a list of texts.")
        if self.tokenizer_kind not in get_args(TokenizerKind):
            raise ConfigError(f"tokenizer_kind is {self.tokenizer_kind!r}; it must be unigram or char.")
        if self.normalisation not in get_args(Normalisation):
            raise ConfigError(f"normalisation is {self.normalisation!r}; it must be nfkc or nfc.")
        for name in ("separate_vocabularies", "fold_capitals", "retry_loops", "reserve_symbols"):
            if not isinstance(getattr(self, name), bool):
                raise ConfigError(f"{name} is {getattr(self, name)!r}; it must be true or false.")
        if not isinstance(self.model, dict):
            raise ConfigError(f"model is {self.model!r}; it must be a mapping of architecture fields to values.")
        if not self.train:
            raise ConfigError("train is empty; name at least one parallel corpus.")
        allowed = {f"{a}-{b}" for a, b in (self.languages, self.languages[::-1])}
        if not self.pairs:
            object.__setattr__(self, "pairs", tuple(sorted(allowed)))
        for pair in self.pairs:
            if pair not in allowed:
                raise ConfigError(f"pairs names {pair!r}; with these languages it can hold {sorted(allowed)}.")
        for corpus in self.train:
            if isinstance(corpus, CorpusSettings) and corpus.direction not in (None, *self.pairs):
                raise ConfigError(
                    f"direction of {corpus.path} is {corpus.direction!r}; with these pairs it can be "
                    f"{', '.join(self.pairs)}."
                )
        if len(set(self.pairs)) < len(self.pairs):
            raise ConfigError(f"pairs is {list(self.pairs)}; name each direction once.")
        if self.separate_vocabularies and (len(self.pairs) > 1 or self.tokenizer):
            raise ConfigError(
                "separate_vocabularies is true; that needs one direction in pairs, because a vocabulary belongs to one "
                "side of it, and no tokenizer, which would be one for both."
            )
        if self.optimizer not in ("adamw", "muon"):
            raise ConfigError(f"optimizer is {self.optimizer!r}; it must be adamw or muon.")
        if self.precision not in ("auto", "float32", "bfloat16"):
            raise ConfigError(f"precision is {self.precision!r}; it must be auto, float32 or bfloat16.")
        for name, low, high in (
            ("dev_sentences", 1, None),
            ("vocab_size", 300, 1_000_000),
            ("max_tokens_per_sentence", 4, None),
            ("batch_tokens", 16, None),
            ("accumulate", 1, None),
            ("max_steps", 1, None),
            ("learning_rate", 1e-9, 10),
            ("warmup_steps", 1, None),
            ("cooldown_steps", 0, self.max_steps),
            ("weight_decay", 0, 1),
            ("label_smoothing", 0, 0.9),
            ("clip_norm", 1e-6, None),
            ("r_drop", 0, 100),
            ("subword_sampling", 0, 1),
            ("target_subword_sampling", 0, 1),
            ("evaluate_every", 1, None),
            ("save_every_s", 1, None),
            ("patience", 0, None),
            ("average", 1, None),
            ("seed", 0, 2**32 - 1),
            ("threads", 0, 1024),
        ):
            value = getattr(self, name)
            whole = isinstance(getattr(type(self), name), int)
            wrong_type = isinstance(value, bool) or not isinstance(value, int if whole else (int, float))
            # Asked this way round so that NaN is refused.
            if wrong_type or not value >= low or (high is not None and not value <= high):
                bounds = f"at least {low}" if high is None else f"{low} to {high}"
                hint = " (a number; YAML takes 1e-3 for text, so write 1.0e-3)" if isinstance(value, str) else ""
                kind = "a whole number, " if whole and isinstance(value, float) else ""
                raise ConfigError(f"{name} is {value!r}; it must be {kind}{bounds}{hint}.")
        if len(self.betas) != 2 or not all(isinstance(beta, (int, float)) and 0 <= beta < 1 for beta in self.betas):
            raise ConfigError(f"betas is {list(self.betas)}; it must hold two numbers of at least 0 and below 1.")
        if self.tokenizer_kind == "char" and (self.subword_sampling or self.target_subword_sampling):
            raise ConfigError(
                "subword_sampling or target_subword_sampling is above 0, but tokenizer_kind char cuts a text in one "
                "way only."
            )
        if self.batch_tokens < self.max_tokens_per_sentence:
            raise ConfigError(
                f"batch_tokens is {self.batch_tokens}, less than max_tokens_per_sentence "
                f"{self.max_tokens_per_sentence}: the longest sentence would fit no batch."
            )
        for name in ("source_vocab_size", "target_vocab_size"):
            if name in self.model:
                raise ConfigError(f"model has {name}; leave it out: the vocabulary decides, and vocab_size sets that.")
        # Refuse a wrong architecture now, not after the corpora were read.
        config = self.model_config(self.vocab_size)
        if self.separate_vocabularies and config.share_embeddings:
            raise ConfigError("separate_vocabularies is true; set share_embeddings of the model to false.")
        if self.max_tokens_per_sentence > config.max_positions:
            raise ConfigError(
                f"max_tokens_per_sentence is {self.max_tokens_per_sentence}, but the model has positions for "
                f"{config.max_positions} tokens; raise max_positions or lower it."
            )

    @property
    def direction_pairs(self) -> list[tuple[str, str]]:
        """``pairs`` as (source, target)."""
        return [(pair.split("-")[0], pair.split("-")[1]) for pair in self.pairs]

    def model_config(self, source_vocab_size: int, target_vocab_size: int | None = None) -> ModelConfig:
        """The architecture for vocabularies of these sizes; one size is for both."""
        sizes = {"source_vocab_size": source_vocab_size, "target_vocab_size": target_vocab_size or source_vocab_size}
        return ModelConfig.from_dict({**sizes, **expand_preset(self.model)})

    def to_dict(self) -> dict[str, Any]:
        """The fields by name, ready for JSON."""
        return asdict(self)

    @classmethod
    def load(cls, path: Path) -> TrainingSettings:
        """Read a YAML file.

        Raises:
            ConfigError: The file is missing, is no YAML mapping, or has an unknown, missing or wrong key.
        """
        try:
            text = path.read_text(encoding="utf-8")
        except OSError as error:
            raise ConfigError(f"The configuration {path} cannot be read: {error.strerror}.") from error
        except UnicodeDecodeError as error:
            raise ConfigError(f"The configuration {path} is not UTF-8 text.") from error
        try:
            values = yaml.safe_load(text)
        except yaml.YAMLError as error:
            raise ConfigError(f"The configuration {path} is no YAML: {error}") from error
        if not isinstance(values, dict):
            raise ConfigError(f"The configuration {path} must be a mapping of keys to values.")
        return cls.from_dict(values)

    @classmethod
    def from_dict(cls, values: dict[str, Any]) -> TrainingSettings:
        """Build from keys and values as YAML gives them.

        Raises:
            ConfigError: A key is unknown or missing, or its value is wrong.
        """
        values = dict(values)
        for name in ("languages", "pairs", "betas", "attribution"):
            if name in values:
                values[name] = _listed(name, values[name])
        values["train"] = tuple(
            _corpus("train", corpus if isinstance(corpus, dict) else {"path": corpus})
            for corpus in _listed("train", values.get("train", ()))
        )
        if isinstance(values.get("dev"), list):
            values["dev"] = tuple(values["dev"])
        if isinstance(values.get("dev"), dict):
            values["dev"] = _corpus("dev", {"generate": None, **values["dev"]})
        if "augment" in values:
            if not isinstance(values["augment"], dict):
                raise ConfigError(f"augment is {values['augment']!r}; it must be a mapping of names to shares.")
            values["augment"] = Augmentation(**_of_fields("augment", Augmentation, values["augment"]))
        return cls(**_of_fields("The configuration", cls, values))


def _corpus(name: str, values: dict[str, Any]) -> CorpusSettings | GeneratedCorpus:
    kind = GeneratedCorpus if "generate" in values else CorpusSettings
    return kind(**_of_fields(f"A corpus of {name}", kind, values))


def _of_fields(whose: str, kind: type[Any], values: dict[str, Any]) -> dict[str, Any]:
    """Values whose keys are fields of a class, and no field without a default is missing.

    Raises:
        ConfigError: A key is unknown or missing.
    """
    known = {item.name: item.default is MISSING and item.default_factory is MISSING for item in fields(kind)}
    for key in values:
        if key not in known:
            raise ConfigError(f"{whose} has the unknown key {key!r}; it can have {', '.join(known)}.")
    for key, required in known.items():
        if required and key not in values:
            raise ConfigError(f"{whose} has no {key!r}, which it needs.")
    return values


def _listed(name: str, value: Any) -> tuple[Any, ...]:
    """A list as a tuple; a text would come apart into letters."""
    if not isinstance(value, (list, tuple)):
        raise ConfigError(f"{name} is {value!r}; it must be a list.")
    return tuple(value)
