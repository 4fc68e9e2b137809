"""A server that says nothing: the client gives it up.

The server cancels statements that take too long, and the kernel notices a host that is gone. Neither helps where the
other end still takes what is sent and never answers: a stopped server, a proxy that lost it. Then the client hangs up.
"""

from __future__ import annotations

from collections.abc import Generator
from typing import Any, Final

from sqlalchemy import Engine, event

from reconciler.clock import Clock

_AFTER_THE_SERVER_SECONDS: Final = 2.0
"""The server has cancelled by then, and has said so, if it still lives."""


def connect_impatiently(engine: Engine, answer_seconds: float, clock: Clock) -> None:
    """Let the engine's connections break when nothing is heard for `answer_seconds` and a bit; 0 for never."""
    if not answer_seconds:
        return
    connection_class = _impatient(answer_seconds + _AFTER_THE_SERVER_SECONDS, clock)

    @event.listens_for(engine, "do_connect")
    def connect(_dialect: Any, _record: Any, positional: Any, named: Any) -> Any:
        return connection_class.connect(*positional, **named)


def _impatient(most_seconds: float, clock: Clock) -> Any:
    import psycopg  # noqa: PLC0415 - an optional extra

    class Impatient(psycopg.Connection[Any]):
        """Waits for its server, but not for ever."""

        def wait(self, gen: Any, *options: Any, **named: Any) -> Any:
            return super().wait(self._watched(gen), *options, **named)

        def _watched(self, gen: Generator[Any, Any, Any]) -> Generator[Any, Any, Any]:
            """Pass `gen` on; the driver sends 0 into it, several times a second, while there is nothing to read."""
            heard_at = clock.elapsed()
            try:
                wanted = next(gen)
                while True:
                    ready = yield wanted
                    now = clock.elapsed()
                    if ready:
                        heard_at = now
                    elif now - heard_at > most_seconds:
                        self.pgconn.finish()
                        raise psycopg.OperationalError(f"the server said nothing for {most_seconds:g} s")
                    wanted = gen.send(ready)
            except StopIteration as ended:
                return ended.value

    return Impatient
