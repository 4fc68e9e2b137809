"""Events: code says what happened as a value, subscribers choose text, level, counter and span.

An event is a frozen dataclass derived from `Event`. Emitting never fails and never blocks on a broken subscriber: the
work that an event tells of must not depend on who listens. Subscribers run in the emitting thread, so they are quick.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar


@dataclass(frozen=True, slots=True)
class Event:
    """Something that happened. `level` is a proposal (a number of the logging module); subscribers may choose another.

    Fields hold facts, not sentences; a field named `error` holds the text of what went wrong.
    """

    level: ClassVar[int] = logging.INFO


Subscriber = Callable[[Event], None]
"""Takes every event that is emitted in this process."""

_subscribers: tuple[Subscriber, ...] = ()
_changing = threading.Lock()


def emit(event: Event) -> None:
    """Tell every subscriber of `event`."""
    for subscriber in _subscribers:
        try:
            subscriber(event)
        except Exception:  # noqa: BLE001, S112 - a listener's fault is no reason to stop the work it listens to
            continue


def subscribe(subscriber: Subscriber) -> Callable[[], None]:
    """Have `subscriber` called with every event from now on; the function given back ends that."""
    global _subscribers  # noqa: PLW0603 - the one registry of the process
    with _changing:
        _subscribers = (*_subscribers, subscriber)

    def unsubscribe() -> None:
        global _subscribers  # noqa: PLW0603 - same
        with _changing:
            # Compared by equality: a bound method is a new object at every access.
            _subscribers = tuple(other for other in _subscribers if other != subscriber)

    return unsubscribe
