import os
import socket
from collections.abc import Iterator

import pytest

from reconciler.model.lease import Session
from reconciler.worker.wire import Adopt, Alive, Channel, Exited, Message, Setup, Spawn, Stop, Waker

SPAWN = Spawn("1.1", 5, "/bin/sh", ["sh", "-c", "true"], {"PATH": "/bin"}, "/tmp/x", 1.5, 0.5)  # noqa: S108


@pytest.fixture
def ends() -> Iterator[tuple[Channel, Channel]]:
    near, far = (Channel(end) for end in socket.socketpair())
    yield near, far
    near.close()
    far.close()


@pytest.mark.parametrize(
    "message",
    [
        Setup("postgresql://db/x", 30.0, 5.0, 3.0, "/scratch"),
        Adopt(Session(1, 2**61, "n1", "secret"), 12.25),
        Alive(),
        SPAWN,
        Stop("1.1", "drained", 0.0),
        Exited("1.1", None, 9, True, "why", ["SIGTERM", "SIGKILL"], 2, 0),
    ],
)
def test_a_message_arrives_as_it_was_sent(ends: tuple[Channel, Channel], message: Message) -> None:
    ends[0].send(message)

    assert [received.message for received in ends[1].receive()] == [message]


def test_secrets_are_not_part_of_what_a_message_prints() -> None:
    assert "hunter2" not in repr(Setup("postgresql://me:hunter2@db/x", 30.0, 5.0, 3.0, "/scratch"))
    assert "hunter2" not in repr(Adopt(Session(1, 2, "n1", "hunter2"), 0.0))


def test_descriptors_arrive_with_the_message_they_belong_to_and_close_on_exec(ends: tuple[Channel, Channel]) -> None:
    pipes = [os.pipe() for _ in range(3)]
    ends[0].send(SPAWN, [pipes[0][1]])
    ends[0].send(Alive())
    ends[0].send(SPAWN, [pipes[1][1], pipes[2][1]])

    received = ends[1].receive()
    assert [len(each.descriptors) for each in received] == [1, 0, 2]
    arrived = [descriptor for each in received for descriptor in each.descriptors]
    assert not any(os.get_inheritable(descriptor) for descriptor in arrived)
    for number, descriptor in enumerate(arrived):
        os.write(descriptor, str(number).encode())
        os.close(descriptor)
    assert [os.read(reading, 10) for reading, _ in pipes] == [b"0", b"1", b"2"]
    for reading, _ in pipes:
        assert os.read(reading, 10) == b""  # the sender kept no copy
        os.close(reading)


def test_sending_to_one_that_does_not_read_never_blocks_and_loses_nothing(ends: tuple[Channel, Channel]) -> None:
    messages = [Stop(f"{number}.1", "x" * 10_000, 0.0) for number in range(200)]
    for message in messages:
        ends[0].send(message)
    assert ends[0].unsent > 0

    arrived: list[Message] = []
    while len(arrived) < len(messages):
        arrived += [received.message for received in ends[1].receive()]
        ends[0].flush()
    assert arrived == messages


def test_what_was_said_before_hanging_up_is_still_heard(ends: tuple[Channel, Channel]) -> None:
    ends[0].send(Alive())
    ends[0].close()

    assert [received.message for received in ends[1].receive()] == [Alive()]
    assert not ends[1].is_open


def test_talking_to_one_that_hung_up_is_no_error_and_closes_what_was_given_away(ends: tuple[Channel, Channel]) -> None:
    reading, writing = os.pipe()
    ends[1].close()
    ends[0].send(SPAWN, [writing])

    assert os.read(reading, 1) == b""
    os.close(reading)


def test_waking_often_is_one_wake() -> None:
    waker = Waker()
    for _ in range(100_000):
        waker.wake()
    waker.clear()

    with pytest.raises(BlockingIOError):
        os.read(waker.fileno(), 1)
    waker.close()
    waker.wake()
