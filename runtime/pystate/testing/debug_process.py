"""Replays one record in an operator of a program, under pdb or not, and writes it as a test.

Run as `python -m pystate.testing.debug_process REQUEST`, a JSON file, in the terminal of the user who debugs.
"""

from __future__ import annotations

import bdb
import dis
import inspect
import json
import os
import pdb
import pickle
import sys
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FunctionType, TracebackType
from typing import Any

import pyarrow as pa

from pystate.common.configuration.configuration import Configuration
from pystate.common.configuration.groups.pystate_options import PystateOptions
from pystate.common.errors import JobGraphError, PystateError, UsageError, UserFunctionError
from pystate.common.files.home import read_json
from pystate.common.files.job_files import replace_file
from pystate.common.processes.standard_streams import reader_is_gone, run_for_readers
from pystate.common.user_code.program_classes import pickled
from pystate.common.user_code.user_errors import error_sentence
from pystate.common.user_code.user_frames import is_library
from pystate.runtime.driver.program.submitted_program import program_place, submitted_configuration
from pystate.runtime.job_folder.failing_record import FailingRecord, RecordOutcome, read_failing_record
from pystate.runtime.plan.chain import function_object
from pystate.testing.program_harness import Program, ProgramHarness

WRITTEN = '"""Written by pystate debug: one record in one operator of the job."""'
"""The first line of a test."""
_CALLED = (
    "process_element",
    "process_element1",
    "process_element2",
    "process_broadcast_element",
    "process_batch",
    "map",
    "map1",
    "map2",
    "flat_map",
    "flat_map1",
    "flat_map2",
    "filter",
    "reduce",
    "add",
    "process",
    "apply",
    "__call__",
)
"""Methods that are called with elements, and with what windows hold."""


class _Debugger(pdb.Pdb):
    """pdb that runs up to the first breakpoint."""

    def run_to_breakpoint(self, harness: ProgramHarness, *call: Any, **named: Any) -> None:
        """Process the record."""
        self.rcLines.append("continue")  # it would stop in the harness
        self.runcall(harness.process, *call, **named)


def breakpoints(function: Any) -> Iterator[tuple[str, int]]:
    """Yield (file, line) of the first statement of each method of the program that is called with elements."""
    found = function_object(function)
    owner = found if isinstance(found, FunctionType) else type(found)
    methods = [owner] if isinstance(owner, FunctionType) else [inspect.getattr_static(owner, name, None) for name in _CALLED]
    for method in methods:
        code = getattr(method, "__code__", None)
        if code is None or is_library(code.co_filename):
            continue
        lines = sorted({line for _, line in dis.findlinestarts(code) if line is not None})
        inner = [line for line in lines if line > code.co_firstlineno]
        yield code.co_filename, inner[0] if inner else code.co_firstlineno


def replay(request: dict[str, Any]) -> int:
    """Process the record of a request, and print what comes of it.

    Returns:
        0 if the function takes the record, 1 if it raises.

    Raises:
        PystateError: The program, the operator, the state or the record can't be used.
    """
    configuration = submitted_configuration(request["configuration"], None, None, allow_non_restored_state=False)
    program = _program(Path(request["job_file"]), list(request["arguments"]), configuration)
    answer = _Answer(as_json=request["json"])
    if request["failure"] is not None:
        kept = read_failing_record(Path(request["failure"]))
        if kept.outcome is not RecordOutcome.KEPT:
            message = f"{kept.error}, in {kept.operator!r}. There is nothing to replay: {kept.not_kept}"
            hint = "give a record with --record"
            if kept.outcome is RecordOutcome.TOO_LARGE:
                hint = f"start the job with a larger {PystateOptions.FAILING_RECORD_SIZE.key}, or {hint}"
            raise UsageError(message, where=request["failure"], hint=hint)
        failed = FailedRecords(program, kept, request["savepoint_path"])
        with _told(request, f"what comes before the record in {kept.operator!r}: open(), state, other records"):
            failed.find(answer)
            harness, (element, timestamp, number) = failed.harness_before()
        # so a test may be written of it
        request = {**request, "operator": harness.uid, "timestamp": timestamp, "input": number, "record": repr(element)}
    else:
        element, number = program.value(request["record"]), int(request["input"])
        of_key = element if number == 1 else None
        with _told(request, "what comes before the record: open(), state"):
            harness = program.harness(request["operator"], request["savepoint_path"], key_of=of_key)
    with harness:
        return _replay(request, program, harness, element, answer)


