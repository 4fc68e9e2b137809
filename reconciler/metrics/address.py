"""Where a listener answers, as people write it."""

from __future__ import annotations

import ipaddress
from dataclasses import dataclass
from typing import Final

_LAST_PORT: Final = 65535


@dataclass(frozen=True, slots=True)
class Address:
    """Where to listen; port 0 lets the system choose one."""

    host: str
    port: int

    @classmethod
    def parse(cls, text: str) -> Address:
        """Read `HOST:PORT`, `:PORT` or `PORT`; the host is 127.0.0.1 if it is left out. Raises ValueError."""
        host, _, port = text.strip().rpartition(":")
        if not port.isascii() or not port.isdecimal() or int(port) > _LAST_PORT:
            raise ValueError(f"{text!r} is no address: write HOST:PORT, such as 127.0.0.1:5018")
        return cls(host.strip("[]") or "127.0.0.1", int(port))

    @property
    def is_loopback(self) -> bool:
        """Whether only this machine reaches it."""
        try:
            return ipaddress.ip_address(self.host).is_loopback
        except ValueError:
            return self.host == "localhost"

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"
