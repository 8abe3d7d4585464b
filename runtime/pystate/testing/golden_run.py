"""A recorded run of an operator: what it was given, and what it made of it."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from itertools import zip_longest
from pathlib import Path
from typing import Any, Protocol

from pystate.common.errors import StateError
from pystate.testing.exact_json import from_json, to_json
from pystate.testing.steps import Elements, EpochEnd, InputStep, ProcessingTime, Watermark

_FORMAT = 1
_NOTHING = object()


class Driven(Protocol):
    """What a run is recorded of, and replayed with: a harness."""

    def apply(self, step: InputStep) -> None:
        """Take a step."""

    def results(self) -> dict[str, list[Any]]:
        """Return the results so far, by output."""


class GoldenRun:
    """The steps of a run and its results: recorded by `OperatorTestHarness.record`, kept in a file, replayed by a test.

    Args:
        results: Returns the results of the recorded harness.
        steps: The steps so far.

    Attributes:
        steps: What the operator was given. What was rolled back is left out: it left no trace.
    """

    def __init__(self, results: Callable[[], dict[str, list[Any]]], steps: Iterable[InputStep] = ()) -> None:
        self.steps = list(steps)
        self._results = results
        self._ended = 0

    @staticmethod
    def read(path: str | Path) -> GoldenRun:
        """Read a run from its file.

        Raises:
            StateError: The file isn't that of a run.
        """
        try:
            plain = json.loads(Path(path).read_text("utf-8"))
            if plain["format"] != _FORMAT:
                message = f"it has format {plain['format']!r}, not {_FORMAT}"
                raise ValueError(message)
            steps = [_read_step(step) for step in plain["steps"]]
            results = {name: [from_json(one) for one in found] for name, found in plain["results"].items()}
        except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
            message = f"No golden run can be read from {path}: {error}."
            raise StateError(message, hint="record one with harness.record() and its write(path)") from error
        return GoldenRun(lambda: results, steps)

    def write(self, path: str | Path) -> None:
        """Write the run as JSON, a line for each step and result, which reads well in a review.

        Raises:
            StateError: An element or a result is of a type that the file can't hold.
        """
        steps = _lines([_plain_step(step) for step in self.steps])
        results = ",\n".join(
            f"  {json.dumps(name)}: {_lines(map(to_json, found))}" for name, found in self._results().items()
        )
        Path(path).write_text(f'{{\n"format": {_FORMAT},\n"steps": {steps},\n"results": {{\n{results}\n}}\n}}\n', "utf-8")

    def check(self, harness: Driven) -> None:
        """Give an open harness what the recorded one was given, and compare the results.

        Raises:
            AssertionError: A result differs.
        """
        self.replay(harness)
        found, wanted = harness.results(), self._results()
        for name in [*wanted, *(name for name in found if name not in wanted)]:
            pairs = zip_longest(wanted.get(name, []), found.get(name, []), fillvalue=_NOTHING)
            for number, (expected, actual) in enumerate(pairs):
                if type(expected) is not type(actual) or expected != actual and repr(expected) != repr(actual):
                    where = f"Result {number}" + (f" of the side output {name!r}" if name else "")
                    message = f"{where} is {_shown(actual)}; recorded was {_shown(expected)}."
                    raise AssertionError(message)

    def replay(self, harness: Driven) -> GoldenRun:
        """Give an open harness what the recorded one was given; return the run with its results."""
        for step in self.steps:
            harness.apply(step)
        return GoldenRun(harness.results, self.steps)

    def add(self, step: InputStep) -> None:
        """Add a step."""
        self.steps.append(step)

    def end_epoch(self) -> None:
        """Record the end of an epoch."""
        self.steps.append(EpochEnd())
        self._ended = len(self.steps)

    def roll_back_epoch(self) -> None:
        """Forget the steps of the running epoch."""
        del self.steps[self._ended :]


def _lines(values: Iterable[Any]) -> str:
    lines = ",\n".join(f"  {json.dumps(value, ensure_ascii=False)}" for value in values)
    return f"[\n{lines}\n]" if lines else "[]"


def _shown(value: Any) -> str:
    return "missing" if value is _NOTHING else repr(value)


def _plain_step(step: InputStep) -> dict[str, Any]:
    if isinstance(step, Elements):
        plain: dict[str, Any] = {"elements": [to_json(value) for value in step.values]}
        if step.timestamps is not None:
            plain["timestamps"] = list(step.timestamps)
    elif isinstance(step, Watermark):
        plain = {"watermark": step.timestamp}
    elif isinstance(step, ProcessingTime):
        return {"processing_time": step.milliseconds}
    else:
        return {"epoch": "ends"}
    return {**plain, "input": step.input} if step.input else plain


def _read_step(plain: dict[str, Any]) -> InputStep:
    number = plain.get("input", 0)
    if "elements" in plain:
        return Elements([from_json(value) for value in plain["elements"]], plain.get("timestamps"), number)
    if "watermark" in plain:
        return Watermark(plain["watermark"], number)
    if "processing_time" in plain:
        return ProcessingTime(plain["processing_time"])
    if plain.get("epoch") == "ends":
        return EpochEnd()
    message = f"{plain!r} is no step"
    raise ValueError(message)
