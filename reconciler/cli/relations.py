"""Settings that cannot work together, whatever each of them says by itself."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass
from typing import Final

from reconciler.config import Config
from reconciler.metrics.address import Address
from reconciler.model.lease import HEARTBEATS_IN_A_LEASE, why_lease_is_lost

ADDRESSES: Final = ("metrics.serve", "metrics.worker")
"""The addresses that need a token where others reach them."""
_OFF: Final = "off"


@dataclass(frozen=True, slots=True)
class Misfit:
    """What is wrong with some settings: `keys` are those to look at, the one to mend first."""

    keys: tuple[str, ...]
    what: str
    mend: str
    inside: tuple[str | int, ...] = ()
    """Where below the first key, if that is a list."""
    rule: str = "config.relation"


def misfits(config: Config, listens: Collection[str]) -> Iterator[Misfit]:
    """List all that cannot work; `listens` are the addresses that the command will open."""
    yield from _timings(config)
    yield from _sources(config)
    if config.limits.file_bytes > config.limits.tree_bytes:
        what = f"a file of {config.limits.file_bytes:,} bytes does not fit into a tree of {config.limits.tree_bytes:,}"
        yield Misfit(("limits.fileBytes", "limits.treeBytes"), what, "Let a tree be as large as a file at least")
    for key, text in {**_scraped(config), "api.listen": config.api.listen}.items():
        yield from _address(key, text, needs_token=key in listens and config.metrics.token is None)


def _timings(config: Config) -> Iterator[Misfit]:
    each = config.timings
    seconds = {
        "timings.lease": each.lease_seconds,
        "timings.heartbeat": each.heartbeat_seconds,
        "timings.leaderTtl": each.leader_ttl_seconds,
        "timings.rescan": each.rescan_seconds,
    }
    empty = [key for key, value in seconds.items() if value <= 0]
    for key in empty:
        yield Misfit((key,), f"{key} is not longer than 0 s", "Write a duration such as 30s")
    if not empty and (what := why_lease_is_lost(each.lease_seconds, each.heartbeat_seconds)):
        mend = f"Let the lease be at least {HEARTBEATS_IN_A_LEASE:g} heartbeats"
        yield Misfit(("timings.lease", "timings.heartbeat"), what, mend)


def _sources(config: Config) -> Iterator[Misfit]:
    for name in ("name", "path"):
        given = [getattr(source, name) for source in config.sources]
        for at, value in enumerate(given):
            if value in given[:at]:
                yield Misfit(("sources",), f"two sources have the {name} {value!r}", "Give each its own", (at, name))


def _scraped(config: Config) -> dict[str, str]:
    return {key: getattr(config.metrics, key.rpartition(".")[2]) for key in ADDRESSES}


def _address(key: str, text: str, *, needs_token: bool) -> Iterator[Misfit]:
    """Look at an address; whoever can scrape can read the names of all jobs."""
    if text == _OFF:
        return
    try:
        address = Address.parse(text)
    except ValueError:
        yield Misfit((key,), f"{text!r} is no address", "Write HOST:PORT, with a port up to 65535")
        return
    if needs_token and not address.is_loopback:
        what = f"{address} can be reached from other machines, and no token is set"
        yield Misfit((key, "metrics.token"), what, "Set metrics.tokenFile, or listen on 127.0.0.1")
