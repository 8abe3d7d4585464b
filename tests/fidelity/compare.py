"""`make fidelity`: runs every program in a real PyFlink and here, and prints which of them answer the same.

Ends with 1 where an answer differs and nobody has said why (`differences.py`), and where PyFlink hasn't answered at all.
What has been recorded (`pyflink.json`) stays as it is unless `--record` is given.
"""

from __future__ import annotations

import argparse
import json
import signal
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TextIO

from tests.fidelity.answers import Program, load_programs
from tests.fidelity.asking import ask_pyflink
from tests.fidelity.differences import DIFFERENCES, PENDING
from tests.fidelity.in_process import ALL
from tests.fidelity.ours import ask
from tests.fidelity.recorded import IN_ONE_EPOCH, of_program

HERE = Path(__file__).parent
RECORD = HERE / "pyflink.json"

Answers = dict[str, dict[str, int]]


@dataclass(frozen=True)
class Row:
    """What the table says of a program in one mode, at some parallelisms.

    Attributes:
        program: Its name.
        mode: STREAMING or BATCH.
        parallelisms: Those for which this holds.
        verdict: "equal", "known: ..." with the words that its row in docs/time.md or docs/pyflink.md begins with, or
            "DIFFERENT: ..." with what is otherwise.
    """

    program: str
    mode: str
    parallelisms: tuple[int, ...]
    verdict: str

    @property
    def is_right(self) -> bool:
        """Whether this is as it has to be."""
        return not self.verdict.startswith("DIFFERENT")


def verdict(there: Answers, here: Answers) -> str:
    """Return what a row says, given what PyFlink and pystate have answered."""
    if not there:
        return "DIFFERENT: PyFlink has given no answer"
    known = sorted({DIFFERENCES[label].topic for label in there if label in DIFFERENCES and there[label] != here.get(label)})
    for label in sorted(there | here):
        found, asked = here.get(label, {}), there.get(label, {})
        try:
            wanted = DIFFERENCES[label].expected(asked) if label in DIFFERENCES else asked
        except AssertionError as error:
            return f"DIFFERENT: {label}: {error}"
        if found != wanted:
            missing = {element: count for element, count in wanted.items() if found.get(element) != count}
            more = {element: count for element, count in found.items() if wanted.get(element) != count}
            return f"DIFFERENT: {label}: missing {missing}, unexpected {more}"
    return f"known: {'; '.join(known)}" if known else "equal"


def compared(recorded: dict[str, Any], programs: Iterable[Program], tell: Callable[[str], None]) -> Iterator[Row]:
    """Run programs here, and compare them with what PyFlink has answered."""
    for program in programs:
        for mode in ("STREAMING", "BATCH") if program.batch else ("STREAMING",):
            rows: dict[str, list[int]] = {}
            for parallelism in program.parallelisms:
                tell(f"pystate: {program.name}, {mode} at {parallelism}")
                there = of_program(recorded, program, mode, parallelism)
                rows.setdefault(_verdict(program, there, parallelism, mode), []).append(parallelism)
            for text, parallelisms in rows.items():
                yield Row(program.name, mode, tuple(parallelisms), text)


def _verdict(program: Program, there: Answers, parallelism: int, mode: str) -> str:
    if program.name in PENDING:
        return f"known: {PENDING[program.name]}"
    try:
        here = ask(program, parallelism, 1 if program.paced else ALL, mode)
    except Exception as error:  # one program that fails is a row, and no end of all
        return f"DIFFERENT: fails here: {error}"
    return verdict(there, here)


def print_table(rows: list[Row], out: TextIO) -> None:
    """Print a line for each row, and how many there are of each kind."""
    name = max([len("program"), *(len(row.program) for row in rows)])
    print(f"{'program':{name}}  mode       P     pystate beside PyFlink", file=out)
    for row in rows:
        print(f"{row.program:{name}}  {row.mode:9}  {','.join(map(str, row.parallelisms)):4}  {row.verdict}", file=out)
    runs = {kind: sum(len(row.parallelisms) for row in rows if row.verdict.startswith(kind)) for kind in _KINDS}
    print(f"\n{', '.join(f'{count} {_KINDS[kind]}' for kind, count in runs.items())}", file=out)


_KINDS = {
    "equal": "equal",
    "known": "different as docs/time.md and docs/pyflink.md say",
    "DIFFERENT": "DIFFERENT",
}


class Progress:
    """One line that changes on a terminal, a line for each step elsewhere."""

    def __init__(self, out: TextIO) -> None:
        self._out = out
        self._on_terminal = out.isatty()
        self._started = time.monotonic()

    def small_step(self, text: str) -> None:
        """Show what is under way, on a terminal only."""
        if self._on_terminal:
            self._out.write(f"\r\033[K{time.monotonic() - self._started:4.0f} s  {text}")
            self._out.flush()

    def step(self, text: str) -> None:
        """Show what is under way."""
        if self._on_terminal:
            self.small_step(text)
        else:
            print(f"{time.monotonic() - self._started:4.0f} s  {text}", file=self._out, flush=True)

    def end(self) -> None:
        """Take the line away."""
        if self._on_terminal:
            self._out.write("\r\033[K")
            self._out.flush()


def record(answers: Path, programs: list[Program]) -> None:
    """Keep what PyFlink has answered, and what paced programs answer here in one epoch."""
    RECORD.write_text(answers.read_text("utf-8"), "utf-8")
    in_one_epoch: Answers = {}
    for program in programs:
        if program.paced:
            in_one_epoch.update(ask(program, 1))
    IN_ONE_EPOCH.write_text(json.dumps(in_one_epoch, indent=1, sort_keys=True) + "\n", "utf-8")


def main(arguments: list[str] | None = None) -> int:
    """Ask, compare, print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pyflink", type=Path, required=True, help="the Python that has PyFlink")
    parser.add_argument("--answers", type=Path, required=True, help="the file that PyFlink's answers go to")
    parser.add_argument("--only", action="append", default=[], help="programs whose names have this in them")
    parser.add_argument("--record", action="store_true", help=f"keep the answers in {RECORD.name}")
    options = parser.parse_args(arguments)
    if options.record and options.only:
        parser.error("--record needs all programs: the record is one answer of one PyFlink")
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))  # PyFlink's process ends, too
    programs = load_programs("pystate", options.only or [""])
    progress = Progress(sys.stderr)
    ask_pyflink(options.pyflink, options.answers, programs, progress.step)
    recorded = json.loads(options.answers.read_text("utf-8"))
    progress.step(f"pystate: {len(programs)} programs")
    rows = list(compared(recorded, programs, progress.small_step))
    if options.record:
        record(options.answers, programs)
    progress.end()
    print_table(rows, sys.stdout)
    return 0 if all(row.is_right for row in rows) else 1


if __name__ == "__main__":
    sys.exit(main())
