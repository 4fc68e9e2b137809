"""A worker on both databases: runs are claimed, executed by its guard, and their results written."""

import json
import logging
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from reconciler.model.run import AttemptOutcome
from reconciler.store import runs
from reconciler.worker.events import RunEnded, RunStarted, SessionOpened, StepFailed, StoreFailed
from tests.store.cast import job
from tests.worker.cast import Stage, command, python, staged

pytestmark = pytest.mark.timeout(60)


@pytest.fixture
def stage(store_url: str, tmp_path: Path) -> Iterator[Stage]:
    with staged(store_url, tmp_path) as stage:
        yield stage
        assert stage.told(StepFailed) == []
        assert stage.told(StoreFailed) == []


def test_a_command_runs_and_its_output_and_exit_code_are_kept(stage: Stage) -> None:
    run = stage.run(command("hello", "sh", "-c", "echo out; echo err >&2"))

    assert (run.state, run.exit_code, run.error, run.attempt, run.fence) == ("Succeeded", 0, None, 1, 1)
    attempt = stage.attempts(run.id)[0]
    assert (attempt.outcome, attempt.node, attempt.output) == ("Succeeded", "n1", "out\nerr\n")
    told = [type(event) for event in stage.events if event.level >= logging.INFO]
    assert told == [SessionOpened, RunStarted, RunEnded]


def test_a_run_that_does_nothing_ends_inside_the_worker(stage: Stage) -> None:
    run = stage.run(job("nothing", handler={"type": "noop"}))

    assert (run.state, run.exit_code, run.attempt, run.fence) == ("Succeeded", None, 1, 1)
    assert stage.told(RunStarted) == [], "no process was asked for"
    assert len(stage.told(RunEnded)) == 1


def test_a_failing_command_ends_failed_with_its_exit_code(stage: Stage) -> None:
    run = stage.run(command("broken", "sh", "-c", "echo gone wrong; exit 75"))

    assert (run.state, run.exit_code, run.error) == ("Failed", 75, "the program ended with exit code 75")
    assert stage.attempts(run.id)[0].output == "gone wrong\n"


def test_a_command_that_is_ended_by_a_signal_says_which(stage: Stage) -> None:
    run = stage.run(command("crash", "sh", "-c", "kill -SEGV $$"))

    assert (run.state, run.exit_code, run.error) == ("Failed", None, "the program was ended by SIGSEGV")


def test_a_timeout_ends_timed_out_and_names_the_signals(stage: Stage) -> None:
    run = stage.run(command("stuck", "sh", "-c", 'trap "" TERM; echo begun; sleep 300', timeout="1s", gracePeriod="1s"))

    assert run.state == "TimedOut"
    assert run.error == "the run took longer than its timeout and got SIGTERM and then SIGKILL; it was ended by SIGKILL"
    assert stage.attempts(run.id)[0].output == "begun\n"


@pytest.mark.case("PRC-06")
def test_output_that_is_no_text_is_stored_and_its_end_is_not_lost(stage: Stage) -> None:
    script = "printf 'a\\200\\262\\377\\000b\\n'; head -c 1000000 /dev/zero; echo end; exit 0"
    run = stage.run(command("binary", "bash", "-c", script))

    output = stage.attempts(run.id)[0].output
    assert run.state == "Succeeded"
    assert output.startswith("a���\\x00b\n")
    assert output.endswith("end\n")
    assert "bytes left out" in output
    assert "\0" not in json.loads(json.dumps(output))


def test_a_program_that_is_not_allowed_fails_with_the_flag_to_add(store_url: str, tmp_path: Path) -> None:
    with staged(store_url, tmp_path, allow=["true"]) as stage:
        run = stage.run(command("report", "northstar-report", "--all"))

    assert run.state == "Failed"
    assert run.error == (
        "program 'northstar-report' is not allowed on this worker. "
        "To allow it, start the worker with --allow northstar-report"
    )


def test_a_program_that_does_not_exist_fails_by_name(stage: Stage) -> None:
    run = stage.run(command("typo", "/does/not/exist"))

    assert (run.state, run.error) == ("Failed", "program '/does/not/exist' does not exist, or is not executable")


