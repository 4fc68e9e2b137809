"""Crontabs by Vixie's rules: what is read, what is written, and a proof that can fail."""

import shlex
import subprocess
from dataclasses import replace
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from reconciler.clock import from_us, to_us
from reconciler.model.definition import timing_from
from reconciler.schedule.occurrences import compile_timing
from reconciler.spec.crontab.prove import DAYS, Proof, Span, prove
from reconciler.spec.crontab.read import Crontab, Entry, read_crontab
from reconciler.spec.crontab.write import pages_of

BERLIN = ZoneInfo("Europe/Berlin")


def read(text: str, *, system: bool = False, zone: str = "UTC") -> Crontab:
    return read_crontab("tab", text.encode(), system=system, zone=zone)


def entry(line: str, **options: Any) -> Entry:
    found = read(line, **options)
    assert [problem.what for problem in found.problems] == []
    (made,) = found.entries
    return made


def jobs(text: str, **options: Any) -> list[dict[str, Any]]:
    found = read(text, **options)
    written = pages_of(found, zone=options.get("zone", "UTC"), timeout="1d").as_one()
    return [each for each in yaml.safe_load_all(written) if each]


def command(text: str, **options: Any) -> list[str]:
    (job,) = jobs(text, **options)
    argv: list[str] = job["spec"]["handler"]["with"]["argv"]
    return argv


def proved(made: Entry, trigger: dict[str, Any], zone: ZoneInfo = BERLIN) -> Proof:
    span = Span(date(2026, 1, 1), DAYS, zone)
    start, end = span.instants()
    occurrences = compile_timing(timing_from(trigger), activated_us=0)
    fired = occurrences.between(to_us(start), to_us(end), limit=10**6)
    return prove(made.times, map(from_us, fired), span)


@pytest.mark.parametrize(
    ("written", "cron", "rule"),
    [
        ("15 2 * * *", "15 2 * * *", None),
        ("0 0 1-7 * 1", "0 0 1-7 * 1", None),
        ("0 0 */2 * 1", "0 0 */2 * 1", None),  # begins with a star: both must match, here as there
        ("0 0 * * sat-sun", "0 0 * * sat-sun", None),
        ("@weekly", "0 0 * * 0", None),
        ("0 */24 * * *", "0 0 * * *", None),
        ("0 0 */31 * 1", "0 0 1 * 1", "And"),
        ("0 0 * * 0-7", "0 0 * * 0-7", None),
    ],
)
def test_times_are_written_so_that_we_read_them_alike(written: str, cron: str, rule: str | None) -> None:
    made = entry(f"{written} /bin/true")

    timing = made.times.timing()

    assert (timing["cron"], timing.get("dayRule")) == (cron, rule)
    assert proved(made, {**timing, "timeZone": "Europe/Berlin"}).holds


@pytest.mark.parametrize(
    ("tampered", "side"),
    [
        ("16 2 * * *", "both"),
        ("15 2 * * 1-6", "crontab"),
        ("15 2,3 * * *", "definition"),
        ("15 2 1-30 * *", "crontab"),
    ],
)
def test_the_proof_finds_a_definition_that_fires_otherwise(tampered: str, side: str) -> None:
    made = entry("15 2 * * * /bin/true")

    proof = proved(made, {"cron": tampered, "timeZone": "Europe/Berlin"})

    assert not proof.holds
    assert (proof.only_in_crontab is not None) == (side in {"both", "crontab"})
    assert (proof.only_in_definition is not None) == (side in {"both", "definition"})


def test_the_proof_finds_a_wrong_zone_and_a_doubled_fire() -> None:
    made = entry("15 2 * * * /bin/true")
    span = Span(date(2026, 6, 1), 2, ZoneInfo("UTC"))
    once = [datetime(2026, 6, day, 2, 15, tzinfo=UTC) for day in (1, 2)]

    assert prove(made.times, once, span).holds
    assert not prove(made.times, [*once, once[0]], span).holds
    assert not proved(made, {"cron": "15 2 * * *", "timeZone": "UTC"}).holds


def test_days_on_which_the_clocks_change_are_left_out_and_counted() -> None:
    proof = proved(entry("30 2 * * * /bin/true"), {"cron": "30 2 * * *", "timeZone": "Europe/Berlin"})

    assert (proof.holds, proof.days_left_out, proof.equal) == (True, 2, DAYS - 2)


