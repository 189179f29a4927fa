"""Everything an operator can configure: environment variables ``VERSO_*``, read once at the start."""

from __future__ import annotations

import difflib
import ipaddress
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal, Self
from urllib.parse import urlsplit

from pydantic import AfterValidator, BeforeValidator, Field, SecretStr, ValidationError, model_validator
from pydantic_settings import BaseSettings, EnvSettingsSource, PydanticBaseSettingsSource, SettingsConfigDict

from app.errors import SettingsError
from model.configuration import requirement
from model.decoding.native.compiler import SET_NAMES
from model.process.files import is_digest

ENV_PREFIX = "VERSO_"

AUTO = "auto"
"""As the name of a bundle: the shipped translator. As a bound: measured at the start."""

OFF = "off"
"""Value of ``VERSO_PIVOT`` for no pivot language."""

NO_PROXIES = "none"
"""Value of ``VERSO_TRUSTED_PROXIES`` that trusts no proxy."""

MIN_TOKEN_CHARACTERS = 16
"""Fewest characters of the operator's token."""


def _digest(value: str | None) -> str | None:
    if value is not None and not is_digest(value):
        raise ValueError("must be 64 hexadecimal digits")
    return value


def _device(value: str) -> str:
    if re.fullmatch(r"auto|cpu|cuda(:\d+)?", value) is None:
        raise ValueError("must be auto, cpu, cuda or cuda:N")
    return value


def _pivot(value: str) -> str:
    from model.languages import is_language  # only if it is set: the data of codes takes time to load

    if value != OFF and not is_language(value):
        raise ValueError(f"must be the code of a language, such as en, or {OFF}")
    return value


def _isa(value: str) -> str:
    if value not in (AUTO, *SET_NAMES):
        raise ValueError(f"must be one of {', '.join((AUTO, *SET_NAMES))}")
    return value


def _root_path(value: str) -> str:
    if value and (not value.startswith("/") or value.endswith("/")):
        raise ValueError("must start with / and not end with /")
    return value


def _http_url(value: str | None) -> str | None:
    if value is not None:
        parts = urlsplit(value)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise ValueError("must be a URL that starts with http:// or https://")
    return value


def _networks(value: str) -> str:
    if value != NO_PROXIES:
        for network in value.split(","):
            try:
                ipaddress.ip_network(network.strip())
            except ValueError:
                raise ValueError(f"must be addresses and networks such as 10.0.0.0/8, or {NO_PROXIES}") from None
    return value


def _hosts(value: str | None) -> str | None:
    if value is not None:
        for host in value.split(","):
            if (
                re.fullmatch(r"\*|(\*\.)?[A-Za-z0-9_.-]+|\[?[0-9A-Fa-f]*:[0-9A-Fa-f.]*:[0-9A-Fa-f:.]*\]?", host.strip())
                is None
            ):
                raise ValueError("must be names and addresses without ports, such as verso.example.com, or *")
    return value


def _origins(value: str | None) -> str | None:
    if value is not None:
        for origin in value.split(","):
            if re.fullmatch(r"\*|[A-Za-z][A-Za-z0-9+.-]*://[^/?#@,\s]+", origin.strip()) is None:
                raise ValueError("must be origins such as https://app.example.com, without a path, or *")
    return value


def _listed(value: str | None) -> tuple[str, ...]:
    return () if value is None else tuple(part.strip().lower() for part in value.split(","))


def _none_for_auto(value: object) -> object:
    return None if value == AUTO else value


def _token(value: SecretStr | None) -> SecretStr | None:
    if value is not None:
        token = value.get_secret_value()
        if len(token) < MIN_TOKEN_CHARACTERS:
            raise ValueError(f"must have at least {MIN_TOKEN_CHARACTERS} characters")
        if not all("!" <= character <= "~" for character in token):
            raise ValueError("must consist of visible ASCII characters, as it is sent in a header")
    return value


