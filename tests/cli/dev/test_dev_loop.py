"""The loop of `pystate dev`, with a job that is told what becomes of it: no processes and no Spark."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Generator
from pathlib import Path
from typing import Any

import pytest

from pystate.common.configuration.configuration import Configuration
from pystate.common.errors import CheckpointFailedError, JobExecutionError, PystateError
from pystate.common.job_status import JobStatus
from pystate.common.program_finding import ProgramFinding
from pystate_cli.dev.code_versions import CodeVersion, CodeVersions
from pystate_cli.dev.dev_loop import DevLoop
from pystate_cli.dev.file_watch import FileWatch
from pystate_cli.programs.given_program import GivenProgram
from pystate_cli.views.dev_view import DevNews, news_lines

RUNNING, FAILED, FINISHED = JobStatus.RUNNING, JobStatus.FAILED, JobStatus.FINISHED


class ScriptedJob:
    """Does what is asked for at once. A program that says `cannot_start` doesn't."""

    def __init__(self) -> None:
        self.job_id: str | None = None
        self.now: JobStatus | None = None
        self.snapshot: str | None = None
        self.checkpoint: str | None = None
        self.done: list[str] = []
        self.taken = 0
        self.savepoint_fails = False

    def state(self) -> JobStatus | None:
        return self.now

    def start(self, version: CodeVersion, snapshot: str | None) -> None:
        self.snapshot, self.checkpoint = snapshot, None
        self.job_id = f"job-{len(self.done)}"
        self.code = version.job_file.read_text()
        self.done.append(f"start {version.number} from {snapshot}")

    def await_running(self) -> Generator[None, None, PystateError | None]:
        yield
        self.now = FAILED if "cannot_start" in self.code else RUNNING
        return JobExecutionError("It does not start.") if self.now is FAILED else None

    def savepoint(self) -> Generator[None, None, str]:
        yield
        return self._take("savepoint")

    def stop(self) -> Generator[None, None, str]:
        yield
        path = self._take("stop")
        self.now = FINISHED
        return path

    def _take(self, what: str) -> str:
        if self.savepoint_fails:
            raise CheckpointFailedError("The disk is full.")
        self.taken += 1
        self.snapshot = f"s{self.taken}"
        self.done.append(f"{what} {self.snapshot}")
        return self.snapshot

    def cancel(self) -> Generator[None, None, None]:
        yield
        self.now = JobStatus.CANCELED
        self.done.append("cancel")

    def latest(self) -> str | None:
        return self.checkpoint or self.snapshot

    def failure(self) -> PystateError:
        return PystateError("ZeroDivisionError: division by zero", where=f'File "{self.place}", line 7, in f')

    def last_failure(self) -> PystateError | None:
        return self.failure()

    def keep_driver_warm(self, parallelism: int) -> None:
        self.warm = parallelism


class ScriptedChecker:
    """Finds an error in a program that says `wrong`, and the modules beside it that it names."""

    asked: list[tuple[Path, str | None]] = []

    def ask(self, program: GivenProgram, *, parallelism: int | None, allow_non_restored_state: bool) -> None:
        self.program = program
        ScriptedChecker.asked.append((program.path, program.starting))
        self.looks = 0

    def answer(self) -> dict[str, Any] | None:
        self.looks += 1
        if self.looks < 2 or "never_executes" in self.program.path.read_text():
            return None
        path = self.program.path
        wrong = "wrong" in path.read_text()
        place = f"{path}, line 3"
        error = ProgramFinding.of(PystateError("The state 'n' is of another type.", where=place), "state")
        modules = [one for one in path.parent.glob("*.py") if one != path and one.stem in path.read_text()]
        return {"findings": [error.to_plain()] if wrong else [], "modules": [str(one) for one in modules]}

    def end(self) -> None:
        pass


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


