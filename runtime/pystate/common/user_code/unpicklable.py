"""Finds what prevents a user function from being pickled, for the error message.

What can't be pickled, such as a lock, a client or an open file, fails in the same way at every start. The search for the
field goes from the function downwards, at each step into the first part that can't be pickled alone.
"""

from __future__ import annotations

import dis
import functools
import inspect
import io
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from types import CodeType, FunctionType, MethodType
from typing import Any

from pystate.common.errors import JobGraphError
from pystate.common.user_code.source_lines import line_of_attribute, line_of_variable

_MOST_STEPS = 40
_SPARK = ("pyspark", "py4j")
_IN_OPEN = "make it in the function's open(), which is called where the function runs, not where the program builds it"
_NO_SPARK = "Spark's session and DataFrames are the driver's alone: hand the function plain values, or use for_each_batch()"


@dataclass(frozen=True)
class Unpicklable:
    """The object that prevents a function from being pickled.

    Attributes:
        path: From the function to it: `Count.client.lock`.
        value: The thing itself.
        error: What pickle says of it.
        place: The line that puts it there, as "FILE, line N"; None if it can't be found.
    """

    path: str
    value: Any
    error: Exception
    place: str | None


def find_unpicklable(function: Any) -> Unpicklable | None:
    """Return what prevents a function, or any object, from being pickled; None if it can be pickled."""
    error = _failure(function)
    return None if error is None else _deepest(function, error)


def refusal(what: str, function: Any, error: Exception, place: str | None) -> JobGraphError:
    """Return the error for a function that can't be pickled.

    Args:
        what: Of which step it is.
        function: The function, or any object.
        error: What its pickling raised.
        place: The line that hands it over, as "FILE, line N".
    """
    found = _deepest(function, error)
    kind = type(found.value)
    name = kind.__qualname__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__qualname__}"
    said = str(found.error).splitlines()[0] if str(found.error).strip() else type(found.error).__name__
    message = (
        f"The function of {what!r} can't be sent to where it runs: {found.path} is of type {name}, which can't be "
        f"pickled ({said})."
    )
    where = ", ".join(filter(None, [what, found.place or place]))
    return JobGraphError(message, where=where, hint=_NO_SPARK if _is_of_spark(found.value) else _IN_OPEN)


def _deepest(function: Any, error: Exception) -> Unpicklable:
    found = Unpicklable(_root_name(function), function, error, None)
    seen = {id(function)}
    for _ in range(_MOST_STEPS):
        # what is inside of Spark's own objects is nothing the author knows
        deeper = None if _is_of_spark(found.value) else next(_failing_parts(found, seen), None)
        if deeper is None:
            return found
        seen.add(id(deeper.value))
        found = deeper
    return found


def _is_of_spark(value: Any) -> bool:
    return type(value).__module__.partition(".")[0] in _SPARK


class _Nowhere(io.RawIOBase):
    """A file that discards a pickle's bytes, since a function may contain a model of any size."""

    def writable(self) -> bool:
        return True

    def write(self, data: Any) -> int:
        return len(data)


def _failure(value: Any) -> Exception | None:
    from pyspark import cloudpickle

    try:
        cloudpickle.Pickler(_Nowhere()).dump(value)  # type: ignore[no-untyped-call]
    except Exception as error:  # whatever its own methods raise: it can't be sent
        return error
    return None


def _failing_parts(whole: Unpicklable, seen: set[int]) -> Iterator[Unpicklable]:
    for label, part, place in _parts(whole.value):
        if id(part) in seen:
            continue
        error = _failure(part)
        if error is not None:
            path = label if label.startswith("class ") else f"{whole.path}{label}"
            yield Unpicklable(path, part, error, _line(place) or whole.place)


_Place = Callable[[], "str | None"]
_Part = tuple[str, Any, "_Place | None"]


def _line(place: _Place | None) -> str | None:
    return None if place is None else place()


