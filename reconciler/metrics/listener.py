"""A small HTTP listener for machines that watch: it answers GET on a few fixed paths, and nothing else."""

from __future__ import annotations

import hmac
import socket
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import ClassVar, Final

from reconciler.errors import UsageError
from reconciler.metrics.address import Address

_PATIENCE_SECONDS: Final = 10.0
"""A client that says nothing for so long is left."""


@dataclass(frozen=True, slots=True)
class Answer:
    """What a path answers."""

    body: bytes
    kind: str = "application/json"
    status: HTTPStatus = HTTPStatus.OK


Route = Callable[[], Answer]


class Listener:
    """Answers on its own threads until closed."""

    def __init__(self, address: Address, routes: Mapping[str, Route], *, token: str | None, flag: str) -> None:
        """Take the port; nothing is answered before `start`. Raises UsageError, naming `flag`, when it is taken."""
        try:
            self._server = _Server(address, routes, token)
        except OSError as fault:
            raise UsageError(
                f"cannot listen on {address}: {fault.strerror or fault}. Choose another with {flag} HOST:PORT "
                f"(port 0: any that is free)"
            ) from fault
        self._first = next(iter(routes))
        host, port = self._server.server_address[:2]
        self.address = Address(str(host), int(port))
        self._thread = threading.Thread(target=self._server.serve_forever, name=f"listen {flag}", daemon=True)

    def start(self) -> None:
        """Begin to answer."""
        self._thread.start()

    @property
    def shown(self) -> str:
        """The address of its first path, for people."""
        return f"http://{self.address}{self._first}"

    def close(self) -> None:
        """Give the port back."""
        if self._thread.is_alive():
            self._server.shutdown()
            self._thread.join()
        self._server.server_close()


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False

    def __init__(self, address: Address, routes: Mapping[str, Route], token: str | None) -> None:
        self.routes = routes
        self.expected = None if token is None else f"Bearer {token}".encode()
        self.address_family = socket.AF_INET6 if ":" in address.host else socket.AF_INET
        super().__init__((address.host, address.port), _Handler)

    def handle_error(self, request: object, client_address: object) -> None:
        """Say nothing of clients that hang up."""


class _Handler(BaseHTTPRequestHandler):
    server: _Server  # narrower than the library says
    timeout: ClassVar[float] = _PATIENCE_SECONDS
    server_version = "reconciler"
    sys_version = ""

    def do_GET(self) -> None:
        """Answer a path that is known."""
        route = self.server.routes.get(self.path.partition("?")[0])
        if route is None:
            self._send(_plain(HTTPStatus.NOT_FOUND, f"known here: {', '.join(sorted(self.server.routes))}\n"))
        elif not self._is_admitted():
            self._send(_plain(HTTPStatus.UNAUTHORIZED, "send the scrape token: Authorization: Bearer …\n"))
        else:
            self._send(self._answer(route))

    def do_HEAD(self) -> None:
        """Answer the same without the body."""
        self.do_GET()

    def log_message(self, *_: object) -> None:
        """Keep no access log."""

    def _is_admitted(self) -> bool:
        given = self.headers.get("Authorization", "").encode()
        return self.server.expected is None or hmac.compare_digest(given, self.server.expected)

    def _answer(self, route: Route) -> Answer:
        try:
            return route()
        except Exception as fault:  # noqa: BLE001 - one broken answer ends no listener; its text may hold secrets
            return _plain(HTTPStatus.INTERNAL_SERVER_ERROR, f"{type(fault).__name__}\n")

    def _send(self, answer: Answer) -> None:
        self.send_response(answer.status)
        if answer.status is HTTPStatus.UNAUTHORIZED:
            self.send_header("WWW-Authenticate", "Bearer")
        self.send_header("Content-Type", answer.kind)
        self.send_header("Content-Length", str(len(answer.body)))
        self.send_header("Cache-Control", "no-store")
        self.send_header("X-Content-Type-Options", "nosniff")
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(answer.body)


def _plain(status: HTTPStatus, text: str) -> Answer:
    return Answer(text.encode(), "text/plain; charset=utf-8", status)
