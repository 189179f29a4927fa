"""The uses of a soak that store terms and translations: glossaries, translation memories, corrections."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any

import httpx

from app.memories.tmx import MEDIA_TYPE, TMX_END, tmx_beginning, tmx_units
from app.memories.unit import StoredUnit
from benchmarks.soak.document_uses import content_of, send_document
from benchmarks.soak.users import DEEPL, DEEPL_PAIR, PAIR, Item, Service, User
from benchmarks.soak.uses import call_tool, timeless, translate

TARGET = "So steht es im Speicher."
"""The stored translation of a sentence."""


async def deepl_glossary(service: Service, user: User, item: Item, rng: random.Random) -> object:
    """A glossary is made, used, read and deleted."""
    word = item.split()[-1].strip(".")
    new_glossary = {"name": "soak", **DEEPL_PAIR, "entries": f"{word}\tSchlusswort", "entries_format": "tsv"}
    glossary = (await service.send(user, "POST", "/v2/glossaries", 201, DEEPL, json=new_glossary)).json()["glossary_id"]
    fields = {"text": [item], **DEEPL_PAIR, "glossary_id": glossary}
    answer = await service.send(user, "POST", "/v2/translate", scheme=DEEPL, json=fields)
    user.received(item)
    terms = await service.send(user, "GET", f"/v2/glossaries/{glossary}/entries", scheme=DEEPL)
    await service.send(user, "DELETE", f"/v2/glossaries/{glossary}", 204, DEEPL)
    return [answer.json(), terms.text]


async def multilingual_glossary(service: Service, user: User, item: Item, rng: random.Random) -> object:
    """A glossary of DeepL's version 3 is made, extended, used by its id in ``/translate``, read and deleted."""
    dictionaries = [
        {**DEEPL_PAIR, "entries": entry, "entries_format": "tsv"}
        for entry in (f"{item.split()[-1].strip('.')}\tSchlusswort", "soak\tDauerlauf")
    ]
    new_glossary = {"name": "soak", "dictionaries": dictionaries[:1]}
    created = await service.send(user, "POST", "/v3/glossaries", 201, DEEPL, json=new_glossary)
    path = f"/v3/glossaries/{created.json()['glossary_id']}"
    await service.send(user, "PATCH", path, scheme=DEEPL, json={"dictionaries": dictionaries[1:]})
    answer = await service.send(
        user, "POST", "/translate", json={"text": item, **PAIR, "glossary": created.json()["glossary_id"]}
    )
    user.received(item)
    terms = await service.send(user, "GET", f"{path}/entries", scheme=DEEPL, params=DEEPL_PAIR)
    await service.send(user, "DELETE", path, 204, DEEPL)
    return [timeless(answer), terms.json()]


async def memory(service: Service, user: User, item: Item, rng: random.Random) -> object:
    """A translation memory is made, filled, used in two protocols, read and deleted."""
    created = await service.send(user, "POST", "/memories", 201, json={"name": "soak", "source": "en"})
    id = created.json()["id"]
    units = [{"source": source, "target": target} for source, target in await _pairs(service, user, item, rng)]
    await service.send(user, "POST", f"/memories/{id}/units", json={"units": units, "target": "de"})
    used = await _use_memory(service, user, item, id)
    matches = await service.send(user, "POST", "/memories/matches", json={"text": item["text"], "memory": id, **PAIR})
    page = await service.send(user, "GET", f"/v3/translation_memories/{id}/segments", scheme=DEEPL)
    await service.send(user, "DELETE", f"/memories/{id}")
    similar = [[match[name] for name in ("source", "target", "score")] for match in matches.json()["matches"]]
    return [*used, similar, [segment["source_text"] for segment in page.json()["segments"]]]


async def memory_file(service: Service, user: User, item: Item, rng: random.Random) -> object:
    """A memory is made of a TMX file, used by a document, exported and deleted."""
    content = _tmx(await _pairs(service, user, item, rng))
    created = await service.send(user, "POST", "/memories", 201, json={"name": "soak", "source": "en"})
    path = f"/memories/{created.json()['id']}"
    try:
        await service.send(user, "POST", f"{path}/tmx", content=content, headers={"Content-Type": MEDIA_TYPE})
        translated = await send_document(service, user, item, memory=created.json()["id"], memory_threshold="0.7")
        result = await service.send(user, "GET", f"/documents/{translated['id']}/result")
        await service.send(user, "DELETE", f"/documents/{translated['id']}")
        exported = await service.send(user, "GET", f"{path}/tmx")
    finally:
        await service.send(user, "DELETE", path)
    counts = translated.get("memory")
    return [translated["status"], counts, content_of(item["name"], result.content), exported.text.count("<tu ")]