def _parts(value: Any) -> Iterator[_Part]:
    """Yield (path suffix, part that is pickled with the value, line of the program that sets it)."""
    if isinstance(value, MethodType):
        yield "", value.__self__, None
    elif isinstance(value, functools.partial):
        yield from ((label, part, None) for label, part in _of_call(value))
    elif isinstance(value, FunctionType):
        yield from _of_function(value)
    elif isinstance(value, type):
        yield from _of_class(value)
    elif isinstance(value, dict):
        yield from ((f"[{key!r}]", item, None) for key, item in value.items())
    elif isinstance(value, (list, tuple, set, frozenset, deque)):
        yield from ((f"[{index}]", item, None) for index, item in enumerate(value))
    else:
        yield from _of_object(value)


def _of_call(call: functools.partial[Any]) -> Iterator[tuple[str, Any]]:
    yield "", call.func
    yield from ((f"({index})", part) for index, part in enumerate(call.args))
    yield from ((f"({name}=)", part) for name, part in call.keywords.items())


def _of_function(function: FunctionType) -> Iterator[_Part]:
    code = function.__code__
    for name, cell in zip(code.co_freevars, function.__closure__ or (), strict=True):
        try:
            yield f" -> {name}", cell.cell_contents, functools.partial(line_of_variable, code, name)
        except ValueError:  # an empty cell
            continue
    for name in global_names(code):
        if name in function.__globals__:
            yield f" -> {name}", function.__globals__[name], functools.partial(line_of_variable, code, name)
    for default in (*(function.__defaults__ or ()), *(function.__kwdefaults__ or {}).values()):
        yield " -> a default of its arguments", default, functools.partial(_first_line, code)
    yield from ((f".{name}", part, None) for name, part in vars(function).items())


def global_names(code: CodeType) -> Iterator[str]:
    """Yield the global names that a function's code reads, including nested code."""
    yield from (one.argval for one in dis.get_instructions(code) if one.opname == "LOAD_GLOBAL")
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from global_names(constant)


def _first_line(code: CodeType) -> str:
    return f"{code.co_filename}, line {code.co_firstlineno}"


def _of_class(kind: type) -> Iterator[_Part]:
    for name, part in vars(kind).items():
        if not (name.startswith("__") and name.endswith("__")) or isinstance(part, FunctionType):
            inner = part.__func__ if isinstance(part, (staticmethod, classmethod)) else part
            yield f".{name}", inner, functools.partial(line_of_attribute, [kind], name)
    yield from ((f"class {base.__name__}", base, None) for base in kind.__bases__)


def _of_object(value: Any) -> Iterator[_Part]:
    kind = type(value)
    for name, part in _fields(value).items():
        yield f".{name}", part, functools.partial(line_of_attribute, kind.__mro__, name)
    yield f"class {kind.__name__}", kind, None  # a class of the program itself travels with its objects


def _fields(value: Any) -> dict[str, Any]:
    """Return the parts of an object that are pickled, by their names in the source."""
    kind = type(value)
    try:
        if _overrides(kind, "__reduce__") or _overrides(kind, "__reduce_ex__"):
            reduced = value.__reduce_ex__(4)
            state = reduced[2] if len(reduced) > 2 and isinstance(reduced[2], dict) else {}
            return {**{f"__reduce__()[1][{index}]": part for index, part in enumerate(reduced[1])}, **state}
        if _overrides(kind, "__getstate__"):
            state = value.__getstate__()
            return dict(state) if isinstance(state, dict) else {"__getstate__()": state}
    except Exception:  # it is this object's own method that can't be called
        return {}
    fields = dict(getattr(value, "__dict__", None) or {})
    for base in kind.__mro__:
        slots = vars(base).get("__slots__", ())
        for name in (slots,) if isinstance(slots, str) else slots:
            if name not in ("__dict__", "__weakref__") and hasattr(value, name):
                fields[name] = getattr(value, name)
    return fields


def _overrides(kind: type, method: str) -> bool:
    return getattr(kind, method, None) is not getattr(object, method, None)


def _root_name(function: Any) -> str:
    if isinstance(function, MethodType):
        return _root_name(function.__self__)
    if isinstance(function, functools.partial):
        return _root_name(function.func)
    if inspect.isroutine(function) or isinstance(function, type):
        return str(getattr(function, "__qualname__", function)).rpartition("<locals>.")[2]
    return type(function).__name__
