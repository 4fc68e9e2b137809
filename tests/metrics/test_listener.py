"""The listener answers what it was told to, over real sockets, and admits only whom it should."""

import socket
from collections.abc import Iterator
from http import HTTPStatus
from http.client import HTTPConnection, HTTPResponse

import pytest

from reconciler.errors import UsageError
from reconciler.metrics.address import Address
from reconciler.metrics.exposition import Exposition
from reconciler.metrics.listener import Answer, Listener

LOOPBACK = Address("127.0.0.1", 0)


def broken() -> Answer:
    raise RuntimeError("postgresql://user:secret@host is away")


ROUTES = {"/metrics": lambda: Answer(b"up 1\n", "text/plain"), "/broken": broken}


@pytest.fixture
def listener() -> Iterator[Listener]:
    listener = Listener(LOOPBACK, ROUTES, token=None, flag="--metrics")
    listener.start()
    yield listener
    listener.close()


def ask(listener: Listener, path: str, method: str = "GET", **headers: str) -> tuple[HTTPResponse, bytes]:
    connection = HTTPConnection(listener.address.host, listener.address.port, timeout=10)
    connection.request(method, path, headers=headers)
    answer = connection.getresponse()
    body = answer.read()
    connection.close()
    return answer, body


def test_a_known_path_is_answered_whatever_its_query(listener: Listener) -> None:
    answer, body = ask(listener, "/metrics?x=1")

    assert (answer.status, body) == (HTTPStatus.OK, b"up 1\n")


def test_head_gives_the_headers_alone(listener: Listener) -> None:
    answer, body = ask(listener, "/metrics", "HEAD")

    assert (answer.status, answer.headers["Content-Length"], body) == (HTTPStatus.OK, "5", b"")


def test_an_unknown_path_names_those_that_are_known(listener: Listener) -> None:
    answer, body = ask(listener, "/")

    assert answer.status == HTTPStatus.NOT_FOUND
    assert b"/metrics" in body


def test_other_methods_are_refused(listener: Listener) -> None:
    answer, _ = ask(listener, "/metrics", "POST")

    assert answer.status == HTTPStatus.NOT_IMPLEMENTED


def test_a_fault_behind_a_path_is_no_end_and_tells_no_secret(listener: Listener) -> None:
    answer, body = ask(listener, "/broken")

    assert (answer.status, body) == (HTTPStatus.INTERNAL_SERVER_ERROR, b"RuntimeError\n")
    assert ask(listener, "/metrics")[0].status == HTTPStatus.OK


def test_with_a_token_only_who_knows_it_is_answered() -> None:
    listener = Listener(LOOPBACK, ROUTES, token="open sesame", flag="--metrics")
    listener.start()
    try:
        without, _ = ask(listener, "/metrics")
        wrong, _ = ask(listener, "/metrics", Authorization="Bearer open")
        right, body = ask(listener, "/metrics", Authorization="Bearer open sesame")
    finally:
        listener.close()

    assert (without.status, without.headers["WWW-Authenticate"]) == (HTTPStatus.UNAUTHORIZED, "Bearer")
    assert wrong.status == HTTPStatus.UNAUTHORIZED
    assert (right.status, body) == (HTTPStatus.OK, b"up 1\n")


def test_clients_that_hang_or_talk_nonsense_hold_up_nobody(listener: Listener) -> None:
    where = (listener.address.host, listener.address.port)
    with socket.create_connection(where) as silent, socket.create_connection(where) as rude:
        rude.sendall(b"\x16\x03\x01\x00\xff" * 100 + b"\r\n\r\n")

        assert ask(listener, "/metrics")[0].status == HTTPStatus.OK
        silent.close()


def test_a_taken_port_is_refused_naming_the_flag(listener: Listener) -> None:
    with pytest.raises(UsageError, match=r"Choose another with --metrics HOST:PORT"):
        Listener(listener.address, ROUTES, token=None, flag="--metrics")


def test_an_address_that_others_reach_wants_a_token() -> None:
    everywhere = Address("0.0.0.0", 0)  # noqa: S104 - that is the point
    exposition = Exposition()

    with pytest.raises(UsageError, match=r"set metrics\.tokenFile"):
        exposition.listen(everywhere, None)
    exposition.listen(everywhere, "a-long-and-random-text")
    exposition.close()


@pytest.mark.parametrize(
    ("text", "host", "port"),
    [
        ("127.0.0.1:5018", "127.0.0.1", 5018),
        (":0", "127.0.0.1", 0),
        ("5018", "127.0.0.1", 5018),
        ("[::1]:80", "::1", 80),
        ("metrics.northstar.example:9000", "metrics.northstar.example", 9000),
    ],
)
def test_addresses_are_read(text: str, host: str, port: int) -> None:
    assert Address.parse(text) == Address(host, port)


@pytest.mark.parametrize("text", ["", "localhost", "127.0.0.1:", "1:65536", ":-1", ":٣", "127.0.0.1:5018x"])
def test_what_is_no_address_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="is no address"):
        Address.parse(text)


@pytest.mark.parametrize(
    ("host", "loopback"), [("127.0.0.9", True), ("::1", True), ("localhost", True), ("10.0.0.1", False), ("", False)]
)
def test_loopback_is_known(host: str, loopback: bool) -> None:
    assert Address(host, 1).is_loopback is loopback
