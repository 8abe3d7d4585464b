"""Replays one record in an operator of a program, under pdb or not, and writes it as a test.

Run as `python -m pystate.testing.debug_process REQUEST`, a JSON file, in the terminal of the user who debugs.
"""

from __future__ import annotations

import bdb
import dis
import inspect
import json
import pdb
import pickle
import sys
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FunctionType, TracebackType
from typing import Any, cast

from pystate.common.configuration.configuration import Configuration
from pystate.common.configuration.groups.pystate_options import PystateOptions
from pystate.common.errors import JobGraphError, PystateError, UsageError, UserFunctionError
from pystate.common.files.home import read_json
from pystate.common.files.job_files import replace_file
from pystate.common.processes.standard_streams import reader_is_gone, run_for_readers
from pystate.common.user_code.program_classes import pickled
from pystate.common.user_code.user_errors import error_sentence
from pystate.common.user_code.user_frames import is_library
from pystate.core.api.timer_service import TimeDomain
from pystate.core.api.window.window_operation import WindowOperation
from pystate.runtime.driver.program.submitted_program import program_place, submitted_configuration
from pystate.runtime.job_folder.failing_record import RecordOutcome, read_failing_record
from pystate.runtime.plan.chain import function_object
from pystate.testing.failed_records import Call, FailedRecords, RecordCall, TimerCall, rise
from pystate.testing.program import Program
from pystate.testing.program_harness import KeyTimer, ProgramHarness
from pystate.testing.written_test import StateBefore, harness_test, reads_back

_MOST_LINES, _MOST_CHARACTERS = 20, 1_000
"""How much of one kind, and of one line, is printed for people."""
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
    "on_timer",
    "__call__",
    "on_element",
    "on_event_time",
    "on_processing_time",
    "evict_before",
    "evict_after",
    "merge",
    "get_result",
)
"""Methods that are called with elements, by timers, and with what windows hold."""


class _Debugger(pdb.Pdb):
    """pdb that runs up to the first breakpoint."""

    def run_to_breakpoint(self, call: Call, harness: ProgramHarness) -> None:
        """Make the call."""
        self.rcLines.append("continue")  # it would stop in the harness
        self.runcall(call.on, harness)


def breakpoints(function: Any) -> Iterator[tuple[str, int]]:
    """Yield (file, line) of the first statement of each method of the program that is called with elements."""
    found = function_object(function)
    if isinstance(found, WindowOperation):
        parts = (found.reduce_function, found.aggregate_function, found.window_function, found.trigger, found.evictor)
        for part in parts:
            yield from () if part is None else breakpoints(part)
        return
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
        answer.add("failed", f"{kept.error}, in {kept.operator!r}, subtask {kept.subtask}, attempt {kept.attempt}")
        failed = FailedRecords(program, kept, request["savepoint_path"], lambda text: answer.add("note", text))
        with _told(request, f"what comes before it in {kept.operator!r}: open(), state, other records"):
            failed.find()
            harness, call = failed.harness_before()
        key = [] if kept.key is None else [pickle.loads(kept.key)]  # noqa: S301 - checked to be one's own
        request = {**request, "operator": harness.uid}
    elif request["key"] is not None:
        with _told(request, "what comes before the timers: open(), state"):
            harness, call, key = _timers_of_key(request, program)
    else:
        element, number = program.value(request["record"]), int(request["input"])
        of_key = element if number == 1 else None
        with _told(request, "what comes before the record: open(), state"):
            harness = program.harness(request["operator"], request["savepoint_path"], key_of=of_key)
            call, key = RecordCall(element, request["timestamp"], number), []
    with harness:
        request = {**request, "operator": request["operator"] or harness.uid}  # so a test may be written of it
        return _replay(request, program, harness, call, key, answer)


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


def _timers_of_key(request: dict[str, Any], program: Program) -> tuple[ProgramHarness, TimerCall, list[Any]]:
    """Return a harness with the state of a key, and the call that fires its timers up to a time."""
    key = program.value(request["key"])
    domain = TimeDomain.PROCESSING_TIME if request["watermark"] is None else TimeDomain.EVENT_TIME
    limit = request["processing_time"] if request["watermark"] is None else request["watermark"]
    harness = program.harness(request["operator"], request["savepoint_path"], key=[key])
    harness.keep_timers_of(key)
    due = [timer for timer in harness.get_timers(key) if timer[1] == domain.name and timer[2] <= limit]
    if not due:
        timers = ", ".join(_timer(harness, timer) for timer in harness.get_timers(key))
        harness.close()
        message = f"The key {key!r} has no timer that is due then; it has {timers or 'none'}."
        raise UsageError(message, hint=None if request["savepoint_path"] else "-s SAVEPOINT: without it there is no state")
    if domain is TimeDomain.EVENT_TIME:
        rise(harness, limit)
    else:
        harness.set_clock(limit)
    return harness, TimerCall(domain, limit, limit), [key]


