"""Settings of a training run, read from a YAML file. All keys and their bounds are documented here."""

from __future__ import annotations

from dataclasses import asdict, field
from pathlib import Path
from typing import Annotated, Any, Literal, Self

import yaml
from pydantic import BeforeValidator, Field, model_validator

from model.configuration import Count, Flag, NonNegative, Requirement, Share, Text, configuration, from_mapping
from model.errors import ConfigError
from model.network.config import ModelConfig
from model.network.presets import expand_preset
from model.text.symbols import reserved_symbols
from model.text.tokenizer_training import Normalisation, TokenizerKind
from model.training.augmentation import Augmentation
from model.training.controls import Controls

Language = Annotated[str, Field(pattern="^[a-z]{2,3}$"), Requirement("a code of two or three small letters, like 'de'")]
"""A language code."""

Decay = Annotated[float, Field(strict=True, ge=0, lt=1)]
"""A decay rate."""


@configuration("A corpus")
class CorpusSettings:
    """One parallel corpus.

    Args:
        path: Path without language ending: ``train/tatoeba`` means ``train/tatoeba.en.xz`` and
            ``train/tatoeba.de.xz`` (or ``.gz``, or plain), relative to the data folder.
        detokenise: Whether to remove the spaces around punctuation that a tokeniser added.
        whole_sentences_only: Whether to leave out pairs with a side that starts with a lower-case letter.
        sentences: Maximum number of pairs, sampled at random, the same ones every time; all by default.
        direction: The only direction it is used for, such as ``en-de``; by default all directions of the run. The
            source side of back-translated text is synthetic, so it is used for one direction.
        tag: A reserved symbol at the start of its sources, such as ``<bt>``; none by default.
        weight: How often a pair occurs in an epoch on average: 2 is twice per epoch, 0.5 every other epoch.
        length_ratio: Characters of the second language for each character of the first. Pairs of which a side is over
            three times longer than that are left out.
    """

    path: Text
    detokenise: Flag = False
    whole_sentences_only: Flag = False
    sentences: Count | None = None
    direction: str | None = None
    tag: str | None = None
    weight: Annotated[float, Field(strict=True, gt=0, le=100)] = 1.0
    length_ratio: Annotated[float, Field(strict=True, gt=0, le=100)] = 1.0

    @model_validator(mode="after")
    def _check_tag(self) -> Self:
        if self.tag is not None and self.tag not in reserved_symbols():
            raise ValueError(f"tag of {self.path} is {self.tag!r}; it must be a reserved symbol, such as <bt>.")
        return self

    @property
    def direction_pair(self) -> tuple[str, str] | None:
        """``direction`` as (source, target)."""
        if self.direction is None:
            return None
        source, _, target = self.direction.partition("-")
        return source, target


def _corpus_as_mapping(corpus: Any) -> Any:
    """Convert a corpus given by its path alone to a mapping."""
    return {"path": corpus} if isinstance(corpus, str) else corpus


def _dev_as_list(dev: Any) -> Any:
    """Convert a single held-out corpus to a list."""
    return [dev] if isinstance(dev, str) else dev


Corpus = Annotated[
    CorpusSettings,
    BeforeValidator(_corpus_as_mapping),
    Requirement("a path without language ending, or a mapping"),
]
"""A training corpus."""

Dev = Annotated[
    tuple[Text, ...],
    Field(min_length=1),
    BeforeValidator(_dev_as_list),
    Requirement("a path, or a list of at least one path"),
]
"""Held-out corpora, on which checkpoints are selected."""


