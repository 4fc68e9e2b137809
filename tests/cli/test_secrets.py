"""What of the settings is never repeated, whatever is wrong with them."""

import pytest

from reconciler.cli import run
from reconciler.cli.configfile import read_file
from reconciler.cli.secrets import Cover
from tests.cli.cast import TOKEN, Shown, write

pytestmark = pytest.mark.usefixtures("alone")


@pytest.mark.parametrize("stray", ['"', ": ", "{", "]", "#", "|", "&a ", "*", "\n", ", ", "- "])
def test_no_stray_character_uncovers_a_secret(stray: str) -> None:
    """Wherever it stands, as long as it does not break the name of the secret, or the secret, in two."""
    text = 'store: {url: "postgresql://reconciler:hunter2@db/x"}\nmetrics:\n  serve: a\n  token: hunter2\nnode: x\n'
    whole = [range(text.index(each) + 1, text.index(each) + len(each)) for each in ("url:", "://reconciler:", "token:")]

    for at in range(len(text) + 1):
        if not any(at in each for each in whole):
            report = read_file(write(text[:at] + stray + text[at:])).report()
            assert "hunter2" not in report, report


@pytest.mark.timeout(30)
@pytest.mark.parametrize(
    ("text", "times"),
    [("a", 200_000), (":", 200_000), (" ", 200_000), ("token:", 40_000), ("token: x\n", 20_000), ("token:\n", 30_000)],
)
def test_no_text_makes_the_search_for_secrets_long(text: str, times: int) -> None:
    assert len(Cover.of(text * times).lines()) == len(text) * times


@pytest.mark.parametrize(
    "variable",
    [
        "RECONCILER_METRICS_TOKEN=hunter2",
        "RECONCILER_METRICS_TOKEN_FILE=hunter2.txt",
        "RECONCILER_STORE_FILE=postgresql://reconciler:hunter2@db/x",
        "RECONCILER_NODE_SLOTS=postgresql://reconciler:hunter2@db/x",
    ],
)
def test_no_variable_of_a_secret_is_repeated(
    variable: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    name, _, text = variable.partition("=")
    write("hunter2\n", "secret.txt")
    monkeypatch.setenv(name, text.replace("hunter2.txt", "secret.txt"))

    assert run(["config", "show"]) == 64
    told = capsys.readouterr().err
    assert name in told
    assert "hunter2" not in told


@pytest.mark.parametrize(
    ("variable", "says"),
    [
        ("RECONCILER_NODE_SLOTS=many", "Write a whole number"),
        ("RECONCILER_NODE_SLOTS=", "set and empty"),
        ("RECONCILER_TIMINGS_LEASE=30", "such as 30s"),
        ("RECONCILER_SOURCES=jobs.d", "NAME=PATH"),
        ("RECONCILER_SCHEDULE_DEFAULT_TIME_ZONE=Berlin", "unknown time zone"),
        ("RECONCILER_STORE_FILE=gone", "cannot be read"),
        ("RECONCILER_CONFIG=gone.yaml", "gone.yaml cannot be read"),
    ],
)
def test_a_variable_that_makes_no_sense_is_refused_by_name(
    variable: str, says: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    name, _, text = variable.partition("=")
    monkeypatch.setenv(name, text)

    assert run(["config", "show"]) == 64
    told = capsys.readouterr().err
    assert says in told
    assert name in told or name == "RECONCILER_CONFIG"


def test_a_secret_is_read_from_a_file_and_never_shown(
    shown: Shown, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    write("postgresql://reconciler:hush@db/reconciler\n", "secret")
    monkeypatch.setenv("RECONCILER_STORE_FILE", "secret")

    told = shown()["store.url"]
    assert run(["config", "show", "-o", "yaml"]) == 0

    assert told["value"] == "postgresql+psycopg://reconciler:***@db/reconciler"
    assert told["origin"] == "RECONCILER_STORE_FILE (file secret)"
    assert "hush" not in capsys.readouterr().out
    monkeypatch.setenv("RECONCILER_STORE", "sqlite:///x.db")
    assert run(["config", "show"]) == 64


def test_what_is_wrong_in_file_and_environment_is_told_at_once(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    write("nod: {}\ntimings: {lease: 20s}")
    monkeypatch.setenv("RECONCILER_NODE_SLOTS", "many")
    monkeypatch.setenv("RECONCILER_TIMINGS_HEARTBEAT", "10s")

    assert run(["config", "show"]) == 64
    told = capsys.readouterr().err
    assert "reconciler.yaml:1:1" in told
    assert "timings.lease from reconciler.yaml:2:18, timings.heartbeat from RECONCILER_TIMINGS_HEARTBEAT" in told
    assert "error: RECONCILER_NODE_SLOTS: " in told


def test_the_file_that_a_secret_comes_from_is_shown_and_what_wins_over_it_hides_it(
    shown: Shown, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    write(f"{TOKEN}\n", "scrape")
    write("metrics: {tokenFile: scrape}")

    told = shown()
    assert (told["metrics.tokenFile"]["value"], told["metrics.tokenFile"]["origin"]) == (
        "scrape",
        "reconciler.yaml:1:22",
    )
    assert (told["metrics.token"]["value"], told["store.urlFile"]["value"]) == ("(set)", None)
    assert run(["config", "show"]) == run(["config", "show", "--origin"]) == run(["config", "show", "-o", "yaml"]) == 0
    printed = capsys.readouterr().out
    assert printed.count("metrics.tokenFile") == 2
    assert "  tokenFile: scrape\n" in printed
    assert TOKEN not in printed
    monkeypatch.setenv("RECONCILER_METRICS_TOKEN", f"{TOKEN}-of-another-place")
    assert shown()["metrics.tokenFile"]["value"] is None
