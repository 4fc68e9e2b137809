"""Public holidays as dates: what a calendar leaves to be looked up is written out once, and read everywhere.

The dates are those of the years `YEARS`, whenever they are looked up, so the same library gives the same dates.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from types import ModuleType
from typing import Any, Final

from reconciler.schedule.calendar import Calendar, calendar_from

YEARS: Final = range(2020, 2061)
"""Long enough for a schedule, short enough to keep: a country has about 500 holidays in them."""
_INSTALL: Final = "pip install 'reconciler-scheduler[holidays]'"


class LookupRefusedError(Exception):
    """Something cannot be looked up; `part` is the field that is wrong, `known` what it could be."""

    def __init__(self, rule: str, what: str, mend: str, *, part: str, known: Sequence[str] = ()) -> None:
        super().__init__(f"{what}. {mend}")
        self.rule = rule
        self.what = what
        self.mend = mend
        self.part = part
        self.known = known


@dataclass(frozen=True, slots=True)
class Resolved:
    """A calendar with every date written out, what was asked for them, and up to which day they reach."""

    document: Mapping[str, Any]
    resolved_with: str
    last_day: str | None


def resolve(spec: Mapping[str, Any]) -> Resolved:
    """Write out the holidays of a calendar's spec, and what its iCalendar files came to. Raises LookupRefusedError."""
    windows: list[Mapping[str, Any]] = []
    asked: set[str] = set()
    for window in spec["windows"]:
        if "holidays" in window:
            windows.append({"dates": holidays_of(**window["holidays"])})
            asked.add(f"holidays {library('holidays').__version__}")
        elif "ical" in window:
            windows += window["windows"]
            asked.add(window["ical"])
        else:
            windows.append(window)
    document = {**{name: spec[name] for name in ("mode", "timeZone") if name in spec}, "windows": windows}
    return Resolved(document, ", ".join(sorted(asked)), f"{YEARS[-1]}-12-31" if asked else None)


def built(spec: Mapping[str, Any]) -> Calendar:
    """Build a calendar from its spec. Raises LookupRefusedError, TimingError, ValueError."""
    return calendar_from(resolve(spec).document)


@cache
def holidays_of(country: str, subdivision: str | None = None) -> list[str]:
    """List the public holidays of a country, or of a part of it, as dates. Raises LookupRefusedError."""
    lists = library("holidays")
    known: Mapping[str, Sequence[str]] = lists.list_supported_countries()
    if country not in known:
        what = f'no holidays are known of a country "{country}"'
        mend = "Write its code of ISO 3166, such as DE"
        raise LookupRefusedError("calendar.holidays", what, mend, part="country", known=list(known))
    if subdivision is not None and subdivision not in known[country]:
        what = f'{country} has no subdivision "{subdivision}"'
        parts = ", ".join(known[country])
        mend = f"Write one of {parts}" if parts else "Take it out: its holidays are the same everywhere"
        raise LookupRefusedError("calendar.holidays", what, mend, part="subdivision", known=list(known[country]))
    return sorted(day.isoformat() for day in lists.country_holidays(country, subdiv=subdivision, years=YEARS))


def library(name: str) -> ModuleType:
    """Import what not every installation has, and few definitions need. Raises LookupRefusedError."""
    try:
        return import_module(name)
    except ImportError as error:
        what = f'this installation lacks "{name}", which holidays and iCalendar files take'
        mend = f"Install it, here and where the leader runs: {_INSTALL}"
        raise LookupRefusedError("calendar.not-installed", what, mend, part="") from error
