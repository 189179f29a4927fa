"""What can go wrong with a model, said without HTTP.

::

    ModelError
    ├─ ConfigError          hyper-parameters or training settings that describe nothing possible
    ├─ DataError            a corpus or input file that cannot be used: empty, misaligned, not UTF-8
    ├─ ArtifactError        bundle, checkpoint or tokenizer missing, damaged, or of another format
    ├─ DeviceError          the device asked for is not there, or cannot run this precision
    ├─ InputError           this text cannot be translated by this model
    │  ├─ EmptySource       nothing to look at
    │  ├─ SourceTooLong     carries num_tokens and limit
    │  ├─ TargetTooLong     carries num_tokens and limit
    │  ├─ SeveralSentences  one sentence was expected; carries num_sentences
    │  ├─ UnsupportedPair   carries source, target and the pairs there are
    │  └─ InvalidOptions    decoding options that contradict each other or a bound
    └─ DecodingError        the model gave no usable hypothesis (NaN, for one)

Messages hold the value given, the bound, and the way out.
"""

from __future__ import annotations

from model.languages import LanguagePairs


class ModelError(Exception):
    """The root: everything ``model`` raises on purpose."""


class ConfigError(ModelError):
    """Hyper-parameters or training settings that describe no possible model or run."""


class DataError(ModelError):
    """A corpus or an input file that cannot be used as it is."""


class ArtifactError(ModelError):
    """A bundle, checkpoint or tokenizer that is missing, damaged, or of another format."""


class DeviceError(ModelError):
    """The device asked for is not there, or cannot run the precision asked for."""


class InputError(ModelError):
    """This text, or what was asked about it, cannot be served by this model."""


class EmptySource(InputError):
    """There is nothing to translate: the text is empty or only white space."""

    def __init__(self) -> None:
        super().__init__("The text is empty or only white space; send at least one visible character.")


class SourceTooLong(InputError):
    """One sentence has more tokens than the model accepts.

    Args:
        num_tokens: Tokens the sentence has.
        limit: Tokens the model accepts.
    """

    def __init__(self, num_tokens: int, limit: int) -> None:
        super().__init__(
            f"The sentence has {num_tokens} tokens and this model accepts {limit}; "
            "split it, or use translation, which splits long sentences by itself."
        )
        self.num_tokens = num_tokens
        self.limit = limit


class TargetTooLong(InputError):
    """A given translation has more tokens than the model accepts.

    Args:
        num_tokens: Tokens the given translation has.
        limit: Tokens the model accepts.
    """

    def __init__(self, num_tokens: int, limit: int) -> None:
        super().__init__(f"The given translation has {num_tokens} tokens and this model accepts {limit}; shorten it.")
        self.num_tokens = num_tokens
        self.limit = limit


class SeveralSentences(InputError):
    """One sentence was expected and the text holds more.

    Args:
        num_sentences: Sentences found.
    """

    def __init__(self, num_sentences: int) -> None:
        super().__init__(
            f"The text holds {num_sentences} sentences and attention is defined for one; send them one by one."
        )
        self.num_sentences = num_sentences


class UnsupportedPair(InputError):
    """No loaded model translates between these languages, or several pairs fit.

    Args:
        source: Source language asked for, or None where none was given.
        target: Target language asked for, or None where none was given.
        pairs: The pairs there are.
    """

    def __init__(self, source: str | None, target: str | None, pairs: LanguagePairs) -> None:
        asked = f"source {source!r}, target {target!r}"
        super().__init__(f"No single loaded pair fits {asked}; name one of: {pairs.describe()}.")
        self.source = source
        self.target = target
        self.pairs = pairs


class InvalidOptions(InputError):
    """Decoding options that contradict each other or a bound."""


class DecodingError(ModelError):
    """The model gave no usable hypothesis."""