def test_a_job_sees_its_own_facts_and_nothing_of_the_worker(
    store_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RECONCILER_STORE", store_url)
    monkeypatch.setenv("PGPASSWORD", "canary")
    with staged(store_url, tmp_path) as stage:
        script = "import json, os; print(json.dumps([dict(os.environ), os.getcwd(), os.listdir()]))"
        run = stage.run(python("facts", script))

        env, cwd, files = json.loads(stage.attempts(run.id)[0].output)
    assert env["RECONCILER_CLAIM"] == f"{run.id}.1"
    assert env["RECONCILER_DEFINITION"] == "facts"
    assert env["HOME"] == cwd
    assert files == []
    assert not Path(cwd).exists()
    assert "canary" not in env.values()
    assert store_url not in env.values()


def test_the_node_s_secret_and_store_are_on_no_command_line(stage: Stage) -> None:
    run = stage.run(command("look", "sh", "-c", "cat /proc/[0-9]*/cmdline | tr '\\0' ' '"))

    assert str(stage.store.database.url.render_as_string(hide_password=False)) not in stage.attempts(run.id)[0].output


def test_a_demo_handler_writes_its_file_into_the_data_folder(stage: Stage, tmp_path: Path) -> None:
    payload = {"rows": 10, "output": 'sales-{{ slot | date("%Y") }}.csv'}
    run = stage.run(job("sales", handler={"type": "report-generator", "with": payload}), slot_us=1_767_225_600_000_000)

    assert run.state == "Succeeded"
    assert (tmp_path / "data/sales-2026.csv").read_text().count("\n") == 21
    assert stage.attempts(run.id)[0].output.startswith("sales-2026.csv: 20 orders, ")


def test_a_payload_that_does_not_fit_once_it_is_filled_fails_in_words(stage: Stage) -> None:
    payload = {"rows": "{{ parameters.rows }}"}
    definition = job(
        "sales", handler={"type": "report-generator", "with": payload}, parameters=[{"name": "rows", "default": 5}]
    )
    run = stage.run(definition, parameters={"rows": "many"})

    assert run.state == "Failed"
    assert (run.error or "").startswith('the payload does not fit once it is filled: with.rows: "many" ')


def test_more_runs_than_slots_all_end_and_never_more_than_the_slots_at_once(stage: Stage, tmp_path: Path) -> None:
    seen = tmp_path / "seen"
    seen.mkdir()
    script = f"touch {seen}/$$; ls {seen} | wc -l; sleep 0.2; rm {seen}/$$"
    stage.store.apply(command("many", "sh", "-c", script))
    many = [stage.store.trigger("many") for _ in range(12)]
    stage.turn_until(lambda: all(stage.store.run(run).is_over for run in many))

    at_once = [int(stage.attempts(run)[0].output) for run in many]
    assert {stage.store.run(run).state for run in many} == {"Succeeded"}
    assert 2 <= max(at_once) <= 4


def test_a_version_that_cannot_be_read_fails_its_run_and_no_other(stage: Stage) -> None:
    stage.store.apply(job("odd", handler={"type": "command", "with": {}}), command("fine", "true"))
    odd, fine = stage.store.trigger("odd"), stage.store.trigger("fine")
    stage.turn_until(lambda: stage.store.run(odd).is_over and stage.store.run(fine).is_over)

    assert (stage.store.run(odd).state, stage.store.run(fine).state) == ("Failed", "Succeeded")
    assert "argv" in (stage.store.run(odd).error or "")


def test_what_a_job_leaves_behind_is_killed_and_told(stage: Stage) -> None:
    run = stage.run(command("daemon", "sh", "-c", "(setsid sleep 300 &); echo started"))

    assert run.state == "Succeeded"
    assert stage.attempts(run.id)[0].output == "started\n[reconciler: 1 left-over processes were killed]\n"


def test_a_cancelled_run_is_ended(stage: Stage) -> None:
    stage.store.apply(command("long", "sleep", "300"))
    run = stage.store.trigger("long")
    stage.turn_until(lambda: stage.told(RunStarted))
    stage.store.database.tx(lambda tx: runs.cancel(tx, run, actor="tests"))
    stage.turn_until(lambda: stage.store.run(run).is_over)

    assert stage.store.run(run).state == "Cancelled"


def test_a_worker_keeps_its_session_longer_than_a_lease(store_url: str, tmp_path: Path) -> None:
    with staged(store_url, tmp_path) as stage:
        run = stage.run(command("longer", "sleep", "8"))

        assert (run.state, run.attempt, run.lost_leases) == ("Succeeded", 1, 0)
        assert stage.outcomes(run.id) == [AttemptOutcome.SUCCEEDED]
        assert len(stage.told(SessionOpened)) == 1


def test_processes_of_the_worker_are_gone_when_it_has_drained(store_url: str, tmp_path: Path) -> None:
    with staged(store_url, tmp_path) as stage:
        stage.run(command("hello", "true"))
        guard = stage.told(RunStarted)[0].pid
    with pytest.raises(ProcessLookupError):
        os.kill(guard, 0)
