"""The answer to ``POST /translate``."""

from __future__ import annotations

from dataclasses import dataclass, field

from verso_client.answers import FailedTranslation, Timings, Translation, Usage
from verso_client.errors import TextFailed


@dataclass(frozen=True, slots=True)
class TranslateAnswer:
    """The translations, in the order of the texts.

    Args:
        translations: One entry for each text.
        model: The model of the first translated text; each entry names its own model.
        usage: Tokens of the texts and translations.
        timings_ms: Where the time was spent.
        request_id: The id of the request.
    """

    translations: tuple[Translation | FailedTranslation, ...]
    model: str
    usage: Usage
    timings_ms: Timings
    request_id: str | None = field(default=None, compare=False)

    @property
    def results(self) -> list[Translation]:
        """The translations, if every text has one.

        Raises:
            TextFailed: A text could not be translated; ``translations`` has the others.
        """
        translations: list[Translation] = []
        for index, entry in enumerate(self.translations):
            if isinstance(entry, FailedTranslation):
                raise TextFailed(entry.error, index, self.request_id)
            translations.append(entry)
        return translations

    @property
    def texts(self) -> list[str]:
        """The translated texts, if every text was translated.

        Raises:
            TextFailed: A text could not be translated; ``translations`` has the others.
        """
        return [translation.text for translation in self.results]

    @property
    def text(self) -> str:
        """The translated text, if there is exactly one.

        Raises:
            ValueError: There are several.
            TextFailed: The text could not be translated.
        """
        if len(self.translations) != 1:
            raise ValueError(f"The answer has {len(self.translations)} translations; use texts.")
        return self.texts[0]
