"""A TCP proxy between the product and PostgreSQL that can do what networks do.

It can cut a connection after its COMMIT has been done and before the answer arrives (the exact lost acknowledgement),
swallow everything (a black hole, whose end still takes what is sent), delay, and reset.
"""

import contextlib
import socket
import struct
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from sqlalchemy import make_url

from reconciler.store.database import Tx

COMMIT = b"Q\x00\x00\x00\x0bCOMMIT\x00"
"""A simple query, as the driver sends it: always alone, since its answer is waited for."""
RESET = struct.pack("ii", 1, 0)


@dataclass
class Link:
    """One connection: the product's end and the server's."""

    client: socket.socket
    server: socket.socket
    port: int
    loses_answer: bool = False
    is_committing: bool = False

    def close(self, *, hard: bool = False) -> None:
        for end in (self.client, self.server):
            with contextlib.suppress(OSError):
                if hard:
                    end.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET)
                end.shutdown(socket.SHUT_RD if hard else socket.SHUT_RDWR)  # wakes the thread that waits on it
                end.close()


@dataclass
class Proxy:
    """Listens on a port of its own; `url` is the store's URL by way of it."""

    target: str
    lost: int = 0
    """How many answers to a COMMIT were lost so far."""
    delay_seconds: float = 0.0
    _links: list[Link] = field(default_factory=list)
    _swallows: threading.Event = field(default_factory=threading.Event)
    _closed: threading.Event = field(default_factory=threading.Event)

    def __post_init__(self) -> None:
        self._listener = socket.create_server(("127.0.0.1", 0))
        threading.Thread(target=self._accept, daemon=True).start()

    @property
    def url(self) -> str:
        port = self._listener.getsockname()[1]
        return make_url(self.target).set(port=port).render_as_string(hide_password=False)

    def lose_answer(self, tx: Tx) -> None:
        """Cut the connection of this transaction when it has been committed, before the answer to that arrives."""
        end = socket.socket(fileno=tx.connection.connection.driver_connection.fileno())  # type: ignore[union-attr]
        port = end.getsockname()[1]
        end.detach()
        next(link for link in self._links if link.port == port).loses_answer = True

    def swallow(self) -> None:
        """From now on nothing arrives, in either direction; connections stay open, and new ones are taken."""
        self._swallows.set()

    def restore(self) -> None:
        """End the black hole. What it swallowed is gone, so its connections are reset, as a router's reboot does."""
        self._swallows.clear()
        self.reset()

    def reset(self) -> None:
        """Reset every connection."""
        links, self._links[:] = list(self._links), []
        for link in links:
            link.close(hard=True)

    def close(self) -> None:
        self._closed.set()
        self._listener.shutdown(socket.SHUT_RDWR)  # wakes the thread that accepts
        self._listener.close()
        for link in self._links:
            link.close()

    def _accept(self) -> None:
        url = make_url(self.target)
        while True:
            try:
                client, (_, port) = self._listener.accept()
            except OSError:  # closed
                return
            try:
                server = socket.create_connection((url.host or "127.0.0.1", url.port or 5432))
            except OSError:  # the server is away
                client.close()
                continue
            link = Link(client, server, port)
            self._links.append(link)
            for pump in (self._to_server, self._to_client):
                threading.Thread(target=self._run, args=(pump, link), daemon=True).start()

    def _run(self, pump: Any, link: Link) -> None:
        with contextlib.suppress(OSError):
            pump(link)
        if not self._swallows.is_set():
            link.close()

    def _to_server(self, link: Link) -> None:
        while chunk := link.client.recv(65_536):
            self._closed.wait(self.delay_seconds)
            if self._swallows.is_set():
                continue
            link.is_committing = link.loses_answer and chunk.endswith(COMMIT)
            link.server.sendall(chunk)

    def _to_client(self, link: Link) -> None:
        while chunk := link.server.recv(65_536):
            if link.is_committing:
                self.lost += 1  # the server has committed, and says so in this chunk
                return
            if not self._swallows.is_set():
                link.client.sendall(chunk)


@contextmanager
def proxied(url: str) -> Iterator[Proxy]:
    proxy = Proxy(url)
    try:
        yield proxy
    finally:
        proxy.close()
