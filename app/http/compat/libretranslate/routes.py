"""The routes of the protocol. Requests wait for models that are loading, and for room in the queue."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Request, Response
from fastapi.responses import JSONResponse, RedirectResponse

from app.documents.formats.table import MEDIA_TYPES
from app.errors import DetectedPairNotServed, InvalidParameter, LanguageNotDetected
from app.http.access import accounts_of, caller_of, metered
from app.http.chosen_memories import corrections_of, keeps_corrections, memory_of
from app.http.compat.libretranslate import schemas
from app.http.compat.libretranslate.charset import CharsetRoute
from app.http.compat.libretranslate.dependency import reads
from app.http.compat.libretranslate.errors import error_response
from app.http.compat.libretranslate.files import (
    FILES_DISABLED,
    address_of,
    download,
    read_translate_file,
    refused,
    supported_files,
    translate_document,
)
from app.http.compat.libretranslate.languages import (
    AUTO,
    NOTHING_DETECTED,
    describe_languages,
    find_language,
    wire_code,
)
from app.http.compat.libretranslate.openapi import answers, spec_of
from app.http.compat.libretranslate.parameters import (
    TextsRequest,
    check_lengths,
    not_supported,
    read_texts,
    read_translate,
)
from app.http.compat.libretranslate.paths import PREFIX
from app.http.compat.libretranslate.schemas import DetectionBody, LanguageBody, SettingsBody, TranslateAnswer
from app.http.compat.libretranslate.suggestions import SUGGESTIONS_DISABLED, add_suggestion
from app.http.compat.parameters import Parameters
from app.http.state import service_of, settings_of
from app.serving.detection import Detection
from app.serving.request import TranslationRequest
from app.serving.text_job import TextResult
from app.telemetry.logs import log_fields
from model.errors import UnsupportedPair
from model.languages import LanguagePairs, english_name
from model.translation.options import TranslationOptions

NO_DOCUMENT = "There is no document '0f3c9d5e8a7b4c21b6d0e9f8a7c6b5d4'; documents are deleted after a day."

NOT_READY = "The model is still loading; try again in 5 s."


router = APIRouter(prefix=PREFIX, tags=["LibreTranslate"], route_class=CharsetRoute)


@router.post(
    "/translate",
    summary="Translate texts",
    response_model_exclude_unset=True,
    responses=answers(schemas.TRANSLATED),
)
async def libretranslate_translate(
    request: Request,
    parameters: Annotated[Parameters, reads(schemas.TranslateParameters, schemas.TRANSLATE_REQUESTS)],
) -> TranslateAnswer:
    """Translate a text or a list of texts.

    A text without letters, one in the target language, and with `source: auto` one whose language cannot be detected
    come back unchanged. If a text of a list cannot be translated, none is.
    """
    settings = settings_of(request)
    body = read_translate(parameters, settings)
    log_fields(request.scope).update(texts=len(body.texts), characters=body.num_characters)
    pairs = await service_of(request).language_pairs()
    source, target = _languages(body.source, body.target, pairs)
    if source == target:
        return _answer(body, [(text, []) for text in body.texts])
    async with metered(request, body.texts, body):
        return await _translate(request, body, source, target, pairs)


async def _translate(
    request: Request, body: TextsRequest, source: str, target: str, pairs: LanguagePairs
) -> TranslateAnswer:
    """The answer of ``/translate`` for two languages."""
    settings = settings_of(request)
    num_hypotheses = body.num_alternatives + 1
    options = TranslationOptions(
        format=body.format,
        num_hypotheses=num_hypotheses,
        beam_size=min(max(TranslationOptions().beam_size, num_hypotheses), settings.max_beam_size),
    )
    try:
        outcome = await service_of(request).translate(
            TranslationRequest(
                body.texts,
                source,
                target,
                options,
                caller_of(request),
                waits=True,
                memory=memory_of(request, corrections_of(request)),
            )
        )
    except UnsupportedPair:
        outcome = None
    if outcome is None:
        raise _unavailable(source, target, pairs)
    log_fields(request.scope).update(
        source_tokens=outcome.num_source_tokens,
        target_tokens=outcome.num_target_tokens,
        queue_ms=round(outcome.queue_ms, 3),
        decode_ms=round(outcome.decode_ms, 3),
    )
    translated = [
        _translated(text, result, target, pairs) for text, result in zip(body.texts, outcome.texts, strict=True)
    ]
    if source != AUTO:
        return _answer(body, translated)
    detected = [_detection(result.detected, pairs) for result in outcome.texts]
    return _answer(body, translated, detected)


def _languages(source: str, target: str, pairs: LanguagePairs) -> tuple[str, str]:
    """The requested languages in the spelling of their models; the source may be ``auto``."""
    loaded = pairs.languages
    model_source = AUTO if source.lower() == AUTO else find_language(source, loaded)
    model_target = find_language(target, loaded)
    if model_source is None or model_target is None:
        raise not_supported(source if model_source is None else target)
    return model_source, model_target


def _translated(text: str, result: TextResult, target: str, pairs: LanguagePairs) -> tuple[str, list[str]]:
    """The translation of a text and its alternatives, or its error."""
    match result.result:
        case LanguageNotDetected():
            return text, []
        case DetectedPairNotServed(language=language):
            raise _unavailable(language, target, pairs)
        case Exception() as error:
            raise error
        case best:
            others = dict.fromkeys(other.text for other in best.alternatives)
            return best.text, [other for other in others if other != best.text]


def _answer(
    body: TextsRequest, translated: list[tuple[str, list[str]]], detected: list[DetectionBody] | None = None
) -> TranslateAnswer:
    """Translations in the form of the texts; fields that were not requested are left out."""
    fields: dict[str, Any] = {"translatedText": body.in_form([text for text, _ in translated])}
    if detected is not None:
        fields["detectedLanguage"] = detected[0] if body.form == "text" else detected
    if body.num_alternatives:
        others = [others for _, others in translated]
        fields["alternatives"] = others[0] if body.form == "text" else others
    return TranslateAnswer(**fields)


def _detection(detected: Detection | None, pairs: LanguagePairs) -> DetectionBody:
    if detected is None:
        return DetectionBody(confidence=0.0, language=NOTHING_DETECTED)
    language = wire_code(detected.language, pairs.languages)
    return DetectionBody(confidence=round(detected.confidence * 100, 2), language=language)


def _unavailable(source: str, target: str, pairs: LanguagePairs) -> InvalidParameter:
    return InvalidParameter(
        f"{_named(target, pairs)} is not available as a target language from {_named(source, pairs)}"
    )


def _named(language: str, pairs: LanguagePairs) -> str:
    code = wire_code(language, pairs.languages)
    return f"{'Auto Detect' if language == AUTO else english_name(code)} ({code})"


@router.post(
    "/detect",
    summary="Detect the language of a text",
    responses=answers(schemas.DETECTED),
)
async def libretranslate_detect(
    request: Request,
    parameters: Annotated[Parameters, reads(schemas.DetectParameters, {"a text": schemas.DETECT_REQUEST})],
) -> list[DetectionBody]:
    """The language of a text among the loaded ones; with confidence 0 if it cannot be detected."""
    texts, _ = read_texts(parameters, settings_of(request))
    check_lengths(texts, settings_of(request))
    log_fields(request.scope).update(texts=len(texts), characters=sum(map(len, texts)))
    (detected,) = await service_of(request).detect(["\n".join(texts)])
    return [_detection(detected, await service_of(request).language_pairs())]


@router.post("/languages", name="libretranslate_languages_by_post", include_in_schema=False)
@router.get("/languages", summary="The loaded languages", responses=answers(schemas.LANGUAGES))
async def libretranslate_languages(request: Request) -> list[LanguageBody]:
    """The languages of the loaded models, and what each can be translated to."""
    return describe_languages(await service_of(request).language_pairs())


@router.get("/frontend/settings", summary="Settings for interfaces", responses=answers(schemas.FRONTEND_SETTINGS))
async def libretranslate_settings(request: Request) -> SettingsBody:
    """Limits, features, and languages to begin with."""
    accounts = accounts_of(request)
    languages = describe_languages(await service_of(request).language_pairs())
    reached = {code for language in languages for code in language.targets if code != language.code}
    target = "en" if "en" in reached else min(reached, default=languages[0].code)
    return SettingsBody(
        charLimit=settings_of(request).max_text_characters,
        frontendTimeout=500,
        apiKeys=accounts is not None and accounts.has_keys,
        keyRequired=accounts is not None and accounts.needs_key,
        suggestions=settings_of(request).suggestions == "on",
        filesTranslation=bool(supported_files(settings_of(request))),
        supportedFilesFormat=supported_files(settings_of(request)),
        language=schemas.LanguageChoice(
            source=schemas.NamedLanguage(code=AUTO, name="Auto Detect"),
            target=schemas.NamedLanguage(code=target, name=english_name(target)),
        ),
    )


@router.get(
    "/health",
    summary="Whether the service translates",
    response_model=schemas.HealthBody,
    responses=answers(schemas.HEALTHY, also={503: NOT_READY}),
)
async def libretranslate_health(request: Request) -> Response:
    """For load balancers; 503 at once unless the service is ready."""
    service = service_of(request)
    if service.state != "ready":
        return error_response(503, str(service.not_ready()))
    return JSONResponse(schemas.HEALTHY.model_dump())


@router.get("/spec", summary="The description of these routes", responses=answers(schemas.SPEC))
async def libretranslate_spec(request: Request) -> dict[str, Any]:
    """The OpenAPI document of the protocol's routes; paths are relative to the address of this document."""
    return spec_of(request.app.openapi(), PREFIX)