def _replay(
    request: dict[str, Any], program: Program, harness: ProgramHarness, call: Call, keys: list[Any], answer: _Answer
) -> int:
    if isinstance(call, RecordCall) and harness.has_key(call.input_number):
        keys = [harness.key_of(call.element, call.input_number)]
    elif isinstance(call, RecordCall):
        keys = []
    record_reads_back = not isinstance(call, RecordCall) or not request["failure"] or reads_back(call.element, program)
    before = _state_before(harness, keys, program, as_file=request["as_test"] is not None)
    if keys:
        answer.add("key", repr(before.key))
    if isinstance(call, RecordCall):
        answer.add("record", repr(call.element))
        if call.timestamp is not None:
            answer.add("timestamp", str(call.timestamp))
    else:
        due = [one for one in before.timers if one[1] == call.domain.name and one[2] <= call.time]
        answer.add_all("timer", [_timer(harness, timer) for timer in due])
        answer.add("watermark" if call.domain is TimeDomain.EVENT_TIME else "clock", str(call.limit))
    _tell_state(answer, harness, before, "")
    if before.broadcast:
        answer.add_all("broadcast", [f"{name} = {value!r}" for name, value in before.broadcast.items()])
    harness.clear_output()
    error = _processed(harness, request, call)
    results = [] if error is not None else harness.extract_output()
    if error is None:
        answer.add_all("result", [repr(result) for result in results])
        _tell_state(answer, harness, _state_before(harness, keys, program, as_file=False), " after")
    else:
        answer.add("raised", error_sentence(error))
    answer.end()
    if request["as_test"] is not None:
        if isinstance(call, RecordCall) and not record_reads_back:
            message = "Python doesn't read the record back from its text, so no test can be written of it."
            hint = "give its class a __repr__ that makes it, and an __eq__"
            raise UsageError(message, where=repr(call.element), hint=hint)
        test = harness_test(request, before, call, results, error, program)
        try:
            replace_file(Path(request["as_test"]), test.encode(), mode=0o666)  # less the umask
        except OSError as failed:
            message = f"The test can't be written: {failed.strerror}."
            raise UsageError(message, where=request["as_test"]) from failed
    return int(error is not None)


def _state_before(harness: ProgramHarness, keys: list[Any], program: Program, *, as_file: bool) -> StateBefore:
    """Return what a harness has; copies, since what the function changes in place has changed in the harness, too."""
    state = StateBefore(
        watermark=harness.current_watermark(),
        clock=harness.get_processing_time(),
        inputs=harness.num_inputs,
        of_operator=harness.has_operator_state,
    )
    state.broadcast = harness.get_broadcast_state()
    for key in keys:
        state.key, state.keyed = key, harness.get_keyed_state(key)
        state.timers = harness.get_timers(key)
        if isinstance(function_object(harness.function), WindowOperation):
            state.windows = harness.get_window_state(key)
        literal = all(reads_back(one, program) for one in (key, state.keyed, state.windows, state.timers))
        if as_file and (harness.has_undeclared_state or not literal):
            state.file = harness.state_of_key(key)
    return cast(StateBefore, pickle.loads(pickled(state)))  # noqa: S301 - ours


def _tell_state(answer: _Answer, harness: ProgramHarness, state: StateBefore, when: str) -> None:
    answer.add_all("state" + when, [f"{name} = {value!r}" for name, value in state.keyed.items()])
    windows = [
        f"{harness.window_of(namespace)!r} {name} = {value!r}"
        for name, by_namespace in state.windows.items()
        for namespace, value in sorted(by_namespace.items(), key=lambda item: repr(item[0]))
    ]
    timers = [_timer(harness, timer) for timer in state.timers]
    for label, texts in (("window", windows), ("timers", timers)):
        if texts:
            answer.add_all(label + when, texts)


def _timer(harness: ProgramHarness, timer: KeyTimer) -> str:
    _, domain, time, namespace = timer
    window = "" if namespace is None else f", {harness.window_of(namespace)!r}"
    return f"{domain.lower().replace('_', ' ')} {time}{window}"


def _processed(harness: ProgramHarness, request: dict[str, Any], call: Call) -> Exception | None:
    debugger = _Debugger() if request["debugger"] else None
    try:
        if debugger is None:
            call.on(harness)
        else:
            for file, line in breakpoints(harness.function):
                debugger.set_break(file, line)
            debugger.run_to_breakpoint(call, harness)
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
    """Prints what there is to say, as it comes, of much its beginning; as JSON at the end, all of it."""

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
        for text in texts[:_MOST_LINES]:
            self._print(label, text)
        if len(texts) > _MOST_LINES:
            self._print(label, f"... and {len(texts) - _MOST_LINES:,} more; --json prints all")

    def _print(self, label: str, text: str) -> None:
        if not self._as_json:
            if len(text) > _MOST_CHARACTERS:
                text = f"{text[:_MOST_CHARACTERS]}... {len(text):,} characters; --json prints all"
            print(f"{label + ':':<13}{text}", flush=True)  # noqa: T201 - the answer of the command

    def end(self) -> None:
        """Print the JSON."""
        if self._as_json:
            print(json.dumps({_camel(label): said for label, said in self._said.items()}, indent=2))  # noqa: T201


def _camel(label: str) -> str:
    first, *rest = label.split()
    return first + "".join(word.capitalize() for word in rest)


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
