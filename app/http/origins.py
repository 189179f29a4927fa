"""The hosts that the service answers for, and the sites whose pages may use it.

A browser sends requests of any page to any address that it can reach, such as a service on the same machine without
keys. Two checks refuse pages of other sites:

- The header ``Host`` must have an allowed name. For the browser, a page whose own name resolves to this machine (DNS
  rebinding) has the same origin; only the name differs.
- A request that changes or translates something must not come from another site. Browsers send ``Sec-Fetch-Site`` and
  ``Origin``; other clients send neither.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Sequence
from functools import lru_cache
from urllib.parse import urlsplit

from starlette.types import ASGIApp, Receive, Scope, Send

from app.errors import CrossSiteRefused, HostRefused, ServiceError
from app.http.problems import error_response

ANY = "*"
"""Every host, or every origin."""

LOOPBACK = "loopback"
"""The names and addresses of this machine that no other machine can reach."""

_SAFE_METHODS = frozenset({"GET", "HEAD", "OPTIONS"})
"""Methods that change and translate nothing; a page of another site cannot read their answers."""

_DEFAULT_PORTS = {"http": 80, "https": 443}


class OriginGuard:
    """Refuses requests for other hosts, and those of pages of other sites.

    Args:
        app: The application inside.
        hosts: Names and addresses that are served, in lower case; ``*.name`` matches all names below ``name``.
        origins: Other origins whose pages may use the service, in lower case.
    """

    def __init__(self, app: ASGIApp, hosts: Sequence[str], origins: Sequence[str]) -> None:
        self.app = app
        self._hosts = tuple(hosts)
        self._origins = frozenset(origins)
        self._allows = lru_cache(maxsize=1_024)(self._is_allowed)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one connection."""
        if scope["type"] == "http" and (error := self._refusal(scope)) is not None:
            await error_response(scope, error)(scope, receive, send)
            return
        await self.app(scope, receive, send)

    def _refusal(self, scope: Scope) -> ServiceError | None:
        host, origin, site = b"", None, b""
        for name, value in scope["headers"]:
            if name == b"host":
                host = value
                if not self._allows(value):
                    return HostRefused(value.decode("latin-1"))
            elif name == b"origin":
                origin = value
            elif name == b"sec-fetch-site":
                site = value
        if (origin is None and not site) or scope["method"] in _SAFE_METHODS:
            return None
        sent_by = None if origin is None else origin.decode("latin-1").lower()
        if ANY in self._origins or sent_by in self._origins:
            return None
        if site in (b"same-origin", b"none"):  # a page cannot set this header
            return None
        if sent_by is None:
            return CrossSiteRefused(None) if site else None
        address = _address_of(sent_by)
        is_own = address is not None and address == _address_of(f"//{host.decode('latin-1').lower()}", sent_by)
        return None if is_own and not site else CrossSiteRefused(sent_by)

    def _is_allowed(self, host: bytes) -> bool:
        if ANY in self._hosts:
            return True
        name = _name_of(host.decode("latin-1").lower())
        return any(
            is_loopback(name) if allowed == LOOPBACK else _matches(name, allowed.strip("[]")) for allowed in self._hosts
        )


def is_loopback(name: str) -> bool:
    """Whether a name or an address belongs to this machine and no other machine can reach it.

    Args:
        name: In lower case, without a port.
    """
    if name == "localhost" or name.endswith(".localhost"):
        return True
    try:
        return ipaddress.ip_address(name).is_loopback
    except ValueError:
        return False


def _matches(name: str, allowed: str) -> bool:
    return name.endswith(allowed[1:]) if allowed.startswith("*.") else name == allowed


def _name_of(host: str) -> str:
    """The name or address in a header ``Host``, without its port and without brackets."""
    if host.startswith("["):
        return host[1:].partition("]")[0]
    return host.partition(":")[0].rstrip(".")


def _address_of(origin: str, scheme_of: str = "") -> tuple[str, int] | None:
    """Name and port of an origin; None if it has none, such as the origin ``null``.

    Args:
        origin: The origin.
        scheme_of: An origin whose scheme decides the port if ``origin`` has none.
    """
    try:
        parts = urlsplit(origin)
        if not parts.hostname:
            return None
        default = _DEFAULT_PORTS.get(parts.scheme or urlsplit(scheme_of).scheme, 0)
        return parts.hostname, parts.port or default
    except ValueError:
        return None
