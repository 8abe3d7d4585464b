"""Has PyFlink run the programs, a few of them in each process, one process after the other.

A job leaves threads behind, in Python and in its JVM: all programs in one process were 3,386 of them on two cores. What a
process has answered is kept at once, so that a run that is interrupted goes on where it stopped.
"""

from __future__ import annotations

import contextlib
import datetime
import hashlib
import json
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TextIO

from tests.fidelity.answers import PROGRAMS, Program

SUBTASKS_PER_PROCESS = 12
"""The programs of a process times their parallelism, at most: with more, more share a JVM, and there are more threads."""
SECONDS_PER_PROCESS = 600
"""A process that takes longer has hung: the longest took a sixth of it on two busy cores."""
HERE = Path(__file__).parent
ASKS = HERE / "ask_pyflink.py"

Answers = dict[str, dict[str, int]]


@dataclass(frozen=True)
class Job:
    """The programs of a process: one job of Flink's runs them all.

    Attributes:
        mode: STREAMING or BATCH.
        parallelism: Of all steps.
        paced: Whether they sleep between elements.
        programs: Their names.
    """

    mode: str
    parallelism: int
    paced: bool
    programs: tuple[str, ...]

    def __str__(self) -> str:
        more = " ..." if len(self.programs) > 1 else ""
        return f"{self.mode} at {self.parallelism}: {len(self.programs)} programs, {self.programs[0]}{more}"

    @property
    def where(self) -> str:
        """What its answers stand under."""
        return f"{self.mode} {self.parallelism}"

    def halves(self) -> tuple[Job, Job]:
        """Return two jobs that have its programs between them."""
        half = len(self.programs) // 2
        first, second = self.programs[:half], self.programs[half:]
        return Job(self.mode, self.parallelism, self.paced, first), Job(self.mode, self.parallelism, self.paced, second)


def jobs(programs: Iterable[Program], is_known: Callable[[str, str], bool]) -> Iterator[Job]:
    """Return what there is to ask, but for programs that are known: given "STREAMING 1" and a name."""
    programs = list(programs)
    for mode in ("STREAMING", "BATCH"):
        for parallelism in (1, 2):
            for paced in (False, True):
                names = [
                    one.name
                    for one in programs
                    if parallelism in one.parallelisms
                    and one.paced == paced
                    and (one.batch or mode == "STREAMING")
                    and not is_known(f"{mode} {parallelism}", one.name)
                ]
                largest = SUBTASKS_PER_PROCESS // parallelism
                for first in range(0, len(names), largest):
                    yield Job(mode, parallelism, paced, tuple(names[first : first + largest]))


class Unfinished:
    """The answers that have come, in a file that the next run goes on with; `finish` makes it the whole answer."""

    def __init__(self, answers: Path) -> None:
        self._answers = answers
        self._path = answers.with_suffix(".unfinished.json")
        self._found: dict[str, Any] = {"answers": {}, "asked": {}}
        with contextlib.suppress(FileNotFoundError):
            self._found = json.loads(self._path.read_text("utf-8"))

    def is_known(self, where: str, program: str) -> bool:
        """Return whether a program has answered as it now is."""
        return self._found["asked"].get(where, {}).get(program) == _fingerprint(program)

    def add(self, job: Job, found: dict[str, Any]) -> set[str]:
        """Keep what a process has answered, and return the programs that have."""
        given: Answers = found["answers"]
        names = {label.partition(":")[0] for label in given}
        kept = self._found["answers"].setdefault(job.where, {})
        for label in [label for label in kept if label.partition(":")[0] in names]:
            del kept[label]
        kept.update(given)
        self._found["asked"].setdefault(job.where, {}).update({name: _fingerprint(name) for name in names})
        self._found["versions"] = found["versions"]
        _write(self._path, self._found)
        return names

    def finish(self, programs: Iterable[Program]) -> None:
        """Write the answers of programs as the whole answer, each where it is asked of."""
        asked: dict[str, set[str]] = {}
        for job in jobs(programs, lambda *_: False):
            asked.setdefault(job.where, set()).update(job.programs)
        answers = {
            where: {label: answer for label, answer in given.items() if label.partition(":")[0] in asked.get(where, ())}
            for where, given in self._found["answers"].items()
        }
        today = datetime.datetime.now(datetime.timezone.utc).date().isoformat()
        _write(self._answers, {"answers": answers, "date": today, "versions": self._found.get("versions", {})})
        self._path.unlink(missing_ok=True)


def ask_pyflink(python: Path, answers: Path, programs: list[Program], tell: Callable[[str], None]) -> None:
    """Have PyFlink run programs; what it prints is in a file beside the answers.

    A job that fails, or hangs, is asked again in halves, so that a program that PyFlink can't run is alone at last, and has
    no answer.

    Raises:
        SystemExit: Nothing at all has answered of the first job that was asked.
    """
    answers.unlink(missing_ok=True)
    unfinished = Unfinished(answers)
    asked = list(jobs(programs, unfinished.is_known))
    log = answers.with_suffix(".log")
    with log.open("w", encoding="utf-8") as beside:
        for number, job in enumerate(asked, 1):
            tell(f"PyFlink: process {number} of {len(asked)}, {job}")
            if not _ask_in_parts(python, job, unfinished, beside) and number == 1:
                sys.exit(f"PyFlink has answered nothing of its first job, {job}: see {log}")
    unfinished.finish(programs)


def _ask_in_parts(python: Path, job: Job, unfinished: Unfinished, beside: TextIO) -> set[str]:
    """Return the programs that have answered."""
    found = _ask(python, job, beside)
    if found is not None:
        return unfinished.add(job, found)
    if len(job.programs) == 1:
        return set()
    return {name for part in job.halves() for name in _ask_in_parts(python, part, unfinished, beside)}


def _ask(python: Path, job: Job, beside: TextIO) -> dict[str, Any] | None:
    """Run a job in a process of its own, and return what it answers; None where it fails or hangs."""
    with tempfile.TemporaryDirectory(prefix="fidelity-") as folder:
        output = Path(folder, "answers.json")
        words = [str(python), str(ASKS), str(output), job.mode, str(job.parallelism), "paced" if job.paced else "at once"]
        print(f"--- {job}", file=beside, flush=True)
        with subprocess.Popen([*words, *job.programs], stdout=beside, stderr=beside, start_new_session=True) as process:
            try:
                code: int | None = process.wait(SECONDS_PER_PROCESS)
            except subprocess.TimeoutExpired:
                code = None
            finally:  # a JVM or workers that are left, too
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(process.pid, signal.SIGKILL)
        if code == 0:
            found: dict[str, Any] = json.loads(output.read_text("utf-8"))
            return found
        said = f"has hung for {SECONDS_PER_PROCESS} s" if code is None else f"has failed ({code})"
        print(f"--- {job}: {said}", file=beside, flush=True)
        return None


def _fingerprint(program: str) -> str:
    """Return what an answer depends on, as a short text."""
    files = (PROGRAMS / f"{program.partition('.')[0]}.py", HERE / "answers.py", ASKS)
    texts = [path.read_bytes() for path in files]
    return hashlib.sha256(b"".join([*texts, os.environ.get("FIDELITY_SEEDS", "").encode()])).hexdigest()[:16]


def _write(path: Path, found: dict[str, Any]) -> None:
    """Write a file that is there whole or not at all."""
    new = path.with_suffix(".new")
    new.write_text(json.dumps(found, indent=1, sort_keys=True) + "\n", "utf-8")
    new.replace(path)