NUMBERS = {"minute": (0, 59), "hour": (0, 23), "day": (1, 31), "month": (1, 12), "weekday": (0, 7)}


@st.composite
def fields(draw: st.DrawFn, low: int, high: int) -> str:
    def item() -> str:
        first = draw(st.integers(low, high))
        last = draw(st.integers(first, high))
        step = draw(st.integers(1, high))
        return draw(st.sampled_from(["*", f"*/{step}", str(first), f"{first}-{last}", f"{first}-{last}/{step}"]))

    return ",".join(item() for _ in range(draw(st.integers(1, 2))))


@settings(max_examples=60, deadline=None)
@given(words=st.tuples(*(fields(*bounds) for bounds in NUMBERS.values())))
def test_whatever_cron_accepts_fires_as_cron_has_it(words: tuple[str, ...]) -> None:
    found = read(" ".join(words) + " /bin/true")
    if found.problems:
        assert {problem.rule for problem in found.problems} == {"cron.never-fires"}
        return
    (made,) = found.entries

    assert proved(made, {**made.times.timing(), "timeZone": "Europe/Berlin"}).holds


def test_assignments_hold_for_the_entries_below_them() -> None:
    found = read(
        "MAILTO=ops\n0 1 * * * first\nMAILTO=''\nCRON_TZ=Asia/Tokyo\nSHELL=/bin/bash\n"
        "\"GREETING\" = 'hello you'\n0 2 * * * second\n",
        zone="Europe/Berlin",
    )

    first, second = found.entries
    assert (first.environment, first.zone) == ({"MAILTO": "ops"}, "Europe/Berlin")
    assert second.environment == {"MAILTO": "", "SHELL": "/bin/bash", "GREETING": "hello you"}
    assert (second.zone, second.machine_zone) == ("Asia/Tokyo", "Europe/Berlin")


@pytest.mark.parametrize(
    ("line", "script", "stdin"),
    [
        (r"* * * * * date +\%F", "date +%F", None),
        ("* * * * * cat%one%two", "cat", "one\ntwo"),
        (r"* * * * * cat%100\%%", "cat", "100%"),
        (r"* * * * * echo a\b", r"echo a\b", None),
    ],
)
def test_a_percent_sign_begins_the_input(line: str, script: str, stdin: str | None) -> None:
    made = entry(line)

    assert (made.command, made.stdin) == (script, stdin)


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("* * * * * cat%one%two", "one\ntwo\n"),
        (r"* * * * * printf '%s' \%F", None),
        ("* * * * * echo '{{ not ours }}'", "{{ not ours }}\n"),
        ('TZ=Asia/Tokyo\n* * * * * echo "$TZ"', "Asia/Tokyo\n"),
        ('GREETING=a {{b}} c\n* * * * * echo "$GREETING"', "a {{b}} c\n"),
        ("* * * * * echo \"it's\" 'quoted'", "it's quoted\n"),
        ("* * * * * echo one; echo two # three", "one\ntwo\n"),
    ],
)
def test_what_is_written_does_what_cron_did(line: str, said: str | None, tmp_path: Path) -> None:
    """The shell is run for real, with the argv and the environment that a worker would give it."""
    text = line.replace(r"printf '%s' \%F", r"printf '\%s\n' x")
    (job,) = jobs(text)
    payload = job["spec"]["handler"]["with"]
    environment = {each["name"]: each["value"] for each in payload.get("env", ())}

    ran = subprocess.run(
        payload["argv"],
        env={"PATH": "/usr/bin:/bin", **environment},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=20,
        check=True,
    )

    assert ran.stdout == ("x\n" if said is None else said)


def test_no_line_of_a_crontab_can_write_yaml() -> None:
    nasty = "0 1 * * * echo 'a: b' # c\u2028kind: Defaults\x0bx"

    (job,) = jobs(f"# --- \u2028kind: Queue\n{nasty}")

    assert job["kind"] == "Job"
    assert shlex.join(command(nasty)).count("kind: Defaults") == 1


