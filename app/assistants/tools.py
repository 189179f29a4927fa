"""The tools: what an assistant can ask of the translation service."""

from __future__ import annotations

import asyncio
import base64
import binascii
import logging
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any, Literal

from mcp.server.mcpserver import Context, MCPServer
from mcp.server.mcpserver.exceptions import ToolError
from pydantic import BaseModel, Field

from app.assistants.caller import Report, ServiceCaller, detail_of
from app.documents.formats.table import translated_name
from app.version import installed_version
from model.languages import plain_code
from model.translation.options import Formality

Connect = Callable[[Context[Any, Any]], ServiceCaller]
"""The service for the user of an assistant."""

AnyContext = Context[Any, Any]

Target = Annotated[str, Field(description="Language to translate into, such as de or pt-BR; list_languages has all.")]
Source = Annotated[str, Field(description="Language of the text; auto detects it.")]

MAX_TERMS_FOUND = 50
"""Most terms that one look-up answers."""

_INSTRUCTIONS = """\
Translates texts and documents on a server of its own. Placeholders, tags, code and layout of a text stay as they are.
Translate whole sentences or paragraphs, many in one call, rather than word by word."""


class Translations(BaseModel):
    """The translations of a call."""

    translations: list[str]
    """One for each text, in order."""

    sources: list[str]
    """The language of each text, detected or as stated."""

    untranslated: int
    """Sentences that stay in their language, as no translation of them was sound."""


class Detection(BaseModel):
    """The language of a text."""

    language: str | None
    """Its code, or null if no served language is probable."""

    confidence: float
    """From 0 to 1."""


class Language(BaseModel):
    """A language that can be translated."""

    code: str
    name: str
    targets: list[str]
    """Codes of the languages it can be translated into."""


class Term(BaseModel):
    """An entry of a glossary."""

    source: str
    target: str
    glossary: str
    """The name of the glossary."""

    glossary_id: str
    """Its id, which ``translate`` takes as ``glossary``."""


class StoredTranslation(BaseModel):
    """A translation in a translation memory."""

    source: str
    """The stored sentence."""

    target: str
    """Its translation."""

    score: float
    """The similarity of the sentence and the stored one; 1 if they are equal."""

    memory: str
    """The id of the memory, which ``translate`` takes as ``memory``."""


class TranslatedFile(BaseModel):
    """A translated document."""

    filename: str
    content: str
    """The file in base64."""