async def deepl_memory_file(service: Service, user: User, item: Item, rng: random.Random) -> object:
    """The same by DeepL's jobs, used by a translation."""
    memories, content = "/v3/translation_memories", _tmx(await _pairs(service, user, item, rng))
    file = {"file_name": "soak.tmx", "content_type": MEDIA_TYPE, "content_length": len(content)}
    job = (await service.send(user, "POST", f"{memories}/import", 201, DEEPL, json={"source_file": file})).json()
    anybody = User("anybody")
    await service.send(anybody, "PUT", httpx.URL(job["upload_url"]).path, content=content)
    job = (await service.send(user, "GET", f"{memories}/jobs/{job['job_id']}", scheme=DEEPL)).json()
    id = job["results"][0]["translation_memory_id"]
    used = await _use_memory(service, user, item, id)
    job = (await service.send(user, "POST", f"{memories}/{id}/export", 202, DEEPL)).json()
    job = (await service.send(user, "GET", f"{memories}/jobs/{job['job_id']}", scheme=DEEPL)).json()
    exported = await service.send(anybody, "GET", httpx.URL(job["results"][0]["download_url"]).path)
    await service.send(user, "DELETE", f"{memories}/{id}", 204, DEEPL)
    return [*used, exported.text.count("<tu ")]


async def correct(service: Service, user: User, item: Item, rng: random.Random) -> object:
    """A sentence is corrected again: before, its translation is the last correction, and afterwards the new one.

    Requests without a memory still get the model's, which is the answer.
    """
    text: str = item["text"]
    plain: Any = await translate(service, user, item, rng)
    async with user.correcting[text]:
        latest = user.corrections.get(text, plain["translations"][0]["text"])
        before = await _remembered(service, user, text, rng)
        correction = f"Korrektur {rng.randrange(10**9)}."
        if rng.random() < 0.5:
            body = {"units": [{"source": text, "target": correction}], **PAIR}
            await service.send(user, "POST", "/memories/corrections/units", json=body)
        else:
            await service.send(user, "POST", "/libretranslate/suggest", json={"q": text, "s": correction, **PAIR})
        user.corrections[text] = correction
        after = await _remembered(service, user, text, rng)
    if (before, after) != (latest, correction):
        return f"{text}: {before!r} before, for {latest!r}, and {after!r} after, for {correction!r}"
    return plain


async def edited_document(service: Service, user: User, item: Item, rng: random.Random) -> object:
    """A sentence of a translated document is changed and confirmed: the file has it, and so has the user's memory."""
    translated = await send_document(service, user, item)
    path = f"/documents/{translated['id']}"
    (sentence, *_) = (await service.send(user, "GET", f"{path}/sentences")).json()["sentences"]
    edit = f"Von Hand: {sentence['translation']}"
    change = {"sentences": [{"number": sentence["number"], "translation": edit, "confirmed": True}]}
    remembered: object = edit
    async with user.correcting[sentence["source"]]:
        changed = (await service.send(user, "PATCH", f"{path}/sentences", json=change)).json()
        if changed.get("remembered"):
            user.corrections[sentence["source"]] = edit
            remembered = await _remembered(service, user, sentence["source"], rng)
    result = await service.send(user, "GET", f"{path}/result")
    await service.send(user, "DELETE", path)
    counts = [changed[name] for name in ("total", "edited", "confirmed")]
    return [translated["status"], counts, remembered, content_of(item["name"], result.content)]


async def _remembered(service: Service, user: User, text: str, rng: random.Random) -> object:
    """The translation of a sentence with the user's corrections, in one of the protocols."""
    protocol = rng.choice(("native", "LibreTranslate", "DeepL", "assistant"))
    if protocol == "native":
        answer = await service.send(user, "POST", "/translate", json={"text": text, "memory": "corrections", **PAIR})
        translation = answer.json()["translations"][0]["text"]
    elif protocol == "LibreTranslate":
        answer = await service.send(user, "POST", "/libretranslate/translate", json={"q": text, **PAIR})
        translation = answer.json()["translatedText"]
    elif protocol == "DeepL":
        answer = await service.send(user, "POST", "/v2/translate", scheme=DEEPL, json={"text": [text], **DEEPL_PAIR})
        translation = answer.json()["translations"][0]["text"]
    else:
        arguments = {"texts": [text], "memory": "corrections", **PAIR}
        translation = (await call_tool(service, user, "translate", **arguments))["translations"][0]
    user.received(text)
    return translation


async def _use_memory(service: Service, user: User, item: Item, id: str) -> list[object]:
    """Translations with a memory that has a sentence and a similar one to another, in two protocols."""
    texts = [item["stored"], item["text"]]
    native = await service.send(
        user, "POST", "/translate", json={"text": texts, **PAIR, "memory": id, "memory_threshold": 0.7}
    )
    chosen = {"translation_memory_id": id, "translation_memory_threshold": 70}
    deepl = await service.send(
        user, "POST", "/v2/translate", scheme=DEEPL, json={"text": texts, **DEEPL_PAIR, **chosen}
    )
    user.received(*texts)
    user.received(*texts)
    translations = native.json()["translations"]
    statuses = [[use[name] for name in ("status", "score")] for entry in translations for use in entry["memory"]]
    return [[entry["text"] for entry in translations], statuses, deepl.json()]


async def _pairs(service: Service, user: User, item: Item, rng: random.Random) -> list[tuple[str, str]]:
    """Two sentences with translations, of which the second is the service's."""
    similar: Any = await translate(service, user, {"text": item["similar"], **PAIR}, rng)
    return [(item["stored"], TARGET), (item["similar"], similar["translations"][0]["text"])]


def _tmx(pairs: Sequence[tuple[str, str]]) -> bytes:
    return (
        tmx_beginning("en") + tmx_units("en", [StoredUnit(0, *pair, "de", 0.0, 0.0, None) for pair in pairs]) + TMX_END
    )
