"""Traces of requests in OpenTelemetry's protocol. Off unless an endpoint is configured, and then nothing is imported.

A request that is traced has a :class:`RequestTrace` in the context of its task. Code that does a stage of the work adds
it afterwards, from the clock times at which it began and ended: nothing is measured for a trace alone, and the engine's
thread knows nothing of traces. Spans contain numbers, names of models and routes, and codes of errors, but no text.

Spans are sent by a thread of the SDK, which drops them if the endpoint does not keep up or does not answer.
"""

from __future__ import annotations

import threading
import time
import uuid
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from contextvars import ContextVar
from typing import TYPE_CHECKING

from app.errors import SettingsError

if TYPE_CHECKING:
    from opentelemetry.context import Context
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import SpanExporter
    from opentelemetry.trace import Span, Tracer

Attributes = Mapping[str, str | int | float]
"""What is known about a span, besides its name and its times."""

_PARENT_HEADERS = ("traceparent", "tracestate")

_CLOSE_S = 3.0
"""Seconds that the last spans may take to be sent when the process ends."""

_NOTHING = nullcontext()

_current: ContextVar[RequestTrace | None] = ContextVar("request_trace", default=None)


def current_trace() -> RequestTrace | None:
    """The trace of the current request; None if it is not traced, or outside a request."""
    return _current.get()


def stage(name: str) -> AbstractContextManager[None]:
    """Add the enclosed work to the trace of the current request, if there is one.

    Args:
        name: The name of the span.
    """
    trace = _current.get()
    return _NOTHING if trace is None else _timed(trace, name)


@contextmanager
def _timed(trace: RequestTrace, name: str) -> Iterator[None]:
    began = trace.clock()
    try:
        yield
    finally:
        trace.add(name, began, trace.clock())


class RequestTrace:
    """The span of a request and those of its stages.

    Args:
        tracer: Makes the spans.
        parent: What the client sent.
        clock: A monotonic clock, in seconds: the one from which the stages have their times.
    """

    def __init__(self, tracer: Tracer, parent: Context, clock: Callable[[], float]) -> None:
        from opentelemetry.trace import SpanKind, set_span_in_context

        self.clock = clock
        self._tracer = tracer
        self._counts: Counter[str] = Counter()
        self._epoch_ns = time.time_ns() - _nanoseconds(clock())  # wall-clock time at zero of the clock
        self._span: Span = tracer.start_span("request", parent, SpanKind.SERVER, start_time=self._at(clock()))
        self._context = set_span_in_context(self._span)
        self._token = _current.set(self) if self._span.is_recording() else None

    @property
    def trace_id(self) -> str:
        """The id of the trace, as the logs have it."""
        return f"{self._span.get_span_context().trace_id:032x}"

    @property
    def traceparent(self) -> str:
        """The header that names the request's span (W3C Trace Context)."""
        context = self._span.get_span_context()
        return f"00-{context.trace_id:032x}-{context.span_id:016x}-{int(context.trace_flags):02x}"

    def add(self, name: str, began_s: float, ended_s: float, attributes: Attributes | None = None) -> None:
        """Add a stage of the work.

        Args:
            name: The name of its span.
            began_s: Clock time of its begin.
            ended_s: Clock time of its end.
            attributes: What is known about it.
        """
        span = self._tracer.start_span(
            name, self._context, attributes=dict(attributes or {}), start_time=self._at(began_s)
        )
        span.end(self._at(ended_s))

    def count(self, name: str, number: int) -> None:
        """Add to a number that the request's span will have.

        Args:
            name: The attribute.
            number: How many more.
        """
        self._counts[name] += number

    def finish(self, name: str, attributes: Attributes, *, failed: bool) -> None:
        """End the request's span.

        Args:
            name: Its final name: method and route.
            attributes: What is known about the request.
            failed: Whether the service failed.
        """
        from opentelemetry.trace import StatusCode

        self._span.update_name(name)
        self._span.set_attributes({**self._counts, **attributes})
        if failed:
            self._span.set_status(StatusCode.ERROR)
        self._span.end(self._at(self.clock()))
        self.leave()

    def leave(self) -> None:
        """The request has ended; unless :meth:`finish` was called before, its span is never sent."""
        if self._token is not None:
            _current.reset(self._token)
            self._token = None

    def _at(self, clock_s: float) -> int:
        """Wall-clock time in nanoseconds, as OpenTelemetry counts."""
        return self._epoch_ns + _nanoseconds(clock_s)


class Tracing:
    """Traces requests and sends the spans to an endpoint.

    Args:
        endpoint: Base URL of a receiver of OTLP over HTTP.
        version: The service's version.
        clock: A monotonic clock, in seconds.

    Raises:
        SettingsError: OpenTelemetry is not installed.
    """

    def __init__(self, endpoint: str, version: str, clock: Callable[[], float] = time.monotonic) -> None:
        try:
            from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
            from opentelemetry.sdk.resources import OTELResourceDetector, Resource
            from opentelemetry.sdk.trace import TracerProvider
            from opentelemetry.sdk.trace.export import BatchSpanProcessor
            from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator
        except ImportError as error:
            raise SettingsError(
                f"VERSO_OTLP_ENDPOINT is set, and a package that traces need is not installed ({error.name}): "
                "pip install 'verso-translate[telemetry]', or unset it"
            ) from error
        ours = {
            "service.name": "verso",
            "service.version": version,
            "service.instance.id": uuid.uuid4().hex,
        }
        # OTEL_SERVICE_NAME and OTEL_RESOURCE_ATTRIBUTES win.
        resource = Resource.create(ours).merge(OTELResourceDetector().detect())
        # Without shutdown_on_exit the end of the process does not wait; close() waits a little.
        self._provider: TracerProvider = TracerProvider(resource=resource, shutdown_on_exit=False)
        self._exporter: SpanExporter = OTLPSpanExporter(f"{endpoint.rstrip('/')}/v1/traces")
        self._provider.add_span_processor(BatchSpanProcessor(self._exporter))
        self._tracer = self._provider.get_tracer("verso", version)
        self._propagator = TraceContextTextMapPropagator()
        self._clock = clock

    def begin(self, headers: Mapping[str, str]) -> RequestTrace:
        """Begin the trace of a request, as part of its client's trace if it sent one.

        Args:
            headers: The request's headers, with names in lower case.
        """
        from opentelemetry.context import Context

        sent = {name: headers[name] for name in _PARENT_HEADERS if name in headers}
        return RequestTrace(self._tracer, self._propagator.extract(sent, Context()), self._clock)

    def close(self) -> None:
        """Send what has not been sent, for at most a few seconds: the endpoint may be gone."""
        sending = threading.Thread(target=self._provider.shutdown, name="verso-last-spans", daemon=True)
        sending.start()
        sending.join(_CLOSE_S)
        if sending.is_alive():
            self._exporter.shutdown()  # ends its attempts


def _nanoseconds(seconds: float) -> int:
    return round(seconds * 1e9)