class Tools:
    """Tools that work the same for each kind of connection; their docstrings are what assistants read.

    Args:
        connect: Gives the service for a call.
    """

    def __init__(self, connect: Connect) -> None:
        self._connect = connect

    async def translate(
        self,
        ctx: AnyContext,
        texts: Annotated[list[str], Field(min_length=1, description="Texts of any length, each translated by itself.")],
        target: Target,
        source: Source = "auto",
        formality: Annotated[
            Formality | None, Field(description="Form of address: formal (Sie) or informal (du).")
        ] = None,
        format: Annotated[Literal["text", "html", "xml"], Field(description="Format of the texts.")] = "text",
        glossary: Annotated[
            dict[str, str] | str | None,
            Field(description="Terms and their translations, or the id of a stored glossary."),
        ] = None,
        memory: Annotated[
            str | None,
            Field(description="Id of a translation memory, or corrections; sentences that it has are not translated."),
        ] = None,
    ) -> Translations:
        """Translate texts. Placeholders, tags and line breaks come back unchanged."""
        body: dict[str, Any] = {"text": texts, "source": source, "target": target, "format": format}
        if formality is not None:
            body["formality"] = formality
        if glossary is not None:
            body["glossary"] = (
                glossary
                if isinstance(glossary, str)
                else [{"source": term, "target": translation} for term, translation in glossary.items()]
            )
        if memory is not None:
            body["memory"] = memory
        results = (await self._connect(ctx).post("/translate", body))["translations"]
        for number, result in enumerate(results, start=1):
            if "error" in result:
                raise ToolError(f"Text {number} was not translated: {detail_of(result['error'])}")
        return Translations(
            translations=[result["text"] for result in results],
            sources=[result["source"] for result in results],
            untranslated=sum(result.get("untranslated", 0) for result in results),
        )

    async def detect_language(self, ctx: AnyContext, text: str) -> Detection:
        """Detect which of the served languages a text is in."""
        (detection,) = (await self._connect(ctx).post("/detect", {"text": text}))["detections"]
        return Detection(language=None, confidence=0) if detection is None else Detection.model_validate(detection)

    async def list_languages(self, ctx: AnyContext) -> list[Language]:
        """List the languages that can be translated, and into which others."""
        languages = await self._connect(ctx).get("/libretranslate/languages")
        return [Language.model_validate(language) for language in languages]

    async def look_up_term(
        self,
        ctx: AnyContext,
        term: Annotated[str, Field(min_length=1, description="A word or a part of it, in any case.")],
        source: Annotated[str, Field(description="Language of the term.")],
        target: Target,
    ) -> list[Term]:
        """Look up how a term is translated in the stored glossaries."""
        service = self._connect(ctx)
        terms: list[Term] = []
        for glossary in (await service.get("/v3/glossaries"))["glossaries"]:
            for pair in glossary["dictionaries"]:
                codes = pair["source_lang"], pair["target_lang"]
                if tuple(map(plain_code, codes)) != (plain_code(source), plain_code(target)):
                    continue
                entries = await service.get(
                    f"/v3/glossaries/{glossary['glossary_id']}/entries", source_lang=codes[0], target_lang=codes[1]
                )
                # In a thread: a glossary may have megabytes.
                terms += await asyncio.to_thread(_entries_with, term, entries["dictionaries"][0]["entries"], glossary)
                if len(terms) >= MAX_TERMS_FOUND:
                    return terms[:MAX_TERMS_FOUND]
        return terms

    async def look_up_translation(
        self,
        ctx: AnyContext,
        text: Annotated[str, Field(min_length=1, description="A sentence.")],
        source: Annotated[str, Field(description="Language of the sentence.")],
        target: Target,
    ) -> list[StoredTranslation]:
        """Look up stored translations of a sentence and of similar ones, which people have written or confirmed."""
        body = {"text": text, "source": source, "target": target}
        matches = (await self._connect(ctx).post("/memories/matches", body))["matches"]
        return [StoredTranslation.model_validate(match) for match in matches]

    async def translate_file(
        self,
        ctx: AnyContext,
        path: Annotated[str, Field(description="Path of the document on this machine.")],
        target: Target,
        source: Source = "auto",
    ) -> str:
        """Translate a document on this machine: text, Markdown, HTML, Word, subtitles, catalogues and more.

        The translation is a new file beside it (letter.docx becomes letter.de.docx); the answer is its path. Nothing is
        overwritten.
        """
        original = Path(path).expanduser()
        translated = original.with_name(translated_name(original.name, target))
        if translated.exists():
            raise ToolError(f"{translated} exists; move it away first, as nothing is overwritten.")
        try:
            content = await asyncio.to_thread(original.read_bytes)
        except OSError as error:
            raise ToolError(f"{original} cannot be read: {error.strerror}.") from error
        result = await self._document(ctx, content, original.name, source, target)
        try:
            with translated.open("xb") as file:
                file.write(result)
        except OSError as error:
            raise ToolError(f"{translated} cannot be written: {error.strerror}.") from error
        return str(translated)

    async def translate_document(
        self,
        ctx: AnyContext,
        filename: Annotated[str, Field(description="Name of the file; its ending decides its format.")],
        content: Annotated[str, Field(description="The file in base64.")],
        target: Target,
        source: Source = "auto",
    ) -> TranslatedFile:
        """Translate a document: text, Markdown, HTML, Word, subtitles, catalogues of programs and more."""
        try:
            data = base64.b64decode(content, validate=True)
        except binascii.Error as error:
            raise ToolError(f"content is not base64: {error}.") from error
        result = await self._document(ctx, data, filename, source, target)
        return TranslatedFile(
            filename=translated_name(Path(filename).name, target), content=base64.b64encode(result).decode()
        )

    async def _document(self, ctx: AnyContext, content: bytes, filename: str, source: str, target: str) -> bytes:
        report: Report = ctx.report_progress
        fields = {"source": source, "target": target}
        return await self._connect(ctx).translate_document(content, filename, fields, report)


def tool_server(connect: Connect, *, on_this_machine: bool) -> MCPServer[Any]:
    """The tools as a server of the Model Context Protocol.

    Args:
        connect: Gives the service for a call.
        on_this_machine: Whether assistants run on this machine, so that documents are given by their paths; otherwise
            they are given by their content.
    """
    for name in ("mcp", "httpx"):  # they log every call
        logging.getLogger(name).setLevel(logging.WARNING)
    server: MCPServer[Any] = MCPServer("verso", title="Verso", instructions=_INSTRUCTIONS, version=installed_version())
    tools = Tools(connect)
    for tool in (
        tools.translate,
        tools.translate_file if on_this_machine else tools.translate_document,
        tools.detect_language,
        tools.list_languages,
        tools.look_up_term,
        tools.look_up_translation,
    ):
        server.add_tool(tool)
    return server


def _entries_with(term: str, entries: str, glossary: dict[str, Any]) -> list[Term]:
    """The entries whose source has a term in it, at most ``MAX_TERMS_FOUND``.

    Args:
        term: The term, in any case.
        entries: Lines of a source, a tab and a target.
        glossary: The description of their glossary.
    """
    wanted, terms = term.casefold(), []
    for line in entries.splitlines():
        source, _, target = line.partition("\t")
        if wanted in source.casefold():
            terms.append(
                Term(source=source, target=target, glossary=glossary["name"], glossary_id=glossary["glossary_id"])
            )
            if len(terms) == MAX_TERMS_FOUND:
                break
    return terms
