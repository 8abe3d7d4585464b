"""The training that makes drivers start sooner runs once, later, and not beyond its job manager."""

import os
import sys
from pathlib import Path

import pytest

from pystate.common.processes.processes import is_alive
from pystate.ops.jobmanager.drivers.class_data_trainer import ClassDataTrainer
from pystate.runtime.job_folder.submission import Submission
from tests.waiting import wait_until


@pytest.fixture
def runs(tmp_path):
    return tmp_path / "runs"


@pytest.fixture
def trainer(tmp_path, runs):
    made = []

    def make(lasts: bool = False, after_s: float = 0.0) -> ClassDataTrainer:
        script = tmp_path / "training.py"
        end = "input()" if not lasts else "import signal; signal.pause()"
        script.write_text(
            "import os, sys\n"
            f"with open({str(runs)!r}, 'a') as file: file.write(f\"{{os.getpid()}} {{os.environ['OF_THE_JOB']}}\\n\")\n"
            "sys.stderr.write('a JVM that ended\\n')\n"
            f"{end if lasts else 'sys.exit(1)'}\n"
        )
        made.append(ClassDataTrainer(tmp_path, (str(script),), after_s))
        return made[-1]

    yield make
    for one in made:
        one.close()


def submission(python: str = sys.executable) -> Submission:
    return Submission(
        job_file="/job.py",
        arguments=[],
        working_directory="/",
        parallelism=None,
        savepoint_path=None,
        allow_non_restored_state=False,
        configuration={},
        attached=False,
        python=python,
    )


def environment() -> dict[str, str]:
    return {**os.environ, "OF_THE_JOB": "its own"}


def lines(runs: Path) -> list[str]:
    return runs.read_text().splitlines() if runs.exists() else []


def test_one_training_for_all_drivers_of_a_python_in_the_jobs_environment(trainer, runs, caplog):
    one = trainer()
    for _ in range(3):
        one.driver_started(submission(), environment())
    wait_until(lambda: "a JVM that ended" in caplog.text)  # a failed one is said
    assert [line.partition(" ")[2] for line in lines(runs)] == ["its own"]


def test_none_is_left_after_by_a_job_manager_that_ends(trainer, runs):
    one = trainer(lasts=True)
    one.driver_started(submission(), environment())
    wait_until(lambda: lines(runs))
    pid = int(lines(runs)[0].partition(" ")[0])
    one.close()
    wait_until(lambda: not is_alive(pid))


def test_none_starts_before_its_time_or_after_the_end(trainer, runs):
    one = trainer(after_s=3600)
    one.driver_started(submission(), environment())
    one.close()
    one.driver_started(submission("/another/python"), environment())
    assert not lines(runs)


def test_a_python_that_cannot_be_run_is_said(trainer, caplog):
    trainer().driver_started(submission("/no/python"), environment())
    wait_until(lambda: "no archive of Spark's classes can be made" in caplog.text)
