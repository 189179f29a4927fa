"""The decoding defaults of a checkpoint: generation_config.json, or config.json if there is none."""

from __future__ import annotations

from typing import Any

from model.decoding.options import MAX_BEAM_SIZE
from model.decoding.policy import DecodingPolicy
from model.errors import ArtifactError
from model.importing.folder import CheckpointFolder
from model.importing.values import flag, number, shown, whole_number


class Generation:
    """The content of generation_config.json; older checkpoints have it in config.json.

    Args:
        folder: The checkpoint's folder.
        config: The content of its config.json, which is used if there is no generation_config.json.
        end_id: The vocabulary's end token.
        num_tokens: Size of the target vocabulary, V.

    Raises:
        ArtifactError: A value has a wrong type, is out of bounds, or contradicts the vocabulary.
    """

    def __init__(self, folder: CheckpointFolder, config: dict[str, Any], end_id: int, num_tokens: int) -> None:
        self._file = "generation_config.json" if folder.has("generation_config.json") else "config.json"
        self._values = folder.json(self._file)
        self._config = config
        self._num_tokens = num_tokens
        for name in ("eos_token_id", "forced_eos_token_id"):
            if (token_id := self.token(name, default=end_id)) != end_id:
                raise ArtifactError(
                    f"{self._file} has {name} {token_id} and the vocabulary's end token is {end_id}; they belong to "
                    "different checkpoints."
                )
        self._force_end = self._values.get("forced_eos_token_id") is not None
        self._length_penalty = number(self._values, "length_penalty", 1.0, self._file)
        if not 0.0 <= self._length_penalty <= 10.0:
            raise ArtifactError(f"{self._file} has length_penalty {self._length_penalty}; it must be 0 to 10.")
        self._beam_size = whole_number(self._values, "num_beams", 1, self._file)
        if not 1 <= self._beam_size <= MAX_BEAM_SIZE:
            raise ArtifactError(f"{self._file} has num_beams {self._beam_size}; it must be 1 to {MAX_BEAM_SIZE}.")
        notes: list[str] = []
        never = self._values.get("early_stopping") == "never"
        self._early_stopping = not never and self._flag("early_stopping", default=False)
        if never:
            notes.append("early_stopping 'never' is not supported; a search ends when no better hypothesis is expected")
        words = self._list("bad_words_ids")
        if not all(isinstance(word, list) for word in words):
            raise ArtifactError(f"{self._file} has bad_words_ids {shown(words)}; it must be a list of lists of ids.")
        self.forbidden = {self._id("bad_words_ids", word[0], self._file) for word in words if len(word) == 1}
        for token_id in self._list("suppress_tokens"):
            self.forbidden.add(self._id("suppress_tokens", token_id, self._file))
        if any(len(word) != 1 for word in words):
            notes.append("bad_words_ids of more than one token are not imported")
        for name in ("no_repeat_ngram_size", "repetition_penalty", "min_length", "num_beam_groups"):
            if self._values.get(name) not in (None, 0, 1, 1.0):
                notes.append(f"{name} {shown(self._values[name])} is not imported as a default")
        self.notes = tuple(notes)

    def policy(self, forbidden: set[int], *, renormalise: bool) -> DecodingPolicy:
        """The decoding policy of the checkpoint.

        Args:
            forbidden: Tokens that are never generated.
            renormalise: The default of ``renormalize_logits``.
        """
        return DecodingPolicy(
            scoring="hf",
            length_penalty=self._length_penalty,
            early_stopping=self._early_stopping,
            beam_size=self._beam_size,
            forbidden=tuple(sorted(forbidden)),
            renormalise=self._flag("renormalize_logits", default=renormalise),
            force_end=self._force_end,
        )

    def _flag(self, name: str, *, default: bool) -> bool:
        return flag(self._values, name, default=default, file=self._file)

    def token(self, name: str, *, default: int) -> int:
        """A token's id; a list with one id counts as that id."""
        file, value = self._file, self._values.get(name)
        if value is None and name != "forced_eos_token_id":
            file, value = "config.json", self._config.get(name)
        if isinstance(value, list) and len(value) == 1:
            value = value[0]
        return default if value is None else self._id(name, value, file)

    def _id(self, name: str, value: object, file: str) -> int:
        if type(value) is not int or not 0 <= value < self._num_tokens:
            raise ArtifactError(
                f"{file} has {name} {shown(value)}; it must be one token's id, 0 to {self._num_tokens - 1}."
            )
        return value

    def _list(self, name: str) -> list[Any]:
        value = self._values.get(name)
        if value is None:
            return []
        if not isinstance(value, list):
            raise ArtifactError(f"{self._file} has {name} {shown(value)}; it must be a list.")
        return value
