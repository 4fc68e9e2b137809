"""What looks like a secret in a line of a crontab: it must not get into a repository, a report or a comment."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from reconciler.spec.payload import looks_secret

_ASSIGNED: Final = re.compile(r"(?<![\w-])-{0,2}([A-Za-z][\w-]{0,64})=(\"[^\"]*\"|'[^']*'|[^\s;|&)]+)")
_OPTION: Final = re.compile(r"(?<!\S)--([A-Za-z][\w-]{0,64})[ \t]+(\"[^\"]*\"|'[^']*'|[^\s;|&)]+)")
_WORD: Final = re.compile(r"[^\s\"'=:;|&]+")
_PLAIN: Final = (
    re.compile(r"//[^\s/@:\"']{0,256}:([^\s/@\"']{1,256})@"),
    re.compile(r"(?<!\S)(?:-u|--user)[ \t]+[\"']?[^\s:\"']{1,64}:([^\s\"']+)"),
    re.compile(r"\b[Bb]earer[ \t]+([\w.~+/-]{8,}=*)"),
)
_ELSEWHERE: Final = ("$", "`", "/", "-")
"""Beginnings of values that say where the secret is, and are none."""


def secrets_in(text: str) -> list[tuple[int, int]]:
    """Find where something stands that looks like a secret, in order."""
    return sorted(set(_found(text)))


def covered(text: str) -> str:
    """Give the text with stars in place of what looks like a secret; columns stay."""
    for start, end in secrets_in(text):
        text = f"{text[:start]}{'*' * (end - start)}{text[end:]}"
    return text


def _found(text: str) -> Iterator[tuple[int, int]]:
    for pattern in (_ASSIGNED, _OPTION):
        for found in pattern.finditer(text):
            value = found[2].strip("\"'")
            if not value.startswith(_ELSEWHERE) and looks_secret(found[1].replace("-", "_"), value):
                yield found.span(2)
    for pattern in _PLAIN:
        for found in pattern.finditer(text):
            if not found[1].startswith(_ELSEWHERE):
                yield found.span(1)
    for found in _WORD.finditer(text):
        if looks_secret("", found[0]):
            yield found.span()