class Session:
    """A session whose screen takes the steps of a test, each when the loop has nothing to do any more."""

    def __init__(self, folder: Path, **options: Any) -> None:
        self.program = folder / "project" / "job.py"
        self.program.parent.mkdir()
        self.program.write_text("first")
        self.job = ScriptedJob()
        self.clock = Clock()
        self.lines: list[str] = []
        self.news = DevNews(program="")
        ScriptedChecker.asked = []
        self._steps: list[Callable[[], object]] = []
        self._quiet = 0
        given = GivenProgram(self.program, [], Configuration(), None)
        versions = CodeVersions(self.program, folder / "code")
        self.job.place = folder / "code" / "1" / "program" / "job.py"
        watch = FileWatch(self.program, self.clock)
        job: Any = self.job
        self.loop = DevLoop(given, 2, job, versions, watch, ScriptedChecker, self, clock=self.clock, **options)

    def run(self, *steps: Callable[[], object]) -> list[str]:
        """Run the steps, and return what was done to the job."""
        self._steps = list(steps)
        self.loop.run()
        return self.job.done

    def save(self, text: str, name: str = "job.py") -> Callable[[], object]:
        return lambda: self.program.with_name(name).write_text(text)

    def becomes(self, state: JobStatus, **changes: Any) -> Callable[[], object]:
        def change() -> None:
            self.job.now = state
            vars(self.job).update(changes)

        return change

    def show(self, news: DevNews) -> None:
        self.lines += news_lines(self.news, news)
        self.news = news

    def followed(self, job_id: str, *, from_now: bool = False) -> None:
        pass

    def wait(self, seconds: float) -> bool:
        self.clock.now += 0.3
        before = len(self.job.done), len(self.lines), len(ScriptedChecker.asked), self.news.doing
        self._quiet = self._quiet + 1 if before == getattr(self, "_before", None) else 0
        self._before = before
        if self._quiet < 8:
            return False
        self._quiet = 0
        if not self._steps:
            return True
        self._steps.pop(0)()
        return False


@pytest.fixture
def session(tmp_path):
    return Session(tmp_path)


def test_a_save_goes_on_with_the_new_code_from_a_savepoint(session):
    assert session.run(session.save("second")) == ["start 1 from None", "savepoint s1", "stop s2", "start 2 from s2"]
    assert session.job.code == "second"
    assert [snapshot for _, snapshot in ScriptedChecker.asked] == [None, "s1"]
    assert session.news.version == 2
    assert session.job.warm == 2


def test_what_does_not_fit_is_said_and_the_old_job_goes_on(session):
    assert session.run(session.save("wrong")) == ["start 1 from None", "savepoint s1"]
    assert session.lines[-3:] == [
        "project/job.py:3: error: The state 'n' is of another type.",
        "Version 2 does not run: 1 error.",
        "The job goes on with version 1.",
    ]


def test_a_syntax_error_is_said_with_its_line_and_needs_no_process(session):
    assert session.run(session.save("def f(:\n")) == ["start 1 from None"]
    assert len(ScriptedChecker.asked) == 1
    assert any(line.startswith("project/job.py:1: error: SyntaxError") for line in session.lines)


def test_errors_that_are_mended_are_forgotten(session):
    session.run(session.save("wrong"), session.save("right"))
    assert session.news.findings == ()
    assert session.job.code == "right"


def test_a_first_version_with_errors_waits_for_the_next_save(session):
    session.program.write_text("wrong")
    assert session.run(session.save("right")) == ["start 2 from None"]
    assert "Version 1 does not run: 1 error." in session.lines


def test_a_save_without_a_change_does_nothing(session):
    assert session.run(lambda: os.utime(session.program, (1, 1))) == ["start 1 from None"]
    assert session.lines[-1] == "A file was saved; the code of the job is the same."


def test_a_module_beside_the_program_counts_where_it_is_used(session):
    steps = session.save("1", "rules.py"), session.save("rules"), session.save("2", "rules.py"), session.save("x", "b.py")
    done = session.run(*steps)
    assert [line for line in done if line.startswith("start")] == ["start 1 from None", "start 3 from s2", "start 4 from s4"]


def test_a_version_that_does_not_come_to_run_is_replaced_by_the_old_one_from_the_same_savepoint(session):
    done = session.run(session.save("cannot_start"))
    assert done[-2:] == ["start 2 from s2", "start 1 from s2"]
    assert (session.job.code, session.job.now) == ("first", RUNNING)
    assert session.lines[-1] == "The job goes on with version 1."
    assert session.news.version == 1


def test_a_later_save_starts_what_then_fits_after_going_back(session):
    done = session.run(session.save("cannot_start"), session.save("third"))
    assert done[-3:] == ["savepoint s3", "stop s4", "start 3 from s4"]


def test_a_savepoint_that_fails_leaves_the_job_alone(session):
    done = session.run(session.becomes(RUNNING, savepoint_fails=True), session.save("second"))
    assert done == ["start 1 from None"]
    assert "The disk is full." in session.lines[-2]
    assert session.lines[-1] == "The job goes on with version 1."


def test_a_job_that_fails_is_shown_with_the_line_of_the_author_and_goes_on_from_its_checkpoint(session):
    done = session.run(session.becomes(FAILED, checkpoint="c7"), session.save("mended"))
    assert done == ["start 1 from None", "start 2 from c7"]
    assert any(f'File "{session.program}", line 7' in line for line in session.lines)
    assert session.news.failure == ()


