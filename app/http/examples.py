"""Examples in the OpenAPI document.

Requests are JSON as a client sends it. Answers are instances of their models, so that a field that is renamed or
missing fails when the module is imported. A test sends every request to a running application.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from fastapi.openapi.models import Example

from app.errors import (
    AccountsUnavailable,
    BodiesTooLarge,
    BodyTooLarge,
    BundleNotFound,
    BundleOutside,
    BundleRefused,
    ConcurrencyExceeded,
    CrossSiteRefused,
    DeadlineExceeded,
    DeadlineUnreachable,
    DetectedPairNotServed,
    DocumentNotDone,
    DocumentNotFound,
    DocumentRefused,
    DocumentsFull,
    DocumentTooComplex,
    DocumentTooLarge,
    FieldProblem,
    GlossaryNotFound,
    GlossaryPairMissing,
    HostRefused,
    InferenceFailed,
    InvalidGlossary,
    InvalidIdempotencyKey,
    InvalidKey,
    InvalidRequest,
    KeyRequired,
    LanguageNotDetected,
    LimitExceeded,
    MalformedBody,
    MalformedForm,
    ModelAlreadyLoaded,
    NotAcceptable,
    NotReady,
    QueueFull,
    QuotaExceeded,
    RateLimited,
    RequestTooSlow,
    ScopeMissing,
    StorageFull,
    StorageUnavailable,
    Unauthorized,
    UnknownModel,
    UnsupportedDocument,
    UnsupportedMediaType,
)
from app.http.schemas.answers import (
    AttentionMatrices,
    AttentionResponse,
    CapabilitiesBody,
    ConfidenceBody,
    DoneEvent,
    HealthResponse,
    LimitsBody,
    ModelBody,
    ModelsResponse,
    SentenceEvent,
    TimingsBody,
    TranslateResponse,
    TranslationBody,
    TranslationEvent,
    UnloadResponse,
    UsageBody,
    WordConfidenceBody,
)
from app.http.schemas.documents import DocumentBody, SentencesBody
from model.errors import (
    DecodingError,
    EmptySource,
    InvalidMarkup,
    InvalidOptions,
    InvalidPattern,
    InvalidPrefix,
    MarkupNotKept,
    SeveralSentences,
    SourceTooLong,
    TargetTooLong,
    UnknownHead,
    UnsupportedFormality,
    UnsupportedPair,
)
from model.languages import LanguagePairs


def _requests(bodies: Mapping[str, Mapping[str, Any]]) -> dict[str, Example]:
    """Bodies by what they show, in OpenAPI's form."""
    return {name: Example(summary=name, value=body) for name, body in bodies.items()}


TRANSLATE_REQUESTS = _requests(
    {
        "one text": {"text": "Good morning.", "source": "en", "target": "de"},
        "a list, fast": {
            "text": ["The cat sleeps.", "It is raining."],
            "source": "en",
            "target": "de",
            "decoding": "greedy",
        },
        "three hypotheses with scores": {
            "text": "Das Haus ist alt.",
            "source": "de",
            "target": "en",
            "beam_size": 4,
            "num_hypotheses": 3,
            "return_scores": True,
        },
        "alignment": {"text": "The house is old.", "source": "en", "target": "de", "return_alignment": True},
        "protected spans": {
            "text": "Hello {name}, see https://example.com/a_b.",
            "source": "en",
            "target": "de",
            "protect": ["auto", "[A-Z]{2}-[0-9]+"],
        },
        "HTML": {
            "text": '<p>Please click <a href="/start">here</a>.</p>',
            "source": "en",
            "target": "de",
            "format": "html",
        },
        "a glossary": {
            "text": "The house is old.",
            "source": "en",
            "target": "de",
            "glossary": [{"source": "house", "target": "Gebäude"}],
        },
        "confidence": {"text": "The house is old.", "source": "en", "target": "de", "return_confidence": True},
        "a given beginning, and what else was considered": {
            "text": "Good morning, my friend.",
            "source": "en",
            "target": "de",
            "target_prefix": "Guten",
            "return_search": True,
        },
        "texts of any language": {
            "text": ["The house is old.", "Das Haus ist alt."],
            "source": "auto",
            "target": "de",
        },
    }
)

