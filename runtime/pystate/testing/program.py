"""A program that is run up to its execute(), without Spark, and the operators that harnesses are made of."""

from __future__ import annotations

import datetime
import math
import sys
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from decimal import Decimal
from pathlib import Path
from types import ModuleType
from typing import Any

from pystate.common.configuration.configuration import Configuration
from pystate.common.configuration.groups.execution_options import PipelineOptions
from pystate.common.configuration.option_types import nearest_name
from pystate.common.errors import JobGraphError, UsageError
from pystate.common.row import Row
from pystate.common.user_code.spark_object import NeedsSparkError
from pystate.common.user_code.user_errors import error_sentence
from pystate.core.api.executor import register_executor, registered_executor
from pystate.core.api.stream_graph import StreamGraph
from pystate.core.api.transformations import OneInputTransformation, TwoInputTransformation
from pystate.runtime.driver.program.submitted_program import GraphExecutor, run_to_execute
from pystate.runtime.driver.program.without_spark import without_spark
from pystate.testing.program_harness import ProgramHarness, Step


class _KeepingExecutor(GraphExecutor):
    """Keeps the graph, and the names of the program."""

    def __init__(self, configuration: Configuration) -> None:
        super().__init__(configuration)
        self.graph: StreamGraph | None = None
        self.configuration = configuration
        self.names: dict[str, Any] = {}
        self.module = sys.modules["__main__"]

    def take(self, graph: StreamGraph, configuration: Configuration, job_name: str) -> None:
        """Keep the graph."""
        del job_name
        self.graph, self.configuration = graph, configuration
        self.module = sys.modules["__main__"]
        frame = sys._getframe()  # noqa: SLF001 - the names of the program, for records
        while frame.f_back is not None and frame.f_globals.get("__name__") != "__main__":
            frame = frame.f_back
        self.names = frame.f_globals


@contextmanager
def _own_globals() -> Iterator[None]:
    argv, path, executor = sys.argv, list(sys.path), registered_executor()
    try:
        yield
    finally:
        sys.argv, sys.path[:] = argv, path
        register_executor(executor)


def _shown_names() -> dict[str, Any]:
    """Return what Python's own texts of values refer to."""
    from collections import Counter, OrderedDict, deque
    from fractions import Fraction
    from uuid import UUID

    own = [Row, Decimal, Fraction, UUID, OrderedDict, Counter, deque]
    return {"datetime": datetime, "nan": math.nan, "inf": math.inf, **{kind.__name__: kind for kind in own}}


_mains: list[ModuleType] = []
"""What `__main__` was, and is: the last one is in force."""


@contextmanager
def _as_main(module: ModuleType) -> Iterator[None]:
    """Let pickles find the classes of a program's file: the file is `__main__`, as in its job."""
    if not _mains:
        _mains.append(sys.modules["__main__"])
    _mains.append(module)
    sys.modules["__main__"] = module
    try:
        yield
    finally:
        del _mains[len(_mains) - 1 - _mains[::-1].index(module)]  # harnesses are closed in any order
        sys.modules["__main__"] = _mains[-1]
        if len(_mains) == 1:
            _mains.clear()


class Program:
    """The operators of a program.

    Args:
        job_file: The program.
        arguments: Its arguments.
        configuration: The settings in force; None for none.

    Attributes:
        names: The global names of the program.

    Raises:
        PystateError: The program fails before its execute(), or asks Spark for a value.
    """

    def __init__(
        self, job_file: Path | str, arguments: Sequence[str] = (), configuration: Configuration | None = None
    ) -> None:
        executor = _KeepingExecutor(configuration or Configuration())
        path = Path(job_file).absolute()
        with _own_globals(), without_spark():
            try:
                run_to_execute(path, list(arguments), executor)
            except NeedsSparkError as error:
                message = "The program asks Spark for a value before its execute(), and there is no Spark here."
                raise JobGraphError(message, where=str(path)) from error
        assert executor.graph is not None  # noqa: S101 - it has reached its execute()
        self.names = executor.names
        self._module = executor.module
        self._graph = executor.graph
        self._graph.resolve_types()
        self._configuration = executor.configuration
        auto = bool(executor.configuration.get(PipelineOptions.AUTO_GENERATE_UIDS))
        self._uids = self._graph.assign_uids(auto=auto)

    def operators(self) -> list[tuple[str, str]]:
        """Return (uid, name) of the operators that a harness can be made of."""
        return [(self._uids[id(step)], step.name) for step in self._steps()]

    def value(self, expression: str) -> Any:
        """Return the value of a Python expression with the names of the program, such as `Row(word="a")`.

        Decimals, times and numbers such as nan are read as Python shows them, whatever the program has imported.

        Raises:
            UsageError: It isn't one, or it fails.
        """
        names = {"Row": Row, **self.names}
        try:
            return eval(expression, names)  # noqa: S307 - the author's own expression, for the author's own program
        except Exception as error:
            with suppress(Exception):
                return eval(expression, {**names, **_shown_names()})  # noqa: S307 - as above
            raise UsageError(error_sentence(error), where=expression, hint="give a Python expression") from error

    def harness(
        self,
        operator: str | None = None,
        savepoint: str | None = None,
        *,
        key_of: Any = None,
        key: Sequence[Any] = (),
        share: tuple[int, int, int] | None = None,
        state: bytes | None = None,
    ) -> ProgramHarness:
        """Return an opened harness of an operator. Until it is closed, the program's file is `__main__`, as in its job.

        Args:
            operator: Its uid, or its name where only one has that; None for the only one.
            savepoint: The checkpoint or savepoint with its state; None to begin with nothing.
            key_of: An element: only the state of its key's key group is restored. None for all state of the operator.
            key: Likewise, of one key in place of an element; none for all.
            share: Index of the subtask, parallelism and max parallelism; None for one subtask.
            state: A canonical file with keyed state to begin with, in place of a savepoint.

        Raises:
            PystateError: There is no such operator, or the state can't be restored.
        """
        step = self._step(operator)
        with ExitStack() as stack:
            stack.enter_context(_as_main(self._module))
            harness = ProgramHarness(step, self._uids[id(step)], self._configuration, savepoint, key_of, key, share, state)
            harness.at_end = stack.pop_all()
        return harness

    def _steps(self) -> list[Step]:
        return [
            step
            for step in self._graph.transformations()
            if isinstance(step, (OneInputTransformation, TwoInputTransformation))
        ]

    def _step(self, operator: str | None) -> Step:
        steps = self._steps()
        if operator is None and len(steps) == 1:
            return steps[0]
        found = [step for step in steps if self._uids[id(step)] == operator] or [
            step for step in steps if step.name == operator
        ]
        if len(found) == 1:
            return found[0]
        known = [uid if not uid.startswith("auto-") else name for uid, name in self.operators()]
        if found:
            message = (
                f"{len(found)} operators have the name {operator!r}: {', '.join(self._uids[id(one)] for one in found)}."
            )
            raise JobGraphError(message, hint="name one by its uid")
        near = None if operator is None else nearest_name(operator, known)
        what = "several operators" if operator is None else f"no operator {operator!r} among its own"
        message = f"The program has {what}: {', '.join(map(repr, known)) or 'none'}."
        raise JobGraphError(message, hint="name one of them" if near is None else f"did you mean {near!r}?")