@router.post(
    "/suggest",
    summary="Suggest a better translation",
    response_model=schemas.SuggestedBody,
    responses=answers(schemas.SUGGESTED, also={403: SUGGESTIONS_DISABLED}),
)
async def libretranslate_suggest(
    request: Request,
    parameters: Annotated[
        Parameters,
        reads(
            schemas.SuggestParameters,
            {"a suggestion": schemas.SUGGEST_REQUEST},
            is_on=lambda settings: settings.suggestions == "on",
        ),
    ],
) -> Response:
    """Store a better translation of a text, which `/translate` then answers with, if suggestions are enabled.

    With keys it is stored for the caller's key, without keys for every caller.
    """
    if not keeps_corrections(request):
        return error_response(403, SUGGESTIONS_DISABLED)
    await add_suggestion(request, parameters, await service_of(request).language_pairs())
    return JSONResponse(schemas.SUGGESTED.model_dump())


@router.post(
    "/translate_file",
    summary="Translate a document",
    response_model=schemas.TranslatedFile,
    responses=answers(schemas.FILE_TRANSLATED, also={403: FILES_DISABLED}),
)
async def libretranslate_translate_file(
    request: Request,
    parameters: Annotated[
        Parameters,
        reads(schemas.FileParameters, scope="documents", is_on=lambda settings: bool(settings.max_documents)),
    ],
) -> Response:
    """Translate a document, and wait until it is done.

    The answer is the address of the translation, which is kept for a day. `GET /frontend/settings` lists the supported
    endings of files. The document is cancelled if the client disconnects.
    """
    if not supported_files(settings_of(request)):
        return error_response(403, FILES_DISABLED)
    body = read_translate_file(parameters)
    pairs = await service_of(request).language_pairs()
    source, target = _languages(body.source, body.target, pairs)
    try:
        document = await translate_document(request, body.file, source, target)
    except UnsupportedPair:
        document = None
    except DetectedPairNotServed as error:
        document, source = None, error.language
    if document is None:
        raise _unavailable(source, target, pairs)
    if document.status != "done":
        return refused(document)
    return JSONResponse({"translatedFileUrl": address_of(request, document)})


@router.get(
    "/download_file/{filename}",
    summary="Download a translated document",
    response_class=Response,
    responses=answers("Guten Morgen.\n", media_types=MEDIA_TYPES, also={404: NO_DOCUMENT}),
)
async def libretranslate_download_file(request: Request, filename: str) -> Response:
    """The translation of a document, in the format of its source."""
    return await download(request, filename)


@router.get("/", include_in_schema=False)
async def libretranslate_root(request: Request) -> Response:
    """Redirects to the documentation, under the path at which a proxy serves this process."""
    return RedirectResponse(f"{request.scope.get('root_path', '')}/docs")
