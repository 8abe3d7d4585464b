"""The loop of `pystate dev`: at each save the program is checked, and its job goes on with the new code or with the old."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Generator
from dataclasses import replace
from pathlib import Path
from typing import Any, Protocol

from pystate.common.configuration.configuration import Configuration
from pystate.common.errors import JobGraphError, PystateError
from pystate.common.job_status import JobStatus
from pystate.common.program_finding import ProgramFinding, Severity
from pystate_cli.dev.code_versions import CodeVersion, CodeVersions
from pystate_cli.dev.decisions import Situation, Step, decide
from pystate_cli.dev.dev_job import DevJob, Waiting, with_copies
from pystate_cli.dev.file_watch import FileWatch
from pystate_cli.dev.left_jobs import LeftJob
from pystate_cli.programs.given_program import GivenProgram, check_program
from pystate_cli.views.dev_view import DevNews

_PAUSE_SECONDS = 0.03
_LOOK_SECONDS = 0.5
_SAVEPOINT, _CHECK, _STOP, _START = "savepoint", "check", "stop", "start"


class _SavedAgainError(Exception):
    """The program was saved while it was looked at: what was saved first is of no interest any more."""


class Checker(Protocol):
    """A process that is asked about one program."""

    def ask(self, program: GivenProgram, *, parallelism: int | None, allow_non_restored_state: bool) -> None:
        """Have it look at a program."""

    def answer(self) -> dict[str, Any] | None:
        """Return what it has found; None before that."""

    def end(self) -> None:
        """End it."""


class Screen(Protocol):
    """Where a session is shown."""

    def show(self, news: DevNews) -> None:
        """Show what has changed."""

    def followed(self, job_id: str, *, from_now: bool = False) -> None:
        """Follow the figures of this job, and its output from its beginning or from now on."""

    def wait(self, seconds: float) -> bool:
        """Wait, and return whether somebody wants to end the session."""


class DevLoop:
    """Runs a program's job, and goes on with the new code at each save.

    Args:
        program: The program.
        parallelism: The value of -p.
        job: Its job.
        versions: The copies of its code.
        watch: Its files.
        checker: Starts a process that checks one version.
        screen: Shows what happens.
        from_start: Whether a job that has finished starts over at the next save.
        allow_non_restored_state: Whether new code may leave state behind.
        left: The job of a session that was killed, which this one goes on with.
        clock: Returns seconds of a monotonic clock.
    """

    def __init__(
        self,
        program: GivenProgram,
        parallelism: int,
        job: DevJob,
        versions: CodeVersions,
        watch: FileWatch,
        checker: Callable[[], Checker],
        screen: Screen,
        *,
        from_start: bool = False,
        allow_non_restored_state: bool = False,
        left: LeftJob | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._program = program
        self._parallelism = parallelism
        self._job = job
        self._versions = versions
        self._watch = watch
        self._new_checker = checker
        self._checker: Checker | None = None
        self._screen = screen
        self._from_start = from_start
        self._allow_non_restored_state = allow_non_restored_state
        self._clock = clock
        self._running = None if left is None else left.version
        self._left = left
        self._submitted: CodeVersion | None = None
        self._told_state: JobStatus | None = None
        self._next_look = 0.0
        self._was_saved_again = False
        self._news = DevNews(program=program.path.name)

    def run(self) -> None:
        """Run until somebody wants to end the session."""
        if self._left is not None:
            self._screen.followed(self._left.job_id, from_now=True)
        self._prepare_checker()
        work: Waiting | None = self._taken()
        try:
            while True:
                if work is None and (self._was_saved_again or self._watch.saved()):
                    self._was_saved_again = False
                    work = self._taken()
                if work is not None:
                    try:
                        next(work)
                    except StopIteration:
                        work = None
                else:
                    self._look()
                if self._screen.wait(_PAUSE_SECONDS):
                    return
        finally:
            if self._checker is not None:
                self._checker.end()

    # -- a save

    def _taken(self) -> Waiting:
        """Do what a save leads to."""
        parts: dict[str, float] = {}
        begun = self._clock()
        try:
            version = self._versions.take(self._watch.files)
            if self._is_same(version):
                self._tell("A file was saved; the code of the job is the same.")
                return
            self._say("looking at the new code")
            if (yield from self._applied(version, parts)):
                took = ", ".join(f"{name} {seconds:.1f} s" for name, seconds in parts.items())
                self._news = replace(self._news, took=self._clock() - begun, parts=took)
                self._tell(f"Version {version.number} runs after {self._clock() - begun:.1f} s: {took}.")
        except _SavedAgainError:
            self._was_saved_again = True
            self._tell("The program was saved again while it was checked.")
        except PystateError as error:
            self._show_error(error)
            self._say_what_goes_on()
        finally:
            self._versions.keep([self._running, self._submitted])
            self._prepare_checker()

    def _prepare_checker(self) -> None:
        if self._checker is None:
            with contextlib.suppress(OSError):  # no room for its files: the next check tells
                self._checker = self._new_checker()

    def _is_same(self, version: CodeVersion) -> bool:
        running = self._running
        if running is None or running.used is None or not running.used <= version.files:
            return False
        state = self._job.state()
        same = replace(version, used=running.used).digest == running.digest
        return same and state is not None and not state.is_terminal

    def _applied(self, version: CodeVersion, parts: dict[str, float]) -> Generator[None, None, bool]:
        """Check a version, and run it if it fits; return whether it runs."""
        snapshot = None
        findings = self._compiled(version)
        if not findings:
            with self._measured(parts, _SAVEPOINT):
                snapshot = yield from self._snapshot()
            with self._measured(parts, _CHECK):
                self._say("checking the new code")
                findings = yield from self._checked(version, snapshot)
        errors = [one for one in findings if one.severity is Severity.ERROR]
        self._news = replace(self._news, findings=tuple(findings), failure=(), saved=time.time())
        self._screen.show(self._news)
        known = Situation(
            fits=not errors,
            state=self._job.state(),  # it may have ended meanwhile
            snapshot=snapshot,
            from_start=self._from_start,
        )
        decision = decide(known)
        if decision.step in (Step.KEEP, Step.WAIT):
            self._tell(f"Version {version.number} does not run: {len(errors)} error{'s' if len(errors) > 1 else ''}.")
            self._say_what_goes_on()
            return False
        snapshot = decision.snapshot
        with self._measured(parts, _STOP):
            if decision.step is Step.REPLACE:
                self._say("stopping the job with a savepoint")
                snapshot = yield from self._job.stop()
            elif decision.step is Step.RESTART:
                yield from self._job.cancel()
                snapshot = self._job.latest()
        with self._measured(parts, _START):
            failure = yield from self._started(version, snapshot)
        if failure is None:
            return True
        self._show_error(failure)
        if decision.step is Step.REPLACE and self._running is not None:
            self._tell(f"Version {version.number} does not run. Going back to {self._running.title}.")
            failure = yield from self._started(self._running, snapshot)
            if failure is not None:
                self._show_error(failure)
        self._say_what_goes_on()
        return False

    def _started(self, version: CodeVersion, snapshot: str | None) -> Generator[None, None, PystateError | None]:
        self._say(f"starting {version.title}")
        self._submitted = version
        self._job.start(version, snapshot)
        assert self._job.job_id is not None  # noqa: S101 - it was started
        self._told_state = None
        self._screen.followed(self._job.job_id)
        failure = yield from self._job.await_running()
        if failure is None:
            self._running = version
            self._news = replace(self._news, version=version.number)
            self._say("")
        return failure

    def _compiled(self, version: CodeVersion) -> list[ProgramFinding]:
        try:
            check_program(version.job_file)
        except PystateError as error:
            return [self._as_written(ProgramFinding.of(error, "program"))]
        return []

    def _snapshot(self) -> Generator[None, None, str | None]:
        """Return what the new code has to fit, and starts from if the job can't be stopped with a savepoint."""
        state = self._job.state()
        if state is JobStatus.RUNNING:
            self._say("taking a savepoint, for a dry run")
            return (yield from self._job.savepoint())
        if state is JobStatus.FINISHED:  # at its last checkpoint there is nothing left to read
            return None if self._from_start else self._job.snapshot
        return self._job.latest()

    def _checked(self, version: CodeVersion, snapshot: str | None) -> Generator[None, None, list[ProgramFinding]]:
        """Return what is wrong with a version, and whether it fits a snapshot."""
        settings = Configuration(with_copies(self._program.configuration.to_dict(), version))
        program = replace(self._program, path=version.job_file, starting=snapshot, configuration=settings)
        try:
            checker = self._checker or self._new_checker()
            self._checker = None
            try:
                checker.ask(program, parallelism=self._parallelism, allow_non_restored_state=self._allow_non_restored_state)
                while (answer := checker.answer()) is None:
                    if self._watch.saved():  # the program may never come to its execute()
                        raise _SavedAgainError
                    yield
            finally:
                checker.end()
        except OSError as error:
            failed = JobGraphError(f"The program can't be checked: {error.strerror or error}.", where=error.filename)
            return [ProgramFinding.of(failed, "program")]
        except PystateError as error:
            return [self._as_written(ProgramFinding.of(error, "program"))]
        used = self._versions.include(version, [Path(file) for file in answer["modules"]])
        self._watch.watch(used)
        return [self._as_written(ProgramFinding.from_plain(one)) for one in answer["findings"]]

    # -- between saves

    def _look(self) -> None:
        now = self._clock()
        if now < self._next_look:
            return
        self._next_look = now + _LOOK_SECONDS
        if self._watch.deleted():
            self._tell(f"{self._program.path} is gone: put it back, and the session goes on with it.")
            self._say_what_goes_on()
        state = self._job.state()
        if state is JobStatus.RUNNING:
            self._job.keep_driver_warm(self._parallelism)
        if state is self._told_state:
            return
        self._told_state = state
        if state is JobStatus.FAILED:
            self._show_error(self._job.failure())
            self._tell("The job has failed.")
            self._say("the next save starts it from its last state")
        elif state is JobStatus.FINISHED:
            where = "from its beginning" if self._from_start or self._job.snapshot is None else "from the last savepoint"
            self._tell("The job has finished.")
            self._say(f"the next save starts it {where}")
        elif state is JobStatus.CANCELED:
            self._tell("Somebody has cancelled the job.")
            self._say("the next save starts it from its last state")
        elif state is JobStatus.RESTARTING:
            failure = self._job.last_failure()
            if failure is not None:
                self._show_error(failure)

    def _say_what_goes_on(self) -> None:
        state = self._job.state()
        if state is not None and not state.is_terminal and self._running is not None:
            self._tell(f"The job goes on with {self._running.title}.")
            self._say("")
        else:
            self._tell("No job runs.")
            self._say("the next save starts it")

    # -- what is shown

    def _tell(self, sentence: str) -> None:
        self._news = replace(self._news, told=(*self._news.told, sentence))
        self._screen.show(self._news)

    def _say(self, doing: str) -> None:
        self._news = replace(self._news, doing=doing)
        self._screen.show(self._news)

    def _show_error(self, error: PystateError) -> None:
        self._news = replace(self._news, failure=tuple(self._versions.as_written(str(error)).splitlines()))
        self._screen.show(self._news)

    def _as_written(self, finding: ProgramFinding) -> ProgramFinding:
        written = self._versions.as_written
        return replace(
            finding,
            message=written(finding.message),
            where=None if finding.where is None else written(finding.where),
            hint=None if finding.hint is None else written(finding.hint),
            file=None if finding.file is None else written(finding.file),
        )

    def _measured(self, parts: dict[str, float], name: str) -> _Measured:
        return _Measured(self._clock, parts, name)


class _Measured:
    """Measures a part of what a save leads to."""

    def __init__(self, clock: Callable[[], float], parts: dict[str, float], name: str) -> None:
        self._clock, self._parts, self._name = clock, parts, name

    def __enter__(self) -> None:
        self._begun = self._clock()

    def __exit__(self, *_: object) -> None:
        self._parts[self._name] = self._clock() - self._begun