def _program(job_file: Path, arguments: list[str], configuration: Configuration) -> Program:
    try:
        return Program(job_file, arguments, configuration)
    except PystateError:
        raise
    except Exception as error:  # whatever the program raises
        hint = "the program is executed up to its execute(), as it is now"
        raise JobGraphError(error_sentence(error), where=program_place(error, job_file), hint=hint) from error


@contextmanager
def _told(request: dict[str, Any], place: str) -> Iterator[None]:
    """Show where the program fails before the record is there to be processed; under the debugger stop there."""
    try:
        yield
    except PystateError:
        raise
    except Exception as error:
        _show(error, _Debugger() if request["debugger"] else None)
        hint = "code of the program has changed or gone since" if isinstance(error, AttributeError | ImportError) else None
        raise UserFunctionError(error_sentence(error), where=place, hint=hint) from error


def _show(error: Exception, debugger: _Debugger | None) -> None:
    sys.stdout.flush()
    traceback.print_exception(type(error), error, _own_trace(error))
    if debugger is not None and error.__traceback__ is not None:
        debugger.reset()
        debugger.interaction(None, error.__traceback__)


def _replay(request: dict[str, Any], program: Program, harness: ProgramHarness, element: Any, answer: _Answer) -> int:
    number = int(request["input"])
    key, keyed = harness.key_of(element, number), harness.has_key(number)
    # copies: what the function changes in place has changed in the harness, too
    before = pickle.loads(pickled(harness.get_keyed_state(key))) if keyed else {}  # noqa: S301 - ours
    broadcast = pickle.loads(pickled(harness.get_broadcast_state()))  # noqa: S301 - ours
    reads_back = request["failure"] is None or _reads_back(element, program)
    if keyed:
        answer.add("key", repr(key))
    answer.add("record", repr(element))
    if request["timestamp"] is not None:
        answer.add("timestamp", str(request["timestamp"]))
    answer.add_all("state", [f"{name} = {value!r}" for name, value in before.items()])
    if broadcast:
        answer.add_all("broadcast", [f"{name} = {value!r}" for name, value in broadcast.items()])
    harness.clear_output()
    error = _processed(harness, request, element)
    results = [] if error is not None else harness.extract_output()
    if error is None:
        answer.add_all("result", [repr(result) for result in results])
        after = harness.get_keyed_state(key) if keyed else {}
        answer.add_all("state after", [f"{name} = {value!r}" for name, value in after.items()])
    else:
        answer.add("raised", error_sentence(error))
    answer.end()
    if request["as_test"] is not None:
        if not reads_back:
            message = "Python doesn't read the record back from its text, so no test can be written of it."
            raise UsageError(message, where=repr(element), hint="give its class a __repr__ that makes it, and an __eq__")
        named = {**request, "operator": request["operator"] or harness.uid}
        test = harness_test(named, key, before, results, error, program, broadcast)
        try:
            replace_file(Path(request["as_test"]), test.encode(), mode=0o666)  # less the umask
        except OSError as failed:
            message = f"The test can't be written: {failed.strerror}."
            raise UsageError(message, where=request["as_test"]) from failed
    return int(error is not None)