@configuration("The configuration")
class TrainingSettings:
    """One training run.

    Args:
        name: Name of the model in manifests and responses.
        languages: The two languages of the corpora; the model learns the directions in ``pairs``.
        pairs: Directions such as ``en-de``; both by default.
        train: Training corpora.
        dev: Held-out corpus on which checkpoints are selected, or a list of them, one for each kind of text.
        dev_sentences: Number of sentences of each ``dev`` corpus to score at each evaluation and in each direction,
            evenly spaced over the corpus.
        vocab_size: Size of the SentencePiece vocabulary, shared by the languages.
        tokenizer_kind: ``unigram`` learns pieces of words. ``char`` makes every character a token; ``vocab_size`` is
            then an upper bound.
        separate_vocabularies: Whether source and target have separate vocabularies, each of ``vocab_size`` tokens;
            needs one direction and ``share_embeddings: false``.
        normalisation: Normalisation of a learned vocabulary: ``nfkc`` or ``nfc``
            (:data:`model.text.tokenizer_training.Normalisation`).
        reserve_symbols: Whether a learned vocabulary contains 64 reserved symbols
            (:func:`model.text.symbols.reserved_symbols`).
        tokenizer: An existing SentencePiece model to use instead of learning one, relative to the config file. With
            ``--init-from``, the model gets this vocabulary (:func:`model.training.initial.with_vocabulary`).
        max_tokens_per_sentence: Longer training pairs are left out (and counted).
        batch_tokens: Largest padded size of one batch: sentence pairs times tokens of the longest side.
        accumulate: Number of batches whose gradients are accumulated for one update.
        max_steps: Updates of the whole run.
        optimizer: ``adamw`` or ``muon``. Muon (Jordan et al. 2024) orthogonalises the updates of the matrices inside
            the layers; the other parameters are updated by AdamW.
        learning_rate: Peak, reached at the end of the warm-up.
        warmup_steps: Updates of linear warm-up; afterwards the rate falls with the inverse square root of the step.
        cooldown_steps: Last updates, over which the rate additionally falls linearly to zero; 0 for none.
        betas: Adam's two decay rates.
        weight_decay: Decoupled weight decay (AdamW); 0 is Adam.
        label_smoothing: Probability distributed evenly over the vocabulary.
        clip_norm: Largest norm of the gradient; longer gradients are scaled down.
        precision: ``float32``, ``bfloat16`` or ``auto``, which is bfloat16 if the processor has hardware for it.
        r_drop: Weight of the divergence between two passes with different dropout (R-Drop, Liang et al. 2021, who use
            5); each update then takes twice as long. 0 for one pass.
        subword_sampling: Share of the source sentences with randomly sampled subwords (Kudo 2018), different in every
            epoch.
        target_subword_sampling: Share of the target sentences, likewise.
        augment: Shares of the sentence pairs that are augmented in an epoch: capitals, typos, other names
            (:class:`model.training.augmentation.Augmentation`).
        controls: Shares of the sentence pairs that teach the model placeholders, glossary terms and forms of address
            (:class:`model.training.controls.Controls`); needs a vocabulary with ``reserve_symbols``.
        fold_capitals: Whether the case of a translation follows that of its source, in capitals and at its beginning
            (:mod:`model.text.case_folding`); does not affect training.
        retry_loops: Whether sentences with empty output or a repetition loop are decoded again with a guard
            (:mod:`model.decoding.repetition_guard`); does not affect training.
        evaluate_every: Updates between evaluations and checkpoints.
        save_every_s: Seconds between additional checkpoints for resuming.
        patience: Evaluations without a better dev BLEU after which the run stops; 0 for never.
        average: Number of last checkpoints whose mean is exported.
        seed: Seed of initialisation, batches and dropout.
        threads: Processor threads; 0 for torch's default.
        model: Architecture, without the vocabulary sizes, which the tokenizer determines. ``preset`` names one of
            :data:`model.network.presets.PRESETS`; other keys override its fields.
        licence: Licence of the trained weights, for the manifest.
        attribution: Sources that the licence requires to be named.

    Raises:
        ConfigError: A value is out of bounds.
    """

    name: Text
    languages: Annotated[tuple[Language, Language], Requirement("a list of two different languages")]
    train: Annotated[tuple[Corpus, ...], Requirement("a list of parallel corpora")]
    dev: Dev
    pairs: tuple[str, ...] = ()
    dev_sentences: Count = 500
    vocab_size: Annotated[int, Field(strict=True, ge=300, le=1_000_000)] = 8000
    tokenizer_kind: TokenizerKind = "unigram"
    normalisation: Normalisation = "nfkc"
    reserve_symbols: Flag = False
    separate_vocabularies: Flag = False
    tokenizer: Annotated[str, Requirement("the path of a SentencePiece model")] | None = None
    max_tokens_per_sentence: Annotated[int, Field(strict=True, ge=4)] = 120
    batch_tokens: Annotated[int, Field(strict=True, ge=16)] = 2000
    accumulate: Count = 1
    max_steps: Count = 20000
    optimizer: Literal["adamw", "muon"] = "adamw"
    learning_rate: Annotated[float, Field(strict=True, ge=1e-9, le=10)] = 1e-3
    warmup_steps: Count = 1000
    cooldown_steps: NonNegative = 0
    betas: Annotated[tuple[Decay, Decay], Requirement("a list of two numbers of at least 0 and below 1")] = (0.9, 0.98)
    weight_decay: Share = 0.0
    label_smoothing: Annotated[float, Field(strict=True, ge=0, le=0.9)] = 0.1
    clip_norm: Annotated[float, Field(strict=True, ge=1e-6)] = 1.0
    precision: Literal["auto", "float32", "bfloat16"] = "auto"
    r_drop: Annotated[float, Field(strict=True, ge=0, le=100)] = 0.0
    subword_sampling: Share = 0.0
    target_subword_sampling: Share = 0.0
    augment: Augmentation = field(default_factory=Augmentation)
    controls: Controls = field(default_factory=Controls)
    fold_capitals: Flag = False
    retry_loops: Flag = False
    evaluate_every: Count = 1000
    save_every_s: Annotated[float, Field(strict=True, ge=1)] = 300.0
    patience: NonNegative = 0
    average: Count = 5
    seed: Annotated[int, Field(strict=True, ge=0, le=2**32 - 1)] = 1
    threads: Annotated[int, Field(strict=True, ge=0, le=1024)] = 0
    model: dict[str, Any] = field(default_factory=dict)
    licence: Text = "unstated"
    attribution: tuple[str, ...] = ()

    @model_validator(mode="after")
    def _check_directions(self) -> Self:
        if self.languages[0] == self.languages[1]:
            raise ValueError(f"languages is {list(self.languages)}; it must be a list of two different languages.")
        if not self.train:
            raise ValueError("train is empty; name at least one parallel corpus.")
        allowed = sorted(f"{a}-{b}" for a, b in (self.languages, self.languages[::-1]))
        if not self.pairs:
            object.__setattr__(self, "pairs", tuple(allowed))
        for pair in self.pairs:
            if pair not in allowed:
                raise ValueError(f"pairs names {pair!r}; with these languages it can hold {allowed}.")
        if len(set(self.pairs)) < len(self.pairs):
            raise ValueError(f"pairs is {list(self.pairs)}; name each direction once.")
        for corpus in self.train:
            if corpus.direction not in (None, *self.pairs):
                raise ValueError(
                    f"direction of {corpus.path} is {corpus.direction!r}; with these pairs it can be "
                    f"{', '.join(self.pairs)}."
                )
        return self

    @model_validator(mode="after")
    def _check_vocabulary(self) -> Self:
        if self.separate_vocabularies and (len(self.pairs) > 1 or self.tokenizer):
            raise ValueError(
                "separate_vocabularies is true; that needs one direction in pairs, because a vocabulary belongs to one "
                "side of it, and no tokenizer, which would be one for both."
            )
        if self.tokenizer_kind == "char" and (self.subword_sampling or self.target_subword_sampling):
            raise ValueError(
                "subword_sampling or target_subword_sampling is above 0, but tokenizer_kind char cuts a text in one "
                "way only."
            )
        return self

    @model_validator(mode="after")
    def _check_sizes(self) -> Self:
        if self.cooldown_steps > self.max_steps:
            raise ValueError(
                f"cooldown_steps is {self.cooldown_steps}; it must be {self.max_steps} at most, which is max_steps."
            )
        if self.batch_tokens < self.max_tokens_per_sentence:
            raise ValueError(
                f"batch_tokens is {self.batch_tokens}, less than max_tokens_per_sentence "
                f"{self.max_tokens_per_sentence}: the longest sentence would fit no batch."
            )
        return self

    @model_validator(mode="after")
    def _check_architecture(self) -> Self:
        """Check the architecture before the corpora are read."""
        for name in ("source_vocab_size", "target_vocab_size"):
            if name in self.model:
                raise ValueError(f"model has {name}; leave it out: the vocabulary decides, and vocab_size sets that.")
        config = self.model_config(self.vocab_size)
        if self.separate_vocabularies and config.share_embeddings:
            raise ValueError("separate_vocabularies is true; set share_embeddings of the model to false.")
        if self.max_tokens_per_sentence > config.max_positions:
            raise ValueError(
                f"max_tokens_per_sentence is {self.max_tokens_per_sentence}, but the model has positions for "
                f"{config.max_positions} tokens; raise max_positions or lower it."
            )
        return self

    @property
    def direction_pairs(self) -> list[tuple[str, str]]:
        """``pairs`` as (source, target)."""
        return [(pair.split("-")[0], pair.split("-")[1]) for pair in self.pairs]

    @property
    def num_passes(self) -> int:
        """Forward passes of each batch in an update: two with R-Drop."""
        return 2 if self.r_drop else 1

    def model_config(self, source_vocab_size: int, target_vocab_size: int | None = None) -> ModelConfig:
        """The architecture for vocabularies of these sizes; without a target size, both have the source size."""
        sizes = {"source_vocab_size": source_vocab_size, "target_vocab_size": target_vocab_size or source_vocab_size}
        return ModelConfig.from_dict({**sizes, **expand_preset(self.model)})

    def to_dict(self) -> dict[str, Any]:
        """The fields by name, ready for JSON."""
        return asdict(self)

    @classmethod
    def load(cls, path: Path) -> TrainingSettings:
        """Read a YAML file.

        Raises:
            ConfigError: The file is missing, is not a YAML mapping, or has an unknown, missing or wrong key.
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
        return from_mapping(cls, values)
