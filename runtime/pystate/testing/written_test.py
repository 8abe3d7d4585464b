"""Writes what was debugged, a record or timers in one operator, as a test with the harness."""

from __future__ import annotations

import base64
import os
import textwrap
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pystate.common.errors import UsageError
from pystate.common.user_code.user_errors import error_sentence
from pystate.core.api.timer_service import TimeDomain
from pystate.runtime.slot.event_time.chain_time import MIN_WATERMARK
from pystate.testing.failed_records import Call, RecordCall
from pystate.testing.program import Program
from pystate.testing.program_harness import KeyTimer

WRITTEN = '"""Written by pystate debug: one record in one operator of the job."""'
"""The first line of a test."""


@dataclass
class StateBefore:
    """What the harness has before the call.

    Attributes:
        key: The key; None without.
        keyed: What its states hold.
        windows: What those of its windows hold.
        timers: Its timers.
        broadcast: What the broadcast states hold.
        watermark: Event time, ms since 1970.
        clock: Processing time, ms since 1970.
        inputs: How many inputs the operator has.
        of_operator: Whether the function has state of its operator besides.
        file: All keyed state of the key, as a file; None where `keyed`, `windows` and `timers` have it all.
    """

    key: Any = None
    keyed: dict[str, Any] = field(default_factory=dict)
    windows: dict[str, dict[Any, Any]] = field(default_factory=dict)
    timers: list[KeyTimer] = field(default_factory=list)
    broadcast: dict[str, Any] = field(default_factory=dict)
    watermark: int = MIN_WATERMARK
    clock: int = 0
    inputs: int = 1
    of_operator: bool = False
    file: bytes | None = None

    def parts(self) -> list[tuple[str, str, Any]]:
        """Return (name, method of the harness, value) of what isn't empty."""
        full = {name: value for name, value in self.keyed.items() if not _is_empty(value)}
        shared = {name: entries for name, entries in self.broadcast.items() if entries}
        named = [
            ("broadcast", "put_broadcast_state", shared),
            ("state", "put_keyed_state", full),
            ("windows", "put_window_state", self.windows),
            ("timers", "put_timers", self.timers),
        ]
        return [part for part in named if part[2]]


def harness_test(
    request: dict[str, Any], before: StateBefore, call: Call, results: list[Any], error: Exception | None, program: Program
) -> str:
    """Return the text of a test that makes the call.

    What states hold is written into it where Python reads it back as it is; else it is read from the snapshot again, or
    from the bytes of a snapshot of the one key, which are in the test.

    Args:
        request: What was asked for.
        before: The state before the call.
        call: The call.
        results: What came of it.
        error: What it raised; None if it didn't.
        program: The program.

    Raises:
        UsageError: Python doesn't read the broadcast state back, and there is no snapshot.
    """
    test, job = Path(request["as_test"]).absolute(), Path(request["job_file"])
    place = os.path.relpath(job, test.parent)
    operator = request["operator"]
    parts = before.parts()
    odd = [name for name, _, value in [*parts, ("the key", "", before.key)] if not reads_back(value, program)]
    in_bytes = before.file is not None
    from_snapshot = bool(odd or in_bytes or before.of_operator) and request["savepoint_path"] is not None
    if odd and not from_snapshot and (before.file is None or "broadcast" in odd):
        message = f"Python doesn't read {', '.join(odd)} back from its text, so no test can be written of it."
        hint = "give its class a __repr__ that makes it, and an __eq__; or -s SAVEPOINT, which the test reads then"
        raise UsageError(message, hint=hint)
    words = f", {request['arguments']!r}" if request["arguments"] else ""
    given = f", {request['savepoint_path']!r}" if from_snapshot else ", state=STATE" if in_bytes else ""
    if from_snapshot and before.of_operator and before.key is not None and "the key" not in odd:
        given += f", key=[program.value({repr(before.key)!r})]"  # with its subtask's share of that state
    name = "".join(char if char.isalnum() else "_" for char in operator).strip("_").lower()
    what = "takes_the_record" if isinstance(call, RecordCall) else "fires_the_timers"
    lines = [WRITTEN, ""]
    if given == ", state=STATE":
        lines += ["from base64 import b85decode", "from pathlib import Path", "", "from pystate.testing import Program", ""]
        text = base64.b85encode(before.file or b"").decode()
        lines += [f"JOB = Path(__file__).parent / {place!r}", "STATE = b85decode("]
        lines += [f"    {line!r}" for line in textwrap.wrap(text, 100)] + [")"]
    else:
        lines += ["from pathlib import Path", "", "from pystate.testing import Program", ""]
        lines += [f"JOB = Path(__file__).parent / {place!r}"]
    lines += [
        "",
        "",
        f"def test_{name or 'operator'}_{what}():",
        f"    program = Program(JOB{words})",
        f"    with program.harness({operator!r}{given}) as harness:",
    ]
    body = [f"harness.set_processing_time({before.clock})"] if before.clock else []
    if isinstance(call, RecordCall) and before.watermark > MIN_WATERMARK:
        body += _watermark(before.watermark, before.inputs)
    for part, method, value in parts:
        if given and (from_snapshot or part != "broadcast"):
            continue
        key = "" if part == "broadcast" else f"program.value({repr(before.key)!r}), "
        body.append(f"harness.{method}({key}program.value({repr(value)!r}))")
    if error is not None:
        body.append(f"# raised {error_sentence(error)}".splitlines()[0])
    body += _call(call, before)
    if error is None and reads_back(results, program) and program.value(repr(results)) == results:
        body.append(f"assert harness.extract_output() == program.value({repr(results)!r})")
    return "\n".join([*lines, *(f"        {line}" for line in body), ""])


def _watermark(watermark: int, inputs: int) -> list[str]:
    named = ["", *(f", input_number={number}" for number in range(2, inputs + 1))]
    return [f"harness.process_watermark({watermark}{one})" for one in named]


def _call(call: Call, before: StateBefore) -> list[str]:
    if isinstance(call, RecordCall):
        named = "".join(
            f", {name}={value}"
            for name, value, default in (("timestamp", call.timestamp, None), ("input_number", call.input_number, 1))
            if value != default
        )
        return [f"harness.process(program.value({repr(call.element)!r}){named})"]
    if call.domain is TimeDomain.PROCESSING_TIME:
        return [f"harness.set_processing_time({call.limit})"]
    return _watermark(call.limit, before.inputs)


def _is_empty(value: Any) -> bool:
    return value is None or (type(value) in (list, dict) and not value)  # not ==, which is the program's


def reads_back(value: Any, program: Program) -> bool:
    """Return whether Python reads a value back from its text as it is."""
    try:
        back = program.value(repr(value))
        return bool(back == value) or "nan" in repr(value) and repr(back) == repr(value)  # which isn't equal to itself
    except Exception:  # noqa: BLE001 - of an __eq__ or a __repr__ of the program
        return False
