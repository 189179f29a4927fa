"""A key, its scopes and limits, and its token."""

from __future__ import annotations

import hashlib
import hmac
import re
import secrets
from dataclasses import dataclass
from typing import Literal, get_args

from app.engine.caller import Priority
from app.errors import ScopeMissing

Scope = Literal["translate", "attention", "documents", "admin"]
"""A group of routes that a key gives access to."""

SCOPES: tuple[Scope, ...] = get_args(Scope)
"""All scopes, in the order in which they are listed."""

_TOKEN = re.compile(r"verso_([0-9a-f]{12})_([A-Za-z0-9_-]{43})")


@dataclass(frozen=True)
class Key:
    """A key, without its secret.

    Args:
        id: Its public part, which lists, logs and usage show.
        name: Its name for the operator.
        scopes: Its scopes.
        created_at: When it was created, in seconds since 1970.
        expires_at: When it expires, or None for never.
        revoked_at: When it was revoked, or None.
        characters_per_month: Most characters in a calendar month (UTC), or None.
        requests_per_minute: Most requests in a minute, or None.
        concurrent_sentences: Most sentences in translation at a time, or None.
        priority: The priority of its sentences.
    """

    id: str
    name: str
    scopes: tuple[Scope, ...]
    created_at: float
    expires_at: float | None = None
    revoked_at: float | None = None
    characters_per_month: int | None = None
    requests_per_minute: int | None = None
    concurrent_sentences: int | None = None
    priority: Priority = Priority.INTERACTIVE

    def why_unusable(self, now: float) -> str | None:
        """``revoked`` or ``expired``, or None if the key can be used.

        Args:
            now: Seconds since 1970.
        """
        if self.revoked_at is not None:
            return "revoked"
        return "expired" if self.expires_at is not None and self.expires_at <= now else None

    def require(self, scope: Scope) -> None:
        """Check that the key has a scope.

        Args:
            scope: The scope.

        Raises:
            ScopeMissing: The key lacks it.
        """
        if scope not in self.scopes:
            raise ScopeMissing(scope, self.scopes)


@dataclass(frozen=True)
class Token:
    """The token that the holder of a key sends: ``verso_ID_SECRET``.

    Args:
        id: The id of the key.
        secret: 256 random bits, as base64url.
    """

    id: str
    secret: str

    def __repr__(self) -> str:
        """The token without its secret, which must not appear in messages."""
        return f"Token({self.id!r})"

    @property
    def text(self) -> str:
        """The token as it is sent."""
        return f"verso_{self.id}_{self.secret}"

    @property
    def digest(self) -> bytes:
        """The digest that is stored instead of the secret.

        A single SHA-256 is enough: slow hashes make guessing expensive, and 256 random bits cannot be guessed.
        """
        return hashlib.sha256(self.secret.encode()).digest()


def new_token() -> Token:
    """A random token."""
    return Token(secrets.token_hex(6), secrets.token_urlsafe(32))


def parse_token(text: str) -> Token | None:
    """Parse a token; None if the text is not a token.

    Args:
        text: Any text.
    """
    match = _TOKEN.fullmatch(text)
    return None if match is None else Token(match[1], match[2])


def is_token_of(token: Token, digest: bytes | None) -> bool:
    """Whether a token has a stored digest. The time does not depend on either of them.

    Args:
        token: The token.
        digest: The stored digest, or None if there is no key with this id.
    """
    matches = hmac.compare_digest(token.digest, digest or bytes(32))
    return matches and digest is not None