_TRANSLATION = TranslationBody(
    text="Guten Morgen.",
    source="en",
    target="de",
    finish_reason="stop",
    score=None,
    alternatives=[],
    alignment=None,
    model="verso-en-de",
    detected=None,
    confidence=ConfidenceBody(
        score=0.97,
        words=[
            WordConfidenceBody(target=(0, 5), probability=0.9412),
            WordConfidenceBody(target=(6, 13), probability=0.8807),
        ],
        uncovered=[],
    ),
)

TRANSLATE_ANSWER = TranslateResponse(
    translations=[_TRANSLATION],
    model="verso-en-de",
    usage=UsageBody(source_tokens=5, target_tokens=4),
    timings_ms=TimingsBody(queue=0.2, decode=9.8, total=11.1),
)

TRANSLATE_EVENTS = [
    ("sentence", SentenceEvent(text=0, sentence=0, source=(0, 13), translation="Guten Morgen.", finish_reason="stop")),
    ("translation", TranslationEvent(text=0, translation=_TRANSLATION)),
    ("done", DoneEvent(**{name: getattr(TRANSLATE_ANSWER, name) for name in ("model", "usage", "timings_ms")})),
]
"""What a streamed answer holds."""

ATTENTION_REQUESTS = _requests(
    {
        "cross-attention, heads averaged": {
            "text": "Good morning.",
            "source": "en",
            "target": "de",
            "average_heads": True,
        },
        "a given translation": {
            "text": "Good morning.",
            "target_text": "Guten Tag.",
            "source": "en",
            "target": "de",
            "kinds": ["encoder", "cross"],
            "layers": [0],
            "heads": [0, 1],
        },
        "one head, step by step": {
            "text": "Good morning.",
            "source": "en",
            "target": "de",
            "kinds": ["decoder"],
            "layers": [0],
            "heads": [1],
            "steps": {"kind": "decoder", "layer": 0, "head": 1},
        },
    }
)

ATTENTION_ANSWER = AttentionResponse(
    source_tokens=["<2de>", "▁Good", "▁morning", "</s>"],
    target_tokens=["▁Guten", "▁Morgen", "</s>"],
    decoder_input_tokens=["<s>", "▁Guten", "▁Morgen"],
    translation="Guten Morgen",
    model="verso-en-de",
    detected=None,
    cross=AttentionMatrices(
        layers=[0],
        heads=[0, 1, 2, 3],
        averaged=True,
        weights=[[[[0.1, 0.7, 0.1, 0.1], [0.1, 0.1, 0.7, 0.1], [0.1, 0.1, 0.1, 0.7]]]],
    ),
)

