"""Errors of the package ``model``, independent of HTTP.

::

    ModelError
    ├─ ConfigError          hyper-parameters or training settings that describe no possible model or run
    ├─ DataError            a corpus or input file that cannot be used: empty, misaligned, not UTF-8
    ├─ ArtifactError        bundle, checkpoint or tokenizer missing, damaged, or of another format
    ├─ DeviceError          the requested device is not available, or cannot run this precision
    ├─ InputError           this text cannot be translated by this model
    │  ├─ EmptySource       the text is empty or only whitespace
    │  ├─ SourceTooLong     carries num_tokens and limit
    │  ├─ TargetTooLong     carries num_tokens and limit
    │  ├─ SeveralSentences  one sentence was expected; carries num_sentences
    │  ├─ InvalidPrefix     the translation cannot begin as requested
    │  ├─ UnsupportedPair   carries source, target and the supported pairs
    │  ├─ UnsupportedFormality  carries formality, target and the languages it is supported in
    │  ├─ UnknownHead       carries kind, part, number and count
    │  ├─ InvalidOptions    decoding options that contradict each other or exceed a bound
    │  ├─ InvalidPattern    a pattern of protected spans is invalid or exceeds a bound
    │  └─ InvalidMarkup     a document that is not well-formed; carries line and column
    ├─ DecodingError        the model gave no usable hypothesis, for example because of NaN
    ├─ MarkupNotKept        a translated document does not have the markup of its source
    └─ WorkersFailed        processes that do part of the work cannot continue

Messages contain the given value, the bound, and what to do.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeVar

from model.languages import LanguagePairs

_Error = TypeVar("_Error", bound=Exception)


def restore_error(kind: type[_Error], arguments: tuple[Any, ...], state: dict[str, Any]) -> _Error:
    """Restore a pickled error without its constructor, which writes its message.

    Args:
        kind: Its class.
        arguments: Its ``args``.
        state: Its attributes.
    """
    error = kind.__new__(kind)
    error.args = arguments
    error.__dict__.update(state)
    return error


class ModelError(Exception):
    """The base class of all errors that ``model`` raises on purpose. They can be sent to other processes."""

    def __reduce__(self) -> tuple[Any, ...]:
        return restore_error, (type(self), self.args, self.__dict__)


class ConfigError(ModelError):
    """Hyper-parameters or training settings that describe no possible model or run."""


class DataError(ModelError):
    """A corpus or an input file that cannot be used."""


class ArtifactError(ModelError):
    """A bundle, checkpoint or tokenizer that is missing, damaged, or of another format."""


class DeviceError(ModelError):
    """The requested device is not available, or cannot run the requested precision."""


class InputError(ModelError):
    """This model cannot handle this text or the options of the request."""


class EmptySource(InputError):
    """The text is empty or only whitespace."""

    def __init__(self) -> None:
        super().__init__("The text is empty or only whitespace; send at least one visible character.")


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
    """One sentence was expected and the text has more, or none.

    Args:
        num_sentences: The number of sentences.
        needed_by: The feature or option that needs one sentence.
    """

    def __init__(self, num_sentences: int, needed_by: str = "attention") -> None:
        content = f"{num_sentences} sentences" if num_sentences else "no sentence with letters"
        super().__init__(f"The text has {content} and {needed_by} is defined for one; send one sentence at a time.")
        self.num_sentences = num_sentences


class InvalidPrefix(InputError):
    """The translation of a sentence cannot begin with ``target_prefix``; the message has the reason."""


class UnsupportedPair(InputError):
    """No loaded model translates between these languages, or several pairs fit.

    Args:
        source: Requested source language, or None if none was given.
        target: Requested target language, or None if none was given.
        pairs: The supported pairs.
    """

    def __init__(self, source: str | None, target: str | None, pairs: LanguagePairs) -> None:
        super().__init__(
            f"No single loaded pair fits source {source!r}, target {target!r}; name one of: {pairs.describe()}."
        )
        self.source = source
        self.target = target
        self.pairs = pairs


class UnsupportedFormality(InputError):
    """A form of address was requested that the model does not support in this language.

    Args:
        formality: The requested form of address.
        target: The target language.
        languages: The target languages in which the model supports forms of address.
    """

    def __init__(self, formality: str, target: str, languages: Sequence[str]) -> None:
        supported = f"only for translations into {', '.join(languages)}" if languages else "in no language"
        super().__init__(
            f"formality is {formality!r} for a translation into {target!r}, and this model supports forms of "
            f"address {supported}; leave formality out."
        )
        self.formality = formality
        self.target = target
        self.languages = tuple(languages)


class UnknownHead(InputError):
    """An attention head was requested that the model does not have.

    Args:
        kind: The kind of attention.
        part: ``layer`` or ``head``.
        number: The requested number of the part.
        count: The number of these parts; 0 if the decoder is recurrent and has no self-attention.
    """

    def __init__(self, kind: str, part: str, number: int, count: int) -> None:
        available = f"there are {count}, counted from 0 to {count - 1}"
        if count == 0:
            available = "the decoder of this model is recurrent and has no self-attention; use 'encoder' or 'cross'"
        super().__init__(f"steps names {part} {number} of kind {kind!r}; {available}.")
        self.kind = kind
        self.part = part
        self.number = number
        self.count = count


class InvalidOptions(InputError):
    """Decoding options that contradict each other or exceed a bound."""


class InvalidPattern(InputError):
    """A pattern of protected spans is invalid or exceeds a bound.

    Args:
        pattern: The pattern.
        reason: The fault, with the bound if there is one.
    """

    def __init__(self, pattern: str, reason: str) -> None:
        super().__init__(
            f"The pattern {pattern[:100]!r} cannot be used: {reason}. Patterns have the syntax of RE2, "
            "without look-around and back-references."
        )
        self.pattern = pattern


class InvalidMarkup(InputError):
    """A document is not well-formed, or has a construct that is refused for safety.

    Args:
        reason: The fault, without a full stop.
        line: The line of the error, from 1.
        column: The column of the error, from 1.
    """

    def __init__(self, reason: str, line: int, column: int) -> None:
        super().__init__(f"The markup cannot be read: line {line}, column {column}: {reason}.")
        self.line = line
        self.column = column


class DecodingError(ModelError):
    """The model gave no usable hypothesis."""


class MarkupNotKept(ModelError):
    """A translated document does not have the markup of its source: a fault of this program."""


class WorkersFailed(ModelError):
    """Processes that do part of the work (bulk translation, training) cannot continue; the message has the reason."""