def test_a_job_that_has_failed_starts_again_at_a_save_without_a_change(session):
    done = session.run(session.becomes(FAILED), lambda: os.utime(session.program, (1, 1)))
    assert done == ["start 1 from None", "start 2 from None"]


def test_a_job_that_restarts_is_cancelled_and_goes_on_from_its_checkpoint(session):
    done = session.run(session.becomes(JobStatus.RESTARTING, checkpoint="c7"), session.save("mended"))
    assert done == ["start 1 from None", "cancel", "start 2 from c7"]


def test_a_job_that_has_finished_waits_for_a_save_and_goes_on_from_the_last_savepoint(session):
    done = session.run(session.save("second"), session.becomes(FINISHED, checkpoint="gone"), session.save("third"))
    assert done[-1] == "start 3 from s2"
    assert "The job has finished." in session.lines


def test_a_job_that_has_finished_starts_anew_where_that_is_asked_for(tmp_path):
    session = Session(tmp_path, from_start=True)
    done = session.run(session.save("second"), session.becomes(FINISHED), session.save("third"))
    assert done[-1] == "start 3 from None"


def test_what_could_not_start_is_forgotten_and_its_snapshot_is_not(session):
    done = session.run(session.becomes(FAILED, checkpoint="c7"), session.save("cannot_start"), session.save("third"))
    assert done == ["start 1 from None", "start 2 from c7", "start 3 from c7"]


def test_a_save_during_the_work_for_another_one_comes_next(session):
    during = iter([session.save("third")])
    stop = session.job.stop

    def stop_and_save() -> Generator[None, None, str]:
        next(during, lambda: None)()
        return (yield from stop())

    session.job.stop = stop_and_save
    done = session.run(session.save("second"))
    assert [line for line in done if line.startswith("start")] == ["start 1 from None", "start 2 from s2", "start 3 from s4"]
    assert session.job.code == "third"


def test_a_program_that_vanishes_for_a_moment_is_no_save(session):
    done = session.run(session.program.unlink, session.save("first"))
    assert done == ["start 1 from None"]


def test_a_program_that_is_deleted_is_told_of_once_and_the_job_goes_on(session):
    done = session.run(session.program.unlink, session.save("1", "other.py"), session.save("second"))
    assert session.lines.count(f"{session.program} is gone: put it back, and the session goes on with it.") == 1
    assert session.lines[1:3][-1] == "The job goes on with version 1."
    assert done == ["start 1 from None", "savepoint s1", "stop s2", "start 2 from s2"]


def test_a_save_ends_the_look_at_a_program_that_never_comes_to_its_execute(session):
    done = session.run(session.save("never_executes"), session.save("third"))
    assert done == ["start 1 from None", "savepoint s1", "savepoint s2", "stop s3", "start 3 from s3"]
    assert "The program was saved again while it was checked." in session.lines


def test_a_check_that_has_no_room_is_told_and_the_job_goes_on(session):
    def refused(**_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device", "/tmp/x")

    def fill() -> None:
        session.loop._checker.ask = lambda program, **more: refused(**more)
        session.program.write_text("second")

    assert session.run(fill, session.save("third"))[-1] == "start 3 from s3"
    assert any("The program can't be checked: No space left on device." in line for line in session.lines)


class Left:
    """The job of a session that was killed."""

    job_id = "job-left"

    def __init__(self, folder: Path) -> None:
        folder.mkdir()
        job_file = folder / "job.py"
        job_file.write_text("left")
        self.version = CodeVersion(0, folder, [], job_file)


def test_a_job_that_was_left_behind_is_replaced_from_its_state(tmp_path):
    session = Session(tmp_path, left=Left(tmp_path / "left"))
    session.job.now = RUNNING
    assert session.run() == ["savepoint s1", "stop s2", "start 1 from s2"]
    assert session.job.code == "first"


def test_a_job_that_was_left_behind_goes_on_where_the_program_does_not_fit_it(tmp_path):
    session = Session(tmp_path, left=Left(tmp_path / "left"))
    session.job.now = RUNNING
    session.program.write_text("wrong")
    assert session.run() == ["savepoint s1"]
    assert session.lines[-1] == "The job goes on with the code it was started with."


def test_a_job_that_was_left_behind_is_gone_back_to(tmp_path):
    session = Session(tmp_path, left=Left(tmp_path / "left"))
    session.job.now = RUNNING
    session.program.write_text("cannot_start")
    assert session.run()[-2:] == ["start 1 from s2", "start 0 from s2"]
    assert session.job.code == "left"
