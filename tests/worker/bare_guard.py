"""A guard that keeps its session in a folder instead of a store: `python bare_guard.py FD`.

The folder (`Setup.store_url`) steers it: a file `refuse` ends the session, a file `away` makes the store unreachable, a
file `hang` makes it never answer. What it did stands in `log`, one word and the epoch a line.
"""

import sys
import threading
from pathlib import Path

from reconciler.model.lease import Session
from reconciler.worker.guard import serve
from reconciler.worker.wire import Setup


class FolderRenewal:
    def __init__(self, setup: Setup) -> None:
        self._folder = Path(setup.store_url)

    def renew(self, session: Session) -> bool:
        if (self._folder / "hang").exists():
            threading.Event().wait()
        if (self._folder / "away").exists():
            raise OSError("the store is away")
        is_kept = not (self._folder / "refuse").exists()
        self._note("renewed" if is_kept else "refused", session)
        return is_kept

    def end(self, session: Session) -> None:
        self._note("ended", session)

    def close(self) -> None:
        self._folder = Path()

    def _note(self, word: str, session: Session) -> None:
        with (self._folder / "log").open("a") as log:
            log.write(f"{word} {session.epoch}\n")


if __name__ == "__main__":
    serve(int(sys.argv[1]), FolderRenewal)