class FailedRecords:
    """The records of an epoch up to the one at which a function failed, and the state of their key before them.

    Args:
        program: The job's program, as it is now.
        failed: What the job has kept.
        savepoint: A snapshot, to take the state from it instead; None for the kept one.
    """

    def __init__(self, program: Program, failed: FailingRecord, savepoint: str | None) -> None:
        self._program = program
        self._failed = failed
        self._savepoint = savepoint
        self._count = 0

    def find(self, answer: _Answer) -> None:
        """Look for the first record at which the function raises; it is the last one if none does."""
        failed = self._failed
        answer.add("failed", f"{failed.error}, in {failed.operator!r}, subtask {failed.subtask}, attempt {failed.attempt}")
        if not failed.whole:
            answer.add("note", "the epoch had more records before, which were not kept: the state may be another one")
        if failed.key is not None and failed.state is None and self._savepoint is None:
            why = f"could not be kept, of {failed.lost}" if failed.lost else "was too large to be kept"
            answer.add("note", f"the state of the key {why}: -s takes it from a snapshot")
        with self._harness() as harness:
            for number, (element, timestamp, of_input) in enumerate(self._records(harness)):
                self._count = number
                try:
                    harness.process(element, timestamp, input_number=of_input)
                    harness.extract_output()
                except Exception as error:
                    raised = error_sentence(error)
                    if raised.partition(":")[0] != failed.error.partition(":")[0]:
                        answer.add("note", "the function raises something else now than in the job")
                    return
        answer.add("note", "the operator takes all of its records now: it is mended, or one chained after it has failed")

    def harness_before(self) -> tuple[ProgramHarness, tuple[Any, int | None, int]]:
        """Return a harness that has processed the records before the one at fault, and that: element, timestamp, input."""
        harness = self._harness()
        for number, (element, timestamp, of_input) in enumerate(self._records(harness)):
            if number == self._count:
                return harness, (element, timestamp, of_input)
            harness.process(element, timestamp, input_number=of_input)
        message = "The kept record has no rows."
        raise UsageError(message)

    def _records(self, harness: ProgramHarness) -> Iterator[tuple[Any, int | None, int]]:
        """Yield the records, made anew: a function may have changed those of the last time."""
        for number, data in self._failed.batches:
            for batch in pa.ipc.open_stream(data):
                for element, timestamp in harness.elements(batch, number):
                    yield element, timestamp, number + 1

    def _harness(self) -> ProgramHarness:
        failed = self._failed
        share = (failed.subtask, failed.parallelism, failed.max_parallelism)
        harness = self._program.harness(failed.uid, self._savepoint, share=share)
        if self._savepoint is None and failed.key is not None and failed.state is not None:
            # while the harness is open, pickles find the program's classes
            key, state = pickle.loads(failed.key), pickle.loads(failed.state)  # noqa: S301 - checked to be one's own
            harness.put_keyed_state(key, {name: value for name, value in state.items() if value is not None})
        if self._savepoint is None and failed.broadcast is not None:
            harness.put_broadcast_state(pickle.loads(failed.broadcast))  # noqa: S301 - as above
        return harness


def _processed(harness: ProgramHarness, request: dict[str, Any], element: Any) -> Exception | None:
    call, named = (element, request["timestamp"]), {"input_number": int(request["input"])}
    debugger = _Debugger() if request["debugger"] else None
    try:
        if debugger is None:
            harness.process(*call, **named)
        else:
            for file, line in breakpoints(harness.function):
                debugger.set_break(file, line)
            debugger.run_to_breakpoint(harness, *call, **named)
        harness.extract_output()
    except bdb.BdbQuit:
        raise SystemExit(0) from None
    except Exception as error:
        if isinstance(error, BrokenPipeError) and reader_is_gone():
            raise  # not the function's fault: it has printed
        _show(error, debugger)
        return error
    return None


def _own_trace(error: BaseException) -> TracebackType | None:
    """Return the stack trace from the program's first line on."""
    trace = error.__traceback__
    while trace is not None and is_library(trace.tb_frame.f_code.co_filename):
        trace = trace.tb_next
    return trace or error.__traceback__


class _Answer:
    """Prints what there is to say, as it comes; as JSON at the end."""

    def __init__(self, *, as_json: bool) -> None:
        self._as_json = as_json
        self._said: dict[str, Any] = {}

    def add(self, label: str, text: str) -> None:
        """Say one thing."""
        self._said[label] = text
        self._print(label, text)

    def add_all(self, label: str, texts: list[str]) -> None:
        """Say several things of a kind."""
        self._said[label] = texts
        for text in texts:
            self._print(label, text)

    def _print(self, label: str, text: str) -> None:
        if not self._as_json:
            print(f"{label + ':':<13}{text}", flush=True)  # noqa: T201 - the answer of the command

    def end(self) -> None:
        """Print the JSON."""
        if self._as_json:
            print(json.dumps({_camel(label): said for label, said in self._said.items()}, indent=2))  # noqa: T201


