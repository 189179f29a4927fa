"""Bodies of ``/models`` and ``/admin/models``, and examples."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import AfterValidator, Field

from app.http.schemas.answers import AnswerBody, is_none
from app.http.schemas.fields import RequestBody, checked_digest, without_nul
from app.http.schemas.requests import request_examples


class LimitsBody(AnswerBody):
    """The limits of one request."""

    max_texts: int
    """Maximum number of texts in one request."""

    max_text_characters: int
    """Maximum number of characters of one text."""

    max_body_bytes: int
    """Maximum number of bytes of a request body."""

    max_beam_size: int
    """Largest `beam_size`."""

    max_hypotheses: int
    """Largest `num_hypotheses`."""

    deadline_s: float
    """Seconds after which a request is stopped."""

    max_source_tokens: int
    """Maximum tokens of a sentence that the model reads; longer sentences are split."""

    max_target_tokens: int
    """Maximum tokens of a sentence that the model writes."""


class CapabilitiesBody(AnswerBody):
    """The options that a model supports."""

    placeholders: int
    """Number of placeholder symbols that it copies into translations."""

    formality: list[str]
    """Target languages for which it supports `formality`."""

    glossary: bool
    """Whether it was trained with glossary terms. Otherwise terms replace what it wrote."""


class ModelBody(AnswerBody):
    """A loaded model."""

    name: str
    """Its name."""

    pairs: list[tuple[str, str]]
    """Source and target languages it translates between."""

    languages: list[str]
    """Languages that it translates between in every direction, besides `pairs`."""

    precision: str
    """How its weights are stored: float32, float16, bfloat16 or int8."""

    device: str
    """The device it runs on: cpu or cuda."""

    memory_bytes: int
    """Memory that it takes when it is loaded, estimated, in bytes."""

    in_memory: bool | None
    """Whether it is loaded; otherwise its next request loads it. Null on Ray Serve, where each replica decides."""

    format_version: int
    """Version of the bundle's format."""

    architecture: dict[str, Any]
    """Its layers, heads, widths and vocabulary."""

    limits: LimitsBody
    """The limits of one request."""

    capabilities: CapabilitiesBody
    """The options that it supports."""

    decoding: dict[str, Any]
    """Its defaults for options that a request leaves out: scoring, length penalty, and so on."""

    licence: str
    """Licence of its weights."""

    attribution: list[str]
    """Sources to credit when the model or its data is passed on."""

    card: dict[str, Any]
    """Its training, scores, precision and confidence."""


class PivotBody(AnswerBody):
    """The language pairs that two models translate one after the other."""

    language: str
    """The pivot language."""

    pairs: list[tuple[str, str]]
    """Source and target languages."""

    languages: list[str]
    """Languages that are translated into each other in every direction, besides `pairs`, by one model or two."""


class ModelsResponse(AnswerBody):
    """The loaded models."""

    models: list[ModelBody]
    """The models."""

    pivot: PivotBody | None = Field(default=None, exclude_if=is_none)
    """The pairs that are translated through another language; absent if there are none."""

    corrections: bool = Field(default=False, exclude_if=lambda is_on: not is_on)
    """Whether confirmed and suggested translations are stored as corrections (`VERSO_SUGGESTIONS`); absent if not."""


class UnloadResponse(AnswerBody):
    """A model that was unloaded."""

    name: str
    """Its name."""

    duration_ms: float
    """Duration in milliseconds, including the wait for running requests."""


class LoadRequest(RequestBody):
    """A bundle to load."""

    file: Annotated[str, Field(min_length=1, max_length=1000), AfterValidator(without_nul)]
    """Its path, relative to the folder of a configured bundle; or `auto`, the shipped translator."""

    sha256: Annotated[str, AfterValidator(checked_digest)] | None = None
    """The SHA-256 digest it must have; a file with another digest is refused before any code of it runs."""


LOADED_MODEL = ModelBody(
    name="verso-en-de",
    pairs=[("de", "en"), ("en", "de")],
    languages=[],
    precision="int8",
    device="cpu",
    memory_bytes=26_500_000,
    in_memory=True,
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
        "alignment_head": None,
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

LOAD_REQUESTS = request_examples(
    {
        "a bundle": {"file": "fr-en.pt"},
        "a bundle that must be exactly this one": {"file": "fr-en.pt", "sha256": "0" * 64},
    }
)

UNLOAD_ANSWER = UnloadResponse(name="opus-fr-en", duration_ms=412.5)
