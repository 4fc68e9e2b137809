"""Prometheus's own tool for checking what it will scrape, from the machine or from Debian's package."""

import os
import shutil
import subprocess
import tempfile
from functools import cache
from pathlib import Path

NEEDED = "promtool is missing: install Prometheus, so that `promtool` is on the PATH"
APT, DPKG = shutil.which("apt-get"), shutil.which("dpkg-deb")
BIN = Path(__file__).parents[2] / ".venv" / "bin" / "promtool"


@cache
def promtool() -> Path:
    """Find `promtool`, or take it out of Debian's package `prometheus`, which nobody has to install for that."""
    if found := shutil.which("promtool"):
        return Path(found)
    if not BIN.exists():
        _unpack(BIN)
    return BIN


def check_metrics(text: str) -> subprocess.CompletedProcess[str]:
    """Let it judge a scrape."""
    return subprocess.run(
        [promtool(), "check", "metrics"], input=text, capture_output=True, text=True, check=False, timeout=60
    )


def _unpack(target: Path) -> None:
    assert APT is not None, NEEDED
    assert DPKG is not None, NEEDED
    with tempfile.TemporaryDirectory() as folder:
        if not _fetched(folder):
            subprocess.run([APT, "update", "-qq"], check=True, timeout=300)
            assert _fetched(folder), "Debian's package `prometheus` could not be fetched"
        (package,) = Path(folder).glob("prometheus_*.deb")
        subprocess.run([DPKG, "-x", package, folder], check=True, timeout=120)
        target.parent.mkdir(parents=True, exist_ok=True)
        # Several test processes may come here at once: each puts the whole file in place.
        draft = target.with_name(f"{target.name}.{os.getpid()}")
        shutil.copy2(Path(folder) / "usr" / "bin" / "promtool", draft)
        draft.replace(target)


def _fetched(folder: str) -> bool:
    done = subprocess.run(
        [APT or "", "download", "-qq", "prometheus"], cwd=folder, check=False, capture_output=True, timeout=300
    )
    return done.returncode == 0