def _camel(label: str) -> str:
    first, *rest = label.split()
    return first + "".join(word.capitalize() for word in rest)


def harness_test(
    request: dict[str, Any],
    key: Any,
    before: dict[str, Any],
    results: list[Any],
    error: Exception | None,
    program: Program,
    broadcast: dict[str, Any] | None = None,
) -> str:
    """Return the text of a test that processes the record.

    What states hold is written into it where Python reads it back as it is, else it is read from the snapshot again.

    Raises:
        UsageError: Python doesn't read it back, and there is no snapshot: the test would process the record without it.
    """
    test, job = Path(request["as_test"]).absolute(), Path(request["job_file"])
    place = os.path.relpath(job, test.parent)
    given = {name: value for name, value in before.items() if not _is_empty(value)}
    shared = {name: entries for name, entries in (broadcast or {}).items() if entries}
    odd = [name for name, value in {**shared, **given, "the key": key}.items() if not _reads_back(value, program)]
    literal = not odd
    if odd and (given or shared) and request["savepoint_path"] is None:
        message = f"Python doesn't read {', '.join(odd)} back from its text, so no test can be written of it."
        hint = "give its class a __repr__ that makes it, and an __eq__; or -s SAVEPOINT, which the test reads then"
        raise UsageError(message, hint=hint)
    words = f", {request['arguments']!r}" if request["arguments"] else ""
    snapshot = "" if literal or request["savepoint_path"] is None else f", {request['savepoint_path']!r}"
    operator, record = request["operator"], request["record"]
    named = "".join(
        f", {name}={value}"
        for name, value, default in (("timestamp", request["timestamp"], None), ("input_number", request["input"], 1))
        if value != default
    )
    name = "".join(char if char.isalnum() else "_" for char in operator).strip("_").lower()
    lines = [
        WRITTEN,
        "",
        "from pathlib import Path",
        "",
        "from pystate.testing import Program",
        "",
        f"JOB = Path(__file__).parent / {place!r}",
        "",
        "",
        f"def test_{name or 'operator'}_takes_the_record():",
        f"    program = Program(JOB{words})",
        f"    with program.harness({operator!r}{snapshot}) as harness:",
    ]
    if literal and shared:
        lines.append(f"        harness.put_broadcast_state(program.value({repr(shared)!r}))")
    if literal and given:
        lines.append(f"        harness.put_keyed_state(program.value({repr(key)!r}), program.value({repr(given)!r}))")
    if error is not None:
        lines.append(f"        # raised {error_sentence(error)}".splitlines()[0])
    lines.append(f"        harness.process(program.value({record!r}){named})")
    if error is None and _reads_back(results, program) and program.value(repr(results)) == results:
        lines.append(f"        assert harness.extract_output() == program.value({repr(results)!r})")
    return "\n".join([*lines, ""])


def _is_empty(value: Any) -> bool:
    return value is None or (type(value) in (list, dict) and not value)  # not ==, which is the program's


def _reads_back(value: Any, program: Program) -> bool:
    try:
        back = program.value(repr(value))
        return bool(back == value) or "nan" in repr(value) and repr(back) == repr(value)  # which isn't equal to itself
    except Exception:  # noqa: BLE001 - of an __eq__ or a __repr__ of the program
        return False


def main(words: list[str]) -> int:
    """Answer one request; an error is written beside it, for the command to tell."""
    asked = Path(words[0])
    request = read_json(asked)
    try:
        return replay(request)
    except PystateError as error:
        asked.with_name("failure.json").write_text(json.dumps(error.to_dict()), "utf-8")
        return error.exit_code


if __name__ == "__main__":
    sys.exit(run_for_readers(lambda: main(sys.argv[1:])))
