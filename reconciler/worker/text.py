"""Bytes that jobs print, as text: split into lines, decoded, and shown so that nothing in them can do harm.

Laws: no line is longer than `LONGEST_LINE_BYTES`, a longer one becomes several; no cut breaks a character. Bytes that
are no UTF-8 become replacement characters; NUL, escapes and other control characters are shown as escapes, since
PostgreSQL stores no NUL and terminals obey the rest.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

LONGEST_LINE_BYTES: Final = 16 * 1024
_CONTINUATION: Final = range(0x80, 0xC0)
_LONGEST_CHARACTER: Final = 4
_SHOWN: Final = {
    **{code: f"\\x{code:02x}" for code in (*range(0x20), 0x7F, *range(0x80, 0xA0)) if chr(code) not in "\n\t"},
    **{code: f"\\u{code:04x}" for code in range(0xD800, 0xE000)},
}
"""Control characters, and halves of surrogate pairs, which no encoding takes."""


def clean(raw: bytes) -> str:
    """Turn bytes of a job into text that any store, page or terminal can take."""
    return show_controls(raw.decode("utf-8", errors="replace"))


def show_controls(text: str) -> str:
    """Show control characters as escapes; line ends become newlines."""
    return text if text.isprintable() else text.replace("\r\n", "\n").translate(_SHOWN)


class Lines:
    """Puts the reads of one stream together to blocks of whole lines."""

    def __init__(self) -> None:
        """Begin with nothing read."""
        self._rest = b""

    def add(self, chunk: bytes) -> list[bytes]:
        """Take in what was read, and give what is complete: whole lines, or pieces of one that is too long."""
        end = chunk.rfind(b"\n") + 1
        blocks = [self._rest + chunk[:end]] if end else []
        self._rest = chunk[end:] if end else self._rest + chunk
        while len(self._rest) > LONGEST_LINE_BYTES:
            piece = _cut(self._rest[:LONGEST_LINE_BYTES])
            blocks.append(piece)
            self._rest = self._rest[len(piece) :]
        return blocks

    def end(self) -> list[bytes]:
        """Give the last line, which has no line end."""
        rest, self._rest = self._rest, b""
        return [rest] if rest else []


def each_line(block: bytes) -> Iterator[tuple[bytes, int]]:
    """Give the lines of a block without their line ends, each with how many bytes of the block it took."""
    start = 0
    while start < len(block):
        end = block.find(b"\n", start, start + LONGEST_LINE_BYTES + 1)
        if end >= 0:
            line, size = block[start:end].removesuffix(b"\r"), end + 1 - start
        else:
            line = block[start : start + LONGEST_LINE_BYTES]
            line = line if start + len(line) == len(block) else _cut(line)
            size = len(line)
        yield line, size
        start += size


def without_broken_end(raw: bytes) -> bytes:
    """Drop the beginning of a character whose rest was left out."""
    for back in range(1, min(_LONGEST_CHARACTER, len(raw)) + 1):
        lead = raw[-back]
        if lead in _CONTINUATION:
            continue
        length = 1 if lead < 0xC0 else 2 if lead < 0xE0 else 3 if lead < 0xF0 else _LONGEST_CHARACTER  # noqa: PLR2004
        return raw[:-back] if length > back else raw
    return raw


def without_broken_start(raw: bytes) -> bytes:
    """Drop the rest of a character whose beginning was left out."""
    broken = 0
    while broken < min(_LONGEST_CHARACTER - 1, len(raw)) and raw[broken] in _CONTINUATION:
        broken += 1
    return raw[broken:]


def _cut(raw: bytes) -> bytes:
    return without_broken_end(raw) or raw