@pytest.mark.parametrize(
    ("line", "rule", "column"),
    [
        ("0 1 * *", "crontab.line", 1),
        ("hello", "crontab.line", 1),
        ("0 1 * * *", "crontab.command", 10),
        ("0 1 * * * * five", "crontab.command", 11),
        ("0 1 * * * root /bin/true", "crontab.user", 11),
        ("61 1 * * * x", "crontab.time", 1),
        ("0 1 * * mon,  x", "crontab.time", 13),
        ("0 22-2 * * * x", "crontab.time", 3),
        ("*/0 * * * * x", "crontab.time", 1),
        ("@dayly x", "crontab.time", 1),
        ("0 0 30 2 * x", "cron.never-fires", 5),
        ("CRON_TZ=Mars/Base", "zone.unknown", 9),
        ("1A=b", "crontab.variable", 1),
        ("0 1 * * * x \ufffd", "crontab.encoding", 1),
        ("0 1 * * * curl -u me:hunter2-secret https://x.example", "crontab.secret", 22),
    ],
)
def test_what_is_wrong_is_told_with_its_place_and_left_out(line: str, rule: str, column: int) -> None:
    found = read(f"# first\n{line}\n")

    (problem,) = found.problems
    assert (problem.rule, problem.place.line, problem.place.column) == (rule, 2, column)
    assert problem.mend
    assert [each.line for each in found.left_out] == [2]
    assert found.entries == []


def test_entries_below_a_broken_zone_are_left_out_until_another_is_named() -> None:
    found = read("CRON_TZ=Mars/Base\n0 1 * * * lost\nCRON_TZ=UTC\n0 2 * * * found\n")

    assert [each.command for each in found.entries] == ["found"]
    assert [each.line for each in found.left_out] == [1, 2]


def test_a_secret_is_in_no_report_and_no_file() -> None:
    text = "API_TOKEN=ghp_0123456789abcdefghij0123456789abcdef\n0 1 * * * x\n0 2 * * * curl https://me:hunter2x@x.example\n"
    text += (
        "0 3 * * * curl -u me:hunter2x https://x.example; PGPASSWORD=s3cretpw psql\n0 4 * * PGPASSWORD=s3cretpw psql\n"
    )
    found = read(text)
    written = pages_of(found, zone="UTC", timeout="1d").as_one()

    for hidden in ("ghp_0123456789", "hunter2x", "s3cretpw"):
        assert hidden not in found.text
        assert hidden not in written
    assert "looks like a secret" in written


def test_a_system_crontab_names_users() -> None:
    made = entry("0 1 * * * backup /usr/bin/save", system=True)

    assert (made.user, made.command) == ("backup", "/usr/bin/save")
    written = pages_of(read("0 1 * * * backup /usr/bin/save", system=True), zone="UTC", timeout="1d").as_one()
    assert "user backup: a run has the user of its worker" in written


def test_names_are_unique_and_come_from_the_program() -> None:
    lines = [
        "cd /srv && /opt/etl/load.sh --full",
        "/opt/etl/load.sh",
        "/opt/etl/load.sh",
        "flock -n /tmp/x.lock nice -n 5 python3 /srv/sync.py",
        "!!",
        "x" * 100,
    ]

    found = [job["metadata"]["name"] for job in jobs("".join(f"0 1 * * * {each}\n" for each in lines))]

    assert found[:5] == ["load", "load-2", "load-3", "sync", "job"]
    assert len(found[5]) <= 63
    assert len(set(found)) == len(found)


def test_an_entry_that_is_read_twice_gives_the_same_bytes() -> None:
    text = "~ 1~5 * * * drawn\n5 4 * * * plain\n"

    first, second = (pages_of(read(text), zone="UTC", timeout="1d").as_one() for _ in range(2))

    assert first == second
    assert "is random in cron; drawn here" in first


def test_a_proof_is_of_the_crontabs_own_text() -> None:
    """Whoever changes what is written changes nothing of what it is judged by."""
    made = entry("0 9 * * 1-5 /bin/true")
    changed = replace(made.times, hour=replace(made.times.hour, text="10"))

    assert changed.timing()["cron"] == "0 10 * * 1-5"
    assert not proved(made, {**changed.timing(), "timeZone": "Europe/Berlin"}).holds
