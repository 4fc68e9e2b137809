"""What must not be repeated of the settings: the values of secret keys, and the passwords of URLs."""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Final

import yaml

from reconciler.cli.keys import is_secret, keys
from reconciler.spec.schemas import Fault
from reconciler.spec.wording import Words, nearest, shown, words_of

_SUSPECTS: Final = ("password", "passwd", "secret", "token", "credential")
_KEY: Final = re.compile(r"(?<![\w-])([\w-]{1,64})[\"']?[ \t]{0,64}:")
_REST: Final = re.compile(r"[^\r\n]*")
_VALUE: Final = re.compile(r"[ \t]*[\r\n]*[^\r\n]*")
_PASSWORD: Final = re.compile(
    r"(?<=//)[^\s\"']{0,256}(?=@)|(?<=:)[^\s\"'/]{1,256}(?=@)|(?<=password=)[^&\s\"',}]+", re.IGNORECASE
)
"""With bounds, so that no text makes it look at everything again at every character."""
_SHORTEST: Final = 3
"""What is shorter stands in other words too, and is no secret."""
_BEGIN: Final = (
    yaml.BlockMappingStartToken,
    yaml.BlockSequenceStartToken,
    yaml.FlowMappingStartToken,
    yaml.FlowSequenceStartToken,
)
_END: Final = (yaml.BlockEndToken, yaml.FlowMappingEndToken, yaml.FlowSequenceEndToken)


def words_of_setting(key: str, fault: Fault) -> Words:
    """Say what is wrong with a value, without the value where that is or holds a secret."""
    words = words_of(fault)
    is_group = any(each.startswith(f"{key}.") for each in keys())
    if not is_group and not (key in keys() and is_secret(key)):
        return Words(*map(without_passwords, words))
    mend = "Write it in quotes" if words.mend.startswith("Quote") else words.mend
    return words._replace(what=words.what.replace(shown(fault.value), key, 1), mend=mend)


def without_passwords(text: str) -> str:
    """Give a text without the passwords of the URLs in it."""
    return _PASSWORD.sub("***", text)


@dataclass(frozen=True, slots=True)
class Cover:
    """What is secret in the text of a settings file."""

    text: str = field(repr=False)
    spans: Sequence[tuple[int, int]]
    secrets: Sequence[str] = field(repr=False)
    """What stands there, the longest first."""

    @classmethod
    def of(cls, text: str) -> Cover:
        """Find the values of secret keys, of misspelt ones too, whether the text is YAML or not."""
        values = list(_values(text))
        known = sorted(begin for begin, _ in values)
        spans: list[tuple[int, int]] = []
        for key in _KEY.finditer(text):
            if (spans and key.end() < spans[-1][1]) or not _looks_secret(key[1]):
                continue  # covered already, or none
            rest = _VALUE.match(text, key.end())
            at = bisect_left(known, key.end())
            if rest and (at == len(known) or known[at] >= rest.end()):
                spans.append(rest.span())
        spans += [*values, *(found.span() for found in _PASSWORD.finditer(text))]
        secrets = {text[begin:end].strip(" \t\r\n\"'") for begin, end in spans}
        return cls(text, spans, sorted((each for each in secrets if len(each) >= _SHORTEST), key=len, reverse=True))

    def lines(self) -> str:
        """Give the text with stars in place of what is secret; lines and columns stay."""
        covered = list(self.text)
        for begin, end in self.spans:
            covered[begin:end] = ["*" if each.isprintable() else each for each in covered[begin:end]]
        return "".join(covered)

    def words(self, words: str) -> str:
        """Give what is said of the text, without what is secret in it."""
        for each in self.secrets:
            words = words.replace(each, "***")
        return without_passwords(words)


def _values(text: str) -> Iterator[tuple[int, int]]:
    """Find where the values of secret keys stand, as far as the text can be read as YAML."""
    depth, read, told, name = 0, 0, len(text), ""
    within: int | None = None
    """The depth of the secret key whose value is being read."""
    try:
        for token in yaml.scan(text, Loader=yaml.SafeLoader):
            read = token.end_mark.index
            if isinstance(token, (yaml.KeyToken, yaml.FlowEntryToken)) and within == depth:
                within = None  # not before: what stands behind a value may be the rest of it
            elif isinstance(token, yaml.ScalarToken):
                name = str(token.value)
                if within is not None:
                    told = read
                    yield token.start_mark.index, told
            elif isinstance(token, yaml.ValueToken) and within is None and _looks_secret(name):
                within = depth
            elif isinstance(token, _BEGIN):
                depth += 1
            elif isinstance(token, _END):
                depth -= 1
                within = None if within is not None and depth < within else within
    except yaml.YAMLError:
        rest = _REST.match(text, told)
        yield (read, len(text)) if within is not None or rest is None else rest.span()


@cache
def _looks_secret(name: str) -> bool:
    """Whether a key is that of a secret, or may be meant to be."""
    known = {part: is_secret(key) for key in keys() for part in key.split(".")}
    if name in known:
        return known[name]
    secret = [part for part, is_one in known.items() if is_one]
    return nearest(name, secret) is not None or any(each in name.casefold() for each in _SUSPECTS)