class Settings(BaseSettings):
    """The settings, which :func:`load_settings` reads from ``VERSO_*`` once, and ``create_app`` receives.

    The constructor uses its arguments and the defaults, and ignores the environment.
    """

    model_config = SettingsConfigDict(
        env_prefix=ENV_PREFIX,
        env_ignore_empty=True,
        frozen=True,
        use_attribute_docstrings=True,
        extra="forbid",
        protected_namespaces=(),
        hide_input_in_errors=True,  # it may be a secret
    )

    host: str = Field(default="127.0.0.1", min_length=1)
    """Address to listen on; 0.0.0.0 is every IPv4 address of the machine."""

    port: int = Field(default=8000, ge=0, le=65535)
    """Port to listen on; 0 takes any free one."""

    root_path: Annotated[str, AfterValidator(_root_path)] = ""
    """Path under which a proxy publishes the service, such as /verso."""

    model: str = Field(default=AUTO, min_length=1)
    """A bundle to serve; auto: the shipped translator, built on first use; or a model of a hub: firefox:en-de or
    hf:OWNER/NAME."""

    models: str | None = None
    """Several bundles: a folder (every .pt and .verso file), or files, auto, firefox:en-de, firefox:all and
    hf:OWNER/NAME, separated by commas."""

    firefox_registry: Annotated[str | None, AfterValidator(_http_url)] = None
    """A mirror of the registry of Firefox's models, as the address of its folder; Mozilla's registry unless set."""

    model_memory: int | None = Field(default=None, ge=1_000_000, le=1_000_000_000_000_000)
    """Memory for models, in bytes: they are loaded on their first use, and evicted for others; unless set, all are
    loaded at the start, and stay."""

    pivot: Annotated[str, AfterValidator(_pivot)] = "en"
    """Language through which pairs without a model are translated, by two models; off: such pairs are refused."""

    auto_bundle: Path | None = None
    """An existing bundle to use for auto, as in the container; built on first use unless set."""

    model_sha256: Annotated[str | None, AfterValidator(_digest)] = None
    """SHA-256 of the bundle; another file is refused before any of it runs."""

    device: Annotated[str, AfterValidator(_device)] = AUTO
    """Where the model runs: auto (a GPU that torch can use, or the CPU), cpu, cuda or cuda:N."""

    threads: int | None = Field(default=None, ge=1, le=1024)
    """CPU threads of the model; by default all that this process may use, which is also the most."""

    native: Literal["auto", "off"] = "auto"
    """The compiled decoder: auto (where CPU, compiler and model allow it) or off (torch decodes)."""

    graphs: Literal["auto", "off"] = "auto"
    """CUDA graphs on a GPU: auto (if they pass the check at the start) or off (slower)."""

    isa: Annotated[str, AfterValidator(_isa)] = AUTO
    """The compiled decoder's instructions: auto (the fastest that this CPU has), or the name of a set to force."""

    shortlist: Literal["on", "off"] = "off"
    """Restrict output to a shortlist of likely tokens for each sentence; faster on CPUs."""

    cache_dir: Path | None = None
    """Folder for bundles built or pulled at start; ~/.cache/verso unless set."""

    compat: Literal["libretranslate"] | None = None
    """Further protocol of the paths at the root: libretranslate; none unless set."""

    mcp: Literal["on", "off"] = "off"
    """Whether AI assistants can use the service as tools, at /mcp (Model Context Protocol; needs the extra mcp)."""

    max_body_bytes: int = Field(default=2_000_000, ge=1_000, le=1_000_000_000)
    """Largest request body, in bytes (413)."""

    max_received_bytes: int = Field(default=200_000_000, ge=1_000, le=1_000_000_000_000)
    """Most bytes of the bodies of all running requests together (503); a single body of any allowed size fits."""

    max_texts: int = Field(default=128, ge=1, le=100_000)
    """Most texts in one request (422)."""

    max_text_characters: int = Field(default=50_000, ge=1, le=10_000_000)
    """Most characters in one text (422)."""

    max_beam_size: int = Field(default=16, ge=1, le=64)
    """Widest beam of a request (422)."""

    max_hypotheses: int = Field(default=16, ge=1, le=64)
    """Most hypotheses of a request (422)."""

    max_attention_cells: int = Field(default=200_000, ge=1_000, le=100_000_000)
    """Most attention weights and numbers of steps in one JSON answer (422); npz and PNG have no such limit."""

    queue_sentences: int = Field(default=4_096, ge=1, le=10_000_000)
    """Most queued sentences (429); a request with more is never accepted (422)."""

    deadline_s: float = Field(default=30.0, gt=0, le=86_400)
    """Seconds that a request may take before it is stopped (504)."""

    step_timeout_s: float | None = Field(default=None, ge=1, le=86_400)
    """Seconds that a decoding step may take before it counts as hung; the deadline, or 30 if more, unless set."""

    max_batch_tokens: Annotated[int | None, BeforeValidator(_none_for_auto)] = Field(
        default=None, ge=64, le=100_000_000
    )
    """Padded tokens that decode together, source and target each; auto, the default, measures it at the start."""

    max_batch_rows: Annotated[int | None, BeforeValidator(_none_for_auto)] = Field(default=None, ge=1, le=1_000_000)
    """Rows that decode together, sentences times beam size; auto, the default, measures it at the start."""

    cache_bytes: int = Field(default=32_000_000, ge=0, le=1_000_000_000_000)
    """Memory for translated sentences, in bytes, so that equal ones are answered at once; 0 caches none."""

    coalesce: Literal["on", "off"] = "on"
    """Whether equal sentences of concurrent requests are translated once."""

    data_dir: Path | None = None
    """Folder for documents, glossaries and translation memories; unless set, a private one, deleted at exit."""

    max_document_bytes: int = Field(default=10_000_000, ge=1_000, le=1_000_000_000)
    """Largest document, in bytes (413)."""

    max_documents: int = Field(default=100, ge=0, le=1_000_000)
    """Most documents stored at a time, a day each (429)."""

    max_documents_per_key: int | None = Field(default=None, ge=1, le=1_000_000)
    """Most documents of one key stored at a time (429); a fifth of VERSO_MAX_DOCUMENTS unless set."""

    max_glossaries_per_key: int = Field(default=200, ge=1, le=1_000)
    """Most stored glossaries of one key (409); the limit of all keys together is 1,000."""

    max_glossary_characters_per_key: int = Field(default=10_000_000, ge=1_000, le=50_000_000)
    """Most characters of the terms of one key's glossaries (409); the limit of all keys together is 50,000,000."""

    max_memories_per_key: int = Field(default=100, ge=1, le=10_000)
    """Most translation memories of one key (409)."""

    max_memory_units_per_key: int = Field(default=1_000_000, ge=1, le=100_000_000)
    """Most units in all translation memories of one key (409)."""

    max_memory_bytes_per_key: int = Field(default=500_000_000, ge=1_000, le=100_000_000_000)
    """Most bytes of the texts in all translation memories of one key (409)."""

    max_memory_file_bytes: int = Field(default=1_000_000_000, ge=1_000, le=100_000_000_000)
    """Largest TMX file, in bytes (413)."""

    max_memory_import_s: int = Field(default=1_800, ge=1, le=86_400)
    """Seconds that the import of a TMX file may take (422)."""

    suggestions: Literal["on", "off"] = "off"
    """Whether corrections are stored and used again: translations sent to LibreTranslate's /suggest, or confirmed on
    the page or in documents; with keys for the same key, without keys for every caller."""

    drain_timeout_s: float = Field(default=30.0, ge=0, le=86_400)
    """Seconds that running requests get to finish after SIGTERM."""

    keep_alive_s: int = Field(default=30, ge=1, le=86_400)
    """Seconds that an idle connection stays open."""

    client_timeout_s: float = Field(default=30.0, ge=1, le=86_400)
    """Seconds in which a client may send nothing of its request, or fewer than 10,000 bytes a second (408), or receive
    nothing of its answer."""

    admin_token: Annotated[SecretStr | None, AfterValidator(_token)] = None
    """Secret of 16 characters or more that lets its bearer load and unload bundles, whether keys are on or not."""

    keys_db: Path | None = None
    """File of keys and their usage, which verso keys create makes before the start; unless set, no key is needed."""

    anonymous: Literal["off", "on"] = "off"
    """Whether callers without a key are served when keys are on, except for administration."""

    address_requests_per_minute: int | None = Field(default=None, ge=1, le=1_000_000)
    """Most requests a minute from one address, of callers without a key (429); not limited unless set."""

    allowed_hosts: Annotated[str | None, AfterValidator(_hosts)] = None
    """Names in the header Host that are answered (403): such as verso.example.com,*.internal, or * for any; unless set,
    those of this machine (localhost, 127.0.0.1, ::1) if VERSO_HOST is one of them, and else any."""

    cors_origins: Annotated[str | None, AfterValidator(_origins)] = None
    """Sites whose pages may use the service from a browser, such as https://app.example.com, or * for all; unless set,
    only its own pages may (403)."""

    trusted_proxies: Annotated[str, AfterValidator(_networks)] = "127.0.0.1"
    """Proxies whose X-Forwarded-For and X-Forwarded-Proto are trusted: addresses and networks, or none."""

    otlp_endpoint: Annotated[str | None, AfterValidator(_http_url)] = None
    """Receiver of traces, as a base URL of OTLP over HTTP, such as http://localhost:4318; no traces unless set."""

    log_level: Literal["debug", "info", "warning", "error"] = "info"
    """Lowest level of the log lines that are written."""

    @model_validator(mode="after")
    def _check_relations(self) -> Self:
        if self.models is not None and self.model != AUTO:
            raise ValueError(
                f"{ENV_PREFIX}MODEL is {self.model!r} and {ENV_PREFIX}MODELS is {self.models!r}: set one of them"
            )
        if self.models is not None and self.model_sha256 is not None:
            raise ValueError(
                f"{ENV_PREFIX}MODEL_SHA256 is the digest of one bundle and {ENV_PREFIX}MODELS names several: "
                f"unset it, or serve one bundle with {ENV_PREFIX}MODEL"
            )
        if self.max_hypotheses > self.max_beam_size:
            raise ValueError(
                f"{ENV_PREFIX}MAX_HYPOTHESES is {self.max_hypotheses}, more than {ENV_PREFIX}MAX_BEAM_SIZE, which is "
                f"{self.max_beam_size}: hypotheses come from the beam"
            )
        if self.max_batch_rows is not None and self.max_beam_size > self.max_batch_rows:
            raise ValueError(
                f"{ENV_PREFIX}MAX_BEAM_SIZE is {self.max_beam_size}, more than {ENV_PREFIX}MAX_BATCH_ROWS, which is "
                f"{self.max_batch_rows}: the widest beam would fit no batch"
            )
        return self

    @property
    def pivot_language(self) -> str | None:
        """The language through which pairs without a model are translated, or None."""
        return None if self.pivot == OFF else self.pivot

    @property
    def documents_per_key(self) -> int:
        """Most documents of one key stored at a time."""
        return self.max_documents_per_key or max(1, self.max_documents // 5)

    @property
    def hosts(self) -> tuple[str, ...]:
        """Names in the header ``Host`` that are answered, for :class:`app.http.origins.OriginGuard`."""
        return _listed(self.allowed_hosts)

    @property
    def origins(self) -> tuple[str, ...]:
        """Origins of other sites whose pages may use the service."""
        return _listed(self.cors_origins)

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,
        file_secret_settings: PydanticBaseSettingsSource,
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        """Use only the constructor's arguments: :func:`load_settings` reads the environment."""
        return (init_settings,)


class _Variables(EnvSettingsSource):
    """Reads given variables instead of those of the process.

    Args:
        environ: The variables; their names are case-sensitive.
    """

    def __init__(self, environ: Mapping[str, str]) -> None:
        super().__init__(Settings)
        # pydantic-settings compares names in lower case.
        self.env_vars = {name.lower(): value for name, value in environ.items() if _is_ours(name, value)}


SECRETS = frozenset({"admin_token"})
"""Settings whose value is never shown."""


def shown(name: str, value: Any) -> Any:
    """The value of a setting for messages: a URL without its user name and password.

    Args:
        name: The setting.
        value: Its value.
    """
    if name not in ("otlp_endpoint", "firefox_registry") or not isinstance(value, str):
        return value
    return re.sub(r"(?s)^(\w+://)?.*@", r"\1***@", value)


def load_settings(environ: Mapping[str, str]) -> Settings:
    """Read the settings from an environment.

    Args:
        environ: Variables; those without the prefix are ignored, empty ones count as not set.

    Returns:
        The settings.

    Raises:
        SettingsError: A variable is unknown or its value out of bounds; one line names it, its value and the bound.
    """
    for variable, value in environ.items():
        if _is_ours(variable, value) and variable.removeprefix(ENV_PREFIX).lower() not in Settings.model_fields:
            raise SettingsError(_unknown(variable))
    try:
        return Settings(**_Variables(environ)())
    except ValidationError as error:
        raise SettingsError("; ".join(_sentence(problem) for problem in error.errors())) from error


def _is_ours(variable: str, value: str) -> bool:
    """Whether a variable is a setting that has a value."""
    return variable.startswith(ENV_PREFIX) and value != ""


def _unknown(variable: str) -> str:
    """The error of an unknown setting, with the most similar name."""
    near = difflib.get_close_matches(variable.removeprefix(ENV_PREFIX).lower(), Settings.model_fields, n=1)
    hint = f" Did you mean {ENV_PREFIX}{near[0].upper()}?" if near else " See verso serve --help."
    return f"There is no setting {variable}.{hint}"


def _sentence(problem: Any) -> str:
    """An error of pydantic with the variable, its value unless it is a secret, and the bound."""
    message = str(problem["msg"]).removeprefix("Value error, ").removeprefix("Assertion failed, ")
    if not problem["loc"]:
        return message
    name = str(problem["loc"][0])
    if problem["type"] != "value_error":  # a bound of the field's type, and not a sentence of ours
        field = Settings.model_fields[name]
        bounds = Annotated[(field.annotation, *field.metadata)] if field.metadata else field.annotation
        example = "" if field.default in (None, "") else f", such as {field.default}"
        message = f"must be {requirement(bounds)}{example}"
    value = "" if name in SECRETS else f" is {shown(name, problem['input'])!r}; it"
    return f"{ENV_PREFIX}{name.upper()}{value} {message}"
