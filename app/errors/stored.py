"""Errors of stored glossaries, documents and translation memories."""

from __future__ import annotations

from collections.abc import Sequence

from app.errors.problems import ServiceError


class GlossaryNotFound(ServiceError, code="glossary_not_found", status=404, title="There is no such glossary"):
    """No stored glossary has the id ``glossary_id``."""

    def __init__(self, glossary_id: str) -> None:
        super().__init__(f"There is no glossary {glossary_id[:100]!r}.")


class GlossaryPairMissing(
    ServiceError, code="glossary_pair_missing", status=422, title="The glossary has no terms for these languages"
):
    """No dictionary of a stored glossary, or several, match the languages of a request.

    Args:
        source: The language of the text, or None if the request does not name it.
        target: The target language, or None if the request does not name it.
        pairs: The language pairs of the glossary's dictionaries.
    """

    def __init__(self, source: str | None, target: str | None, pairs: Sequence[tuple[str, str]]) -> None:
        request = f"source {source or 'not named'}, target {target or 'not named'}"
        listed = ", ".join("-".join(pair) for pair in pairs)
        super().__init__(
            f"No single dictionary of the glossary matches the languages ({request}); name those of one: {listed}."
        )


class InvalidGlossary(
    ServiceError, code="invalid_glossary", status=422, title="The terms of the glossary cannot be used"
):
    """The terms of a glossary cannot be stored, or cannot be used for a request; the message says why."""


class GlossaryStoreFull(ServiceError, code="glossary_store_full", status=409, title="No more glossaries can be stored"):
    """No more glossaries or terms can be stored; ``bound`` is a sentence about the limit."""

    def __init__(self, bound: str) -> None:
        super().__init__(f"The glossary cannot be stored: {bound}; delete some.")


class DocumentTooLarge(ServiceError, code="document_too_large", status=413, title="The document is too large"):
    """A document has more than ``limit`` bytes."""

    def __init__(self, limit: int) -> None:
        super().__init__(f"The document is larger than {limit} bytes; send it in parts.")


class UnsupportedDocument(
    ServiceError, code="unsupported_document", status=415, title="Documents of this kind are not supported"
):
    """The name of a document ends in ``suffix``, which is not among those ``supported``."""

    def __init__(self, suffix: str, supported: Sequence[str]) -> None:
        name = f"ends in {suffix[:20]!r}" if suffix else "has no ending"
        super().__init__(f"The name of the file {name}; supported endings: {', '.join(supported)}.")


class DocumentRefused(ServiceError, code="document_refused", status=422, title="The document cannot be translated"):
    """A document is damaged, dangerous, or of another kind than its name says; the message says which."""


class DocumentTooComplex(ServiceError, code="document_too_complex", status=422, title="The document is too complex"):
    """Reading or writing a document takes more memory or time than is allowed for its size.

    Args:
        reason: What is too much, or what happened; None if the process of the file ended without an answer.
    """

    def __init__(self, reason: str | None = None) -> None:
        what = reason or "Reading or writing the document takes more memory or time than is allowed for its size"
        super().__init__(f"{what}; divide it, or save it in a simpler form.")
        self.reason = reason


class DocumentsFull(
    ServiceError, code="documents_full", status=429, title="Too many documents are stored", retry_after=True
):
    """The limit of stored documents is reached.

    Args:
        bound: The limit.
        retry_after_s: Seconds until the first of them is deleted.
        is_of_key: Whether it is the limit of a single key.
    """

    def __init__(self, bound: int, retry_after_s: float, is_of_key: bool = False) -> None:
        advice = f"delete one that is no longer needed, or try again in {retry_after_s:.0f} s"
        if not bound:
            advice = "the operator has switched documents off"
        noun = "document" if bound == 1 else "documents"
        whose = " of this key" if is_of_key else ""
        super().__init__(f"The limit of {bound} stored {noun}{whose} is reached; {advice}.")
        self.retry_after_s = retry_after_s


class DocumentNotFound(ServiceError, code="document_not_found", status=404, title="There is no such document"):
    """There is no document with this id."""

    def __init__(self, id: str) -> None:
        super().__init__(f"There is no document {id[:64]!r}; documents are deleted after a day.")


class DocumentsNotListed(ServiceError, code="documents_not_listed", status=403, title="Documents cannot be listed"):
    """The service has no keys, so that nobody may know the ids of others."""

    def __init__(self) -> None:
        super().__init__("Documents are listed for the owner of a key; without keys, an id is a secret.")


class DocumentNotDone(ServiceError, code="document_not_done", status=409, title="The document is not translated yet"):
    """The result of a document is requested, but its ``status`` is not ``done``."""

    def __init__(self, status: str, advice: str = "partial=true returns what is translated so far") -> None:
        super().__init__(f"The document's status is {status!r}; {advice}.")


class DocumentNotEditable(
    ServiceError, code="document_not_editable", status=409, title="The translation of the document cannot be edited"
):
    """A document was translated by a release that stored only its file."""

    def __init__(self) -> None:
        super().__init__(
            "The document was translated by an earlier release, which kept only the translated file; send the "
            "document again to edit its translation."
        )


class StorageFull(ServiceError, code="storage_full", status=507, title="There is no room left on the disk"):
    """The disk has no room for more documents or glossaries."""

    def __init__(self) -> None:
        super().__init__("The disk of the service is full; delete documents or glossaries, or try again later.")


class StorageUnavailable(
    ServiceError, code="storage_unavailable", status=503, title="The disk cannot be used", retry_after=True
):
    """Documents or glossaries cannot be read or written; the log has the reason."""

    retry_after_s = 30.0

    def __init__(self) -> None:
        super().__init__("Documents and glossaries cannot be read or written at present; try again in 30 s.")


class MemoryNotFound(ServiceError, code="memory_not_found", status=404, title="There is no such translation memory"):
    """The caller has no translation memory with the id ``memory_id``."""

    def __init__(self, memory_id: str) -> None:
        super().__init__(f"There is no translation memory {memory_id[:100]!r}; GET /memories lists them.")


class MemoryUnitNotFound(
    ServiceError, code="memory_unit_not_found", status=404, title="The translation memory has no such unit"
):
    """A translation memory has no unit with the id ``unit``."""

    def __init__(self, unit: int) -> None:
        super().__init__(f"The translation memory has no unit {unit}; it may have been deleted.")


class MemoryStoreFull(ServiceError, code="memory_store_full", status=409, title="No more translations can be stored"):
    """No more memories or units can be stored; ``bound`` is a sentence about the limit."""

    def __init__(self, bound: str) -> None:
        super().__init__(f"The translation memory cannot be stored: {bound}; delete some.")


class MemoryFileRefused(
    ServiceError, code="memory_file_refused", status=422, title="The file is not a translation memory"
):
    """A file is not valid TMX, exceeds a limit, or has no unit that can be used; the message says which."""


class MemoryFileTooLarge(ServiceError, code="memory_file_too_large", status=413, title="The file is too large"):
    """A TMX file has more than ``limit`` bytes."""

    def __init__(self, limit: int) -> None:
        super().__init__(f"The file is larger than {limit} bytes; send it in parts.")


class ImportRunning(
    ServiceError, code="import_running", status=429, title="Another import is running", retry_after=True
):
    """A key has at most one running import, and the service ``limit``."""

    retry_after_s = 10.0

    def __init__(self, limit: int) -> None:
        super().__init__(
            f"A translation memory of this key is being imported, or {limit} of all keys are; try again in "
            f"{self.retry_after_s:.0f} s."
        )
