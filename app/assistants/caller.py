"""The service as a tool of an assistant calls it: over HTTP, with the key of the assistant's user.

The tools use the same routes as everybody, so keys, quotas, limits and errors are those of the routes.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

import httpx
from mcp.server.mcpserver.exceptions import ToolError

Report = Callable[[float, float | None], Awaitable[None]]
"""Called with the sentences of a document that are translated, and their number if it is known."""

_DEEPL = "/v3/"
"""Routes in DeepL's protocol, the only ones for glossaries."""

_SECONDS_BETWEEN_LOOKS = 0.3
_MOST_SECONDS_BETWEEN_LOOKS = 5.0


class ServiceCaller:
    """Calls the routes of a service for one user.

    Args:
        http: The client, with the service's address.
        key: The user's key; None without keys.
    """

    def __init__(self, http: httpx.AsyncClient, key: str | None) -> None:
        self._http = http
        self._key = key

    async def get(self, path: str, **query: str) -> Any:
        """The JSON that a route answers.

        Args:
            path: The route.
            query: Its parameters.

        Raises:
            ToolError: The service refuses the request, or does not answer; the message is its own.
        """
        return (await self._send("GET", path, params=query)).json()

    async def post(self, path: str, body: Mapping[str, Any]) -> Any:
        """The JSON that a route answers to a JSON body; see :meth:`get` for the errors."""
        return (await self._send("POST", path, json=body)).json()

    async def translate_document(
        self, content: bytes, filename: str, fields: Mapping[str, str], report: Report
    ) -> bytes:
        """Translate a document. It is deleted on the service afterwards, also if the assistant stops waiting for it.

        Args:
            content: The file.
            filename: Its name, whose ending decides its format.
            fields: The fields of the form, such as ``target``.
            report: Called whenever sentences were translated.

        Returns:
            The translated file.

        Raises:
            ToolError: As for :meth:`get`, or the document cannot be translated.
        """
        document = (await self._send("POST", "/documents", files={"file": (filename, content)}, data=fields)).json()
        path = f"/documents/{document['id']}"
        try:
            wait_s = _SECONDS_BETWEEN_LOOKS
            while document["status"] in ("queued", "running"):
                await asyncio.sleep(wait_s)
                wait_s = min(1.5 * wait_s, _MOST_SECONDS_BETWEEN_LOOKS)
                document = await self.get(path)
                await report(document["sentences"]["done"], document["sentences"]["total"])
            if document["status"] != "done":
                raise ToolError(
                    f"{filename} was not translated: {detail_of(document.get('problem')) or document['status']}."
                )
            return (await self._send("GET", f"{path}/result")).content
        finally:
            with contextlib.suppress(ToolError):  # it is deleted after a day anyway
                await asyncio.shield(self._send("DELETE", path))

    async def _send(self, method: str, path: str, **request: Any) -> httpx.Response:
        headers = {} if self._key is None else {"Authorization": f"Bearer {self._key}"}
        if path.startswith(_DEEPL):  # its clients always send a key
            headers = {"Authorization": f"DeepL-Auth-Key {self._key or 'none'}"}
        try:
            response = await self._http.request(method, path, headers=headers, **request)
        except httpx.HTTPError as error:
            raise ToolError(f"The translation service does not answer ({type(error).__name__}: {error}).") from error
        if not response.is_success:
            raise ToolError(_reason(response))
        return response


def _reason(response: httpx.Response) -> str:
    """Why the service refuses a request, in its own words."""
    with contextlib.suppress(ValueError):  # a proxy may answer in HTML
        if detail := detail_of(response.json()):
            return detail
    return f"The translation service answers with status {response.status_code}."


def detail_of(problem: object) -> str | None:
    """The sentences in the description of a problem, of any of the service's protocols; None if it has none.

    Args:
        problem: A JSON value.
    """
    if not isinstance(problem, dict):
        return None
    fields = "; ".join(f"{field['field']}: {field['message']}" for field in problem.get("errors", ()))
    detail = problem.get("detail") or problem.get("error") or problem.get("message") or problem.get("title")
    return f"{detail} {fields}".strip() if isinstance(detail, str) else None