LOADED_MODEL = ModelBody(
    name="verso-en-de",
    pairs=[("de", "en"), ("en", "de")],
    languages=[],
    precision="int8",
    device="cpu",
    format_version=2,
    architecture={"d_model": 256, "num_heads": 4, "d_ff": 1024, "encoder_layers": 6, "decoder_layers": 2},
    limits=LimitsBody(
        max_texts=128,
        max_text_characters=50_000,
        max_body_bytes=2_000_000,
        max_beam_size=16,
        max_hypotheses=16,
        deadline_s=30.0,
        max_source_tokens=120,
        max_target_tokens=256,
    ),
    capabilities=CapabilitiesBody(placeholders=16, formality=["de"], glossary=True),
    decoding={
        "scoring": "hf",
        "length_penalty": 1.0,
        "early_stopping": False,
        "beam_size": 4,
        "forbidden": None,
        "renormalise": False,
        "force_end": False,
    },
    licence="CC BY-SA 4.0",
    attribution=[
        "Tatoeba (CC BY 2.0 FR): tatoeba.org, www.manythings.org/anki",
        "BConTrasT (CC BY-SA 4.0): Unbabel; Farajian et al. 2020",
        "MLQE-PE (CC0): Fomicheva et al. 2020",
        "Dynamics 365 documentation (CC BY 4.0): Microsoft",
        "LibreOffice Help (MPL 2.0): LibreOffice contributors, The Document Foundation",
        "Berean Standard Bible (CC0); Menge Bible 1939 (public domain)",
        "Cataclysm: Dark Days Ahead (CC BY-SA 3.0): CleverRaven and contributors",
        "GNOME help (CC BY-SA 3.0, some 4.0): GNOME Documentation Project",
        "PHP manual (CC BY 3.0): PHP Documentation Group",
        "Debian Administrator's Handbook (CC BY-SA 3.0): Hertzog and Mas",
        "mozilla.org and Firefox (MPL 2.0): Mozilla contributors",
        "XQuAD (CC BY-SA 4.0): Artetxe et al. 2020",
        "Parallel Universal Dependencies (CC BY-SA 3.0): Universal Dependencies PUD",
        "Books and history (public domain): Project Gutenberg texts",
        "Element and Mattermost (Apache 2.0); OpenStreetMap iD (ISC)",
        "Dink Smallwood (zlib): Seth A. Robinson; translation by M. Skiba, K. Eichwalder, H. Gerloni, R. Illig",
        "African Storybook (CC BY): African Storybook Project authors, Global ASP translators",
        "Schema-Guided Dialogue (CC BY-SA 4.0): Rastogi et al. 2020; Taskmaster-4 (CC BY 4.0): Google",
        "Common Voice (CC0): Mozilla",
        "Klexikon (CC BY-SA): Klexikon authors; Aumiller and Gertz 2022",
        "WikiSplit, GAP, Wikipedia homographs (CC BY-SA 4.0 and 3.0): Wikipedia authors, Google",
        "German Wikipedia (CC BY-SA): Wikipedia authors; Aumiller and Gertz 2022",
        "OpenStax textbooks (CC BY 4.0): Rice University",
        "ELTeC-deu (novels in the public domain; markup CC BY 4.0): COST Action Distant Reading",
        "MT-GenEval (CC BY-SA 3.0): Amazon, Currey et al. 2022; Wikipedia authors",
        "Wiktionary, WikDict, FreeDict (CC BY-SA 3.0); german-nouns (CC BY-SA 4.0)",
        "Wikidata, ICONCLASS (CC0); CLDR (Unicode licence); iD presets (ISC); emojibase (MIT); Swiss code lists",
        "FreeBSD documentation (BSD 2-clause): The FreeBSD Documentation Project, The FreeBSD German "
        "Documentation Project",
        "The Rust Programming Language (MIT or Apache 2.0): Rust authors, rust-lang-de",
        "Debian news (Expat): Software in the Public Interest and others",
        "Corona-Warn-App (Apache 2.0): SAP, Deutsche Telekom; Privacy Guides (CC BY-SA 4.0); Bitcoin.org (MIT)",
        "Open Source Guides (CC BY 4.0): GitHub; Open SDG (MIT); Mozilla legal documents (CC BY-SA 3.0), "
        "Foundation and Thunderbird (MPL 2.0)",
        "Chromium (BSD 3-clause); Home Assistant, DuckDuckGo, pretalx, Superset, Alfresco, Keycloak (Apache 2.0)",
        "Shopware, Indico, django-allauth, Clerk (MIT); Django, Wagtail, Oscar (BSD 3-clause)",
        "German laws (public domain); digital.gov, 18F (CC0); OpenStax economics (CC BY 4.0); GOV.UK smart "
        "answers (MIT); The World Factbook (CC0)",
        "Written and translated for Verso by a large language model (CC0)",
    ],
    card={
        "training": {"steps": 320, "vocab_size": 12_000},
        "scores": {"tatoeba-test-v2020-07-28": {"de-en": {"bleu": 43.2, "chrf": 60.8, "num_sentences": 10_000}}},
        "precision": {"sentences": 400, "identical_to_float32": 351},
        "confidence": {"calibrated": True},
    },
)

MODELS_ANSWER = ModelsResponse(models=[LOADED_MODEL])

LOAD_REQUESTS = _requests(
    {
        "a bundle": {"file": "fr-en.pt"},
        "a bundle that must be exactly this one": {"file": "fr-en.pt", "sha256": "0" * 64},
    }
)

UNLOAD_ANSWER = UnloadResponse(name="opus-fr-en", duration_ms=412.5)

DOCUMENT_REQUESTS = _requests(
    {
        "a text file": {"file": "Good morning.\n", "source": "en", "target": "de"},
        "fast, with a glossary": {
            "file": "The house is old.\n",
            "source": "en",
            "target": "de",
            "decoding": "greedy",
            "glossary": '[{"source": "house", "target": "Gebäude"}]',
        },
    }
)
"""Fields of forms; the file is sent as ``document.txt``."""

_DOCUMENT_ID = "0f3c9d5e8a7b4c21b6d0e9f8a7c6b5d4"

