"""What a plain YAML scalar means: the core rules of YAML 1.2, narrowed to what cannot surprise.

Only `true` and `false` are truth values and only decimal numbers are numbers: `no`, `on`, `22:00`, `017`, `0x1F`,
`1_000` and dates are texts, as they are written.
"""

from __future__ import annotations

from typing import Final

from reconciler.model.definition import Json

_WORDS: Final[dict[str, Json]] = {"": None, "~": None, "null": None, "true": True, "false": False}
_NOT_FINITE: Final = frozenset({".inf", "+.inf", "-.inf", ".nan"})
_LARGEST: Final = 2**63 - 1
_LONGEST: Final = 64


class NumberRefusedError(ValueError):
    """A number that no column and no other program would keep."""


def resolve(text: str) -> Json:
    """Give the value of a plain scalar. Raises NumberRefusedError."""
    if text in _WORDS:
        return _WORDS[text]
    if text[0] not in "+-.0123456789":
        return text
    if text.lower() in _NOT_FINITE:
        raise NumberRefusedError(f"{text} is not a finite number")
    unsigned = text[1:] if text[0] in "+-" else text
    if _is_whole(unsigned):
        if len(unsigned) > _LONGEST or abs(int(text)) > _LARGEST:
            raise NumberRefusedError(f"{_shown(text)} does not fit into 64 bits")
        return int(text)
    return _fraction(text) if _is_fraction(unsigned) else text


def _is_digits(text: str) -> bool:
    return text.isascii() and text.isdigit()


def _is_whole(text: str) -> bool:
    return _is_digits(text) and (text == "0" or text[0] != "0")


def _is_fraction(text: str) -> bool:
    mantissa, _, exponent = text.replace("E", "e").partition("e")
    if "e" in text.lower() and not _is_digits(exponent.lstrip("+-") if exponent[:2] not in {"+-", "-+"} else ""):
        return False
    whole, point, rest = mantissa.partition(".")
    if whole and not _is_whole(whole):
        return False
    return (_is_digits(rest) or (bool(whole) and not rest)) if point else bool(whole)


def _fraction(text: str) -> float:
    value = float(text) if len(text) <= _LONGEST else float("inf")
    if value in {float("inf"), float("-inf")}:
        raise NumberRefusedError(f"{_shown(text)} is too large a number")
    return value


def _shown(text: str) -> str:
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}…"
