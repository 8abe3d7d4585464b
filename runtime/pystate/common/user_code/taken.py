"""Captures user objects at the moment they are added to the program: later changes don't affect the job.

PyFlink does so, too: it pickles a function where the step is built. So functions made in a loop have the loop's variables of
their own turn, and what can't be pickled is refused at the line that hands it over.
"""

from __future__ import annotations

import builtins
import contextlib
import dis
import io
from collections.abc import Iterator
from contextvars import ContextVar
from types import CodeType, FunctionType
from typing import Any

from pystate.common.errors import JobGraphError
from pystate.common.user_code.unpicklable import refusal

_refusals: ContextVar[list[tuple[str | None, JobGraphError]] | None] = ContextVar("refusals", default=None)


@contextlib.contextmanager
def refusals_collected() -> Iterator[list[tuple[str | None, JobGraphError]]]:
    """Have `take` collect its refusals, with the lines that hand over, instead of raising the first one."""
    collected: list[tuple[str | None, JobGraphError]] = []
    token = _refusals.set(collected)
    try:
        yield collected
    finally:
        _refusals.reset(token)


class Taken:
    """The pickle of a captured object. When it is pickled and unpickled, the result is the object.

    Args:
        data: The pickle.
        names: The global names that were missing, of functions that travel with their globals: (these, name, function).
    """

    __slots__ = ("_names", "data")

    def __init__(self, data: bytes, names: list[tuple[dict[str, Any], str, str]]) -> None:
        self.data = data
        self._names = names

    def __reduce__(self) -> tuple[Any, ...]:
        """Unpickle as the captured object."""
        return _unpickled, (self.data,)

    def names_defined_since(self) -> Iterator[tuple[str, str]]:
        """Yield (global name, function's name) of names that were defined after the function was captured."""
        for scope, name, function in self._names:
            if name in scope:
                yield name, function

    def names_never_defined(self) -> Iterator[tuple[str, str]]:
        """Yield (global name, function's name) of names that are not defined yet, either."""
        for scope, name, function in self._names:
            if name not in scope:
                yield name, function


class SendsTaken:
    """A dataclass that is sent to workers with captured objects instead of its fields.

    Attributes:
        taken: The captured objects by field name. The fields have the program's objects, for planning.
    """

    taken: dict[str, Taken]

    def __getstate__(self) -> dict[str, Any]:
        """Return the fields for pickling."""
        fields = self.__dict__
        return {**fields, **{name: taken for name, taken in self.taken.items() if name in fields}, "taken": {}}


def take(value: Any, what: str, place: str | None) -> Taken:
    """Capture a function, or any object.

    Args:
        value: The function.
        what: What errors call the step that it is for.
        place: The line of the program that hands it over, as "FILE, line N".

    Raises:
        JobGraphError: It can't be pickled; names the field and the line.
    """
    from pyspark import cloudpickle

    names: list[tuple[dict[str, Any], str, str]] = []

    class Pickler(cloudpickle.Pickler):  # here, as pyspark is slow to import
        def reducer_override(self, obj: Any) -> Any:
            reduced = super().reducer_override(obj)  # type: ignore[no-untyped-call]
            if isinstance(obj, FunctionType) and reduced is not NotImplemented:  # not by the name of its module
                names.extend((obj.__globals__, name, obj.__qualname__) for name in _missing(obj))
            return reduced

    data = io.BytesIO()
    try:
        Pickler(data).dump(value)  # type: ignore[no-untyped-call]
    except Exception as error:  # whatever its own methods raise: it can't be sent
        refused, collected = refusal(what, value, error, place), _refusals.get()
        if collected is None:
            raise refused from error
        collected.append((place, refused))
    return Taken(data.getvalue(), names)


def _unpickled(data: bytes) -> Any:
    from pyspark import cloudpickle

    return cloudpickle.loads(data)


def _missing(function: FunctionType) -> set[str]:
    """Return the undefined global names that a function reads and never sets."""
    scope, code = function.__globals__, function.__code__
    if all(name in scope or hasattr(builtins, name) for name in _names(code)):  # attributes are among them
        return set()
    uses = [one for inner in _codes(code) for one in dis.get_instructions(inner)]
    read = {one.argval for one in uses if one.opname == "LOAD_GLOBAL"}
    set_here = {one.argval for one in uses if one.opname == "STORE_GLOBAL"}
    return {name for name in read - set_here if name not in scope and not hasattr(builtins, name)}


def _names(code: CodeType) -> Iterator[str]:
    for inner in _codes(code):
        yield from inner.co_names


def _codes(code: CodeType) -> Iterator[CodeType]:
    yield code
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _codes(constant)


def late_name_refusal(what: str, name: str, function: str, place: str | None) -> JobGraphError:
    """Return the error for a function that refers to names defined only after it."""
    message = (
        f"The function of {what!r} refers to {name!r} in {function}, and was handed over before the program defined that: "
        "a function is taken as it is at that moment."
    )
    return JobGraphError(message, where=place, hint=f"define {name!r} before the line that hands the function over")