DOCUMENT_ADDED = DocumentBody(
    id=_DOCUMENT_ID,
    status="queued",
    filename="document.txt",
    sentences=SentencesBody(done=0, total=None),
    seconds_left=None,
    expires_at=datetime(2026, 3, 2, 8, 30, tzinfo=UTC),
)

DOCUMENT_DONE = DocumentBody(
    id=_DOCUMENT_ID,
    status="done",
    filename="document.txt",
    sentences=SentencesBody(done=1, total=1),
    seconds_left=None,
    expires_at=datetime(2026, 3, 2, 8, 30, tzinfo=UTC),
)

ALIVE = HealthResponse(status="alive")

READY = HealthResponse(status="ready")

METRICS = '# TYPE verso_requests_total counter\nverso_requests_total{route="/translate",status="200"} 12.0\n'

_PAIRS = LanguagePairs((("en", "de"), ("de", "en")))

ERRORS: tuple[Exception, ...] = (
    MalformedForm("The body is not a valid form: Missing boundary in multipart."),
    DocumentTooLarge(10_000_000),
    UnsupportedDocument(".pdf", [".docx", ".html", ".txt"]),
    DocumentRefused("The document is encrypted; save it without a password."),
    DocumentTooComplex("It has more than 1000000 XML elements and attributes"),
    DocumentsFull(100, 3_600.0),
    StorageFull(),
    StorageUnavailable(),
    DocumentNotFound(_DOCUMENT_ID),
    DocumentNotDone("running"),
    MalformedBody("The body is not valid JSON: expected value at line 1 column 10."),
    NotAcceptable("text/html", ["application/json"]),
    BodyTooLarge(2_000_000),
    RequestTooSlow(30.0, 10_000),
    BodiesTooLarge(200_000_000),
    CrossSiteRefused("https://example.com"),
    HostRefused("example.com"),
    UnsupportedMediaType("text/plain", ["application/json"]),
    InvalidRequest([FieldProblem("beam_sise", "unknown field; did you mean 'beam_size'?", 4, None)]),
    LimitExceeded("text", 300, 128, "texts in one request"),
    UnsupportedPair("en", "fr", _PAIRS),
    LanguageNotDetected(_PAIRS),
    GlossaryNotFound("1f4b4a3e-6a0b-4d3c-8f44-0f4b1c6d2a77"),
    GlossaryPairMissing("en", "fr", [("en", "de")]),
    InvalidGlossary("The terms of a stored glossary belong to a language: name the source, instead of auto."),
    DetectedPairNotServed("de", 0.97, "de-AT", _PAIRS),
    Unauthorized(),
    KeyRequired(),
    InvalidKey("unknown"),
    ScopeMissing("documents", ["translate"]),
    RateLimited(60, 1.0),
    ConcurrencyExceeded(30, 80, 100),
    QuotaExceeded(1_200, 4_999_500, 5_000_000, 86_400.0),
    InvalidIdempotencyKey("The Idempotency-Key was sent with another request; send a new one."),
    AccountsUnavailable(),
    BundleNotFound("fr-en.pt", ["de-en.pt", "en-de.pt"]),
    BundleOutside("/etc/passwd"),
    BundleRefused("fr-en.pt is damaged: the checksum of a part is wrong; restore it from a copy."),
    ModelAlreadyLoaded("opus-fr-en"),
    UnknownModel("opus-fr-en", ["verso-en-de"]),
    UnsupportedFormality("formal", "en", ["de"]),
    UnknownHead("cross", "layer", 2, 2),
    InvalidPattern("(a", "missing ): (a"),
    InvalidMarkup("mismatched tag", 1, 12),
    MarkupNotKept(),
    InvalidOptions("num_hypotheses is 8; it must be 1 to the beam size, which is 4."),
    EmptySource(),
    SourceTooLong(300, 256),
    TargetTooLong(300, 256),
    SeveralSentences(2),
    InvalidPrefix(
        "target_prefix is 'Gut½', and the model would write 'Gut1/2'; leave out characters that it does not "
        "know, and write the others as it does."
    ),
    QueueFull(1.0, 300, 4_000, 4_096),
    DeadlineUnreachable(41.5, 29.9, 300, 12.0),
    InferenceFailed(),
    DecodingError(),
    NotReady(5.0, "loading"),
    DeadlineExceeded(30.0),
)
"""One error of each kind that a route documents; its body is made by the table that answers requests."""
