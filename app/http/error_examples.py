"""An error of each kind, for the OpenAPI document."""

from __future__ import annotations

from app import errors
from app.http.schemas.documents import DOCUMENT_ID
from model import errors as model_errors
from model.languages import LanguagePairs

_PAIRS = LanguagePairs((("en", "de"), ("de", "en")))

ERRORS: tuple[Exception, ...] = (
    errors.MalformedForm("The body is not a valid form: Missing boundary in multipart."),
    errors.DocumentTooLarge(10_000_000),
    errors.UnsupportedDocument(".pdf", [".docx", ".html", ".txt"]),
    errors.DocumentRefused("The document is encrypted; save it without a password."),
    errors.DocumentTooComplex("It has more than 1000000 XML elements and attributes"),
    errors.DocumentsFull(100, 3_600.0),
    errors.StorageFull(),
    errors.StorageUnavailable(),
    errors.DocumentNotFound(DOCUMENT_ID),
    errors.DocumentsNotListed(),
    errors.DocumentNotDone("running"),
    errors.DocumentNotEditable(),
    errors.MalformedBody("The body is not valid JSON: expected value at line 1 column 10."),
    errors.NotAcceptable("text/html", ["application/json"]),
    errors.BodyTooLarge(2_000_000),
    errors.RequestTooSlow(30.0, 10_000),
    errors.BodiesTooLarge(200_000_000),
    errors.CrossSiteRefused("https://example.com"),
    errors.HostRefused("example.com"),
    errors.UnsupportedMediaType("text/plain", ["application/json"]),
    errors.InvalidRequest([errors.FieldProblem("beam_sise", "unknown field; did you mean 'beam_size'?", 4, None)]),
    errors.LimitExceeded("text", 300, 128, "texts in one request"),
    model_errors.UnsupportedPair("en", "fr", _PAIRS),
    errors.LanguageNotDetected(_PAIRS),
    errors.GlossaryNotFound("1f4b4a3e-6a0b-4d3c-8f44-0f4b1c6d2a77"),
    errors.GlossaryPairMissing("en", "fr", [("en", "de")]),
    errors.InvalidGlossary("The terms of a stored glossary belong to a language; set source to it instead of auto."),
    errors.MemoryNotFound("8c6f1c0e-30d5-4a0e-8a48-4f0a4c1f7b11"),
    errors.MemoryUnitNotFound(17),
    errors.MemoryStoreFull("the limit of 100 memories is reached"),
    errors.MemoryFileRefused("The file is not well-formed XML: no element found (line 1, column 1)."),
    errors.MemoryFileTooLarge(1_000_000_000),
    errors.ImportRunning(2),
    errors.DetectedPairNotServed("de", 0.97, "de-AT", _PAIRS),
    errors.PairInTwoLegs(("fr", "en"), ("en", "de")),
    errors.Unauthorized(),
    errors.KeyRequired(),
    errors.InvalidKey("unknown"),
    errors.ScopeMissing("documents", ["translate"]),
    errors.RateLimited(60, 1.0),
    errors.ConcurrencyExceeded(30, 80, 100),
    errors.QuotaExceeded(1_200, 4_999_500, 5_000_000, 86_400.0),
    errors.InvalidIdempotencyKey("The Idempotency-Key was sent with another request; send a new one."),
    errors.AccountsUnavailable(),
    errors.BundleNotFound("fr-en.pt", ["de-en.pt", "en-de.pt"]),
    errors.BundleOutside("/etc/passwd"),
    errors.BundleRefused("fr-en.pt is damaged: the checksum of a part is wrong; restore it from a copy."),
    errors.ModelAlreadyLoaded("opus-fr-en"),
    errors.UnknownModel("opus-fr-en", ["verso-en-de"]),
    model_errors.UnsupportedFormality("formal", "en", ["de"]),
    model_errors.UnknownHead("cross", "layer", 2, 2),
    model_errors.InvalidPattern("(a", "missing ): (a"),
    model_errors.InvalidMarkup("mismatched tag", 1, 12),
    model_errors.MarkupNotKept(),
    model_errors.InvalidOptions("num_hypotheses is 8; it must be 1 to the beam size, which is 4."),
    model_errors.EmptySource(),
    model_errors.SourceTooLong(300, 256),
    model_errors.TargetTooLong(300, 256),
    model_errors.SeveralSentences(2),
    model_errors.InvalidPrefix(
        "target_prefix is 'Gut½', and the model would write 'Gut1/2'; leave out characters that it does not "
        "know, and write the others as it does."
    ),
    errors.QueueFull(1.0, 300, 4_000, 4_096),
    errors.DeadlineUnreachable(41.5, 29.9, 300, 12.0),
    errors.InferenceFailed(),
    model_errors.DecodingError(),
    errors.NotReady(5.0, "loading"),
    errors.DeadlineExceeded(30.0),
)
"""One error of each kind that a route documents."""
