"""A receiver of traces on this machine, which decodes what it gets."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.trace.v1.trace_pb2 import Span

PATIENCE_S = 30.0


def attributes_of(span: Span) -> dict[str, str | int]:
    return {attribute.key: attribute.value.string_value or attribute.value.int_value for attribute in span.attributes}


class Receiver:
    """Keeps the requests it got.

    Args:
        status: What it answers; None: nothing, until it is closed.
    """

    def __init__(self, status: int | None = 200) -> None:
        self.bodies: list[bytes] = []
        self.paths: list[str] = []
        self.got = threading.Event()
        self.closing = threading.Event()
        receiver = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                receiver.paths.append(self.path)
                receiver.bodies.append(body)
                receiver.got.set()
                if status is None:
                    receiver.closing.wait(PATIENCE_S)
                    return
                self.send_response(status)
                self.send_header("Content-Length", "0")
                self.end_headers()

            def log_message(self, format: str, *args: Any) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.02})
        self._thread.start()

    @property
    def endpoint(self) -> str:
        return f"http://127.0.0.1:{self._server.server_address[1]}"

    @property
    def resource(self) -> dict[str, str]:
        first = ExportTraceServiceRequest.FromString(self.bodies[0]).resource_spans[0].resource
        return {attribute.key: attribute.value.string_value for attribute in first.attributes}

    @property
    def spans(self) -> list[Span]:
        return [
            span
            for body in self.bodies
            for of_resource in ExportTraceServiceRequest.FromString(body).resource_spans
            for of_scope in of_resource.scope_spans
            for span in of_scope.spans
        ]

    def named(self, name: str) -> list[Span]:
        return [span for span in self.spans if span.name == name]

    def close(self) -> None:
        self.closing.set()
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


@contextmanager
def receiving(status: int | None = 200) -> Iterator[Receiver]:
    receiver = Receiver(status)
    try:
        yield receiver
    finally:
        receiver.close()
