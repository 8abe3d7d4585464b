"""Finds the states that a program's functions declare, without calling them: from the text of their classes.

`open()` runs in slots, and may connect to anything. So its statements are only read: descriptors are made from constants,
from names of the program, and from calls of pystate itself. What can't be known that way is left to the slots.
"""

from __future__ import annotations

import ast
import builtins
import inspect
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields, is_dataclass
from types import FunctionType, ModuleType
from typing import Any, TypeGuard

from pystate.common.errors import JobGraphError, PystateError
from pystate.common.user_code.source_lines import class_lines
from pystate.common.user_code.user_errors import error_sentence
from pystate.common.user_code.user_frames import is_library
from pystate.core.api.state import (
    AggregatingStateDescriptor,
    ListStateDescriptor,
    MapStateDescriptor,
    ReducingStateDescriptor,
    StateDescriptor,
    ValueStateDescriptor,
)
from pystate.core.api.transformations import OneInputTransformation, Transformation, TwoInputTransformation
from pystate.core.api.window.window_operation import WindowOperation
from pystate.core.state.base.abstract_backend import declared_twice
from pystate.core.state.base.state_schema import StateSchema
from pystate.runtime.plan.chain import function_object
from pystate.runtime.slot.operators.keyed_state_store import check_declaration, keyless_state

_DESCRIPTORS = {
    one.getter: one
    for one in (
        ValueStateDescriptor,
        ListStateDescriptor,
        MapStateDescriptor,
        ReducingStateDescriptor,
        AggregatingStateDescriptor,
    )
}
_FIRST = ("open", "initialize_state", "__init__")
"""Methods that are called before the first element."""
_STORES = ("get_keyed_state_store", "get_runtime_context")


@dataclass(frozen=True)
class StateDeclaration:
    """A state as a function declares it.

    Attributes:
        step: The step of the function.
        descriptor: Its declaration.
        place: The line, as "FILE, line N".
    """

    step: Transformation
    descriptor: StateDescriptor
    place: str


@dataclass(frozen=True)
class WrongDeclaration:
    """A declaration that fails in the slots, or is made late.

    Attributes:
        error: What is wrong.
        place: The line.
        fails: Whether the job would fail.
    """

    error: PystateError
    place: str
    fails: bool = True


def declarations(step: Transformation, uid: str) -> Iterator[StateDeclaration | WrongDeclaration]:
    """Yield the keyed states that a step's functions declare by the runtime context, and what is wrong with them.

    Args:
        step: A step of the program.
        uid: Its uid, for errors.
    """
    if not isinstance(step, (OneInputTransformation, TwoInputTransformation)):
        return
    known: dict[str, StateDescriptor] = {}
    for function in _functions(step.function):
        for one in _Reader(step, uid, function).found():
            if isinstance(one, StateDeclaration):
                first = known.setdefault(one.descriptor.name, one.descriptor)
                twice = declared_twice(first, one.descriptor)
                if twice is not None:
                    yield WrongDeclaration(twice, one.place)
                    continue
            yield one


def _functions(function: Any) -> Iterator[Any]:
    if isinstance(function, WindowOperation):
        for part in fields(function):
            yield from _functions(getattr(function, part.name))
        return
    found = function_object(function)
    if found is not None and not isinstance(found, (FunctionType, type)) and not is_dataclass(found):
        yield found


class _UnknownError(Exception):
    """What an expression gives can't be known without running the program's code."""


class _CallError(Exception):
    """A call of pystate's fails whoever makes it."""


class _Reader:
    """Reads the methods of one function object."""

    def __init__(self, step: OneInputTransformation | TwoInputTransformation, uid: str, function: Any) -> None:
        self._step = step
        self._uid = uid
        self._function = function
        self._contexts: set[str] = set()  # the fields that keep the runtime context
        self._fields: dict[str, Any] = {}

    def found(self) -> Iterator[StateDeclaration | WrongDeclaration]:
        """Yield the declarations, those of `open()` first."""
        methods = self._methods()
        first = [name for name in _FIRST if name in methods]
        for name in first:  # and what these call
            nodes = (node for _, _, definition in methods[name] for node in ast.walk(definition))
            called = (node.func for node in nodes if isinstance(node, ast.Call))
            first += [part.attr for part in called if _is_of_self(part) and part.attr in methods and part.attr not in first]
        for name in sorted(methods, key=lambda name: first.index(name) if name in first else len(first)):
            for file, names, definition in methods[name]:
                yield from _Method(self, file, names, definition, late=name not in first).found()

    def _methods(self) -> dict[str, list[tuple[str, Mapping[str, Any], ast.FunctionDef]]]:
        """Return file, global names and text of each method; before one that calls super() those it extends."""
        found: dict[str, list[tuple[str, Mapping[str, Any], ast.FunctionDef]]] = {}
        for kind in type(self._function).__mro__:
            lines = class_lines(kind)
            if lines is None or is_library(lines[0]):
                continue
            for node in lines[1].body:
                if not isinstance(node, ast.FunctionDef):
                    continue
                known = found.setdefault(node.name, [])
                if not known or _calls_super(known[0][2]):
                    names = getattr(vars(kind).get(node.name), "__globals__", {})
                    known.insert(0, (lines[0], names, node))
        return found

    def value_of_field(self, name: str) -> Any:
        """Return a field of the function: as a method that was read sets it, or as the program has set it."""
        if name in self._fields:
            return self._fields[name]
        found = inspect.getattr_static(self._function, name, _UnknownError)
        if found is _UnknownError or isinstance(found, (FunctionType, property)):
            raise _UnknownError
        return found


class _Method(ast.NodeVisitor):
    """Reads one method, statement by statement."""

    def __init__(
        self, reader: _Reader, file: str, names: Mapping[str, Any], definition: ast.FunctionDef, *, late: bool
    ) -> None:
        self._reader = reader
        self._file = file
        self._definition = definition
        self._late = late
        self._globals = names
        arguments = [argument.arg for argument in definition.args.args]
        self._self = arguments[0] if arguments else ""
        self._parameters = set(arguments[1:])
        self._locals: dict[str, Any] = dict.fromkeys(arguments[1:], _UnknownError)
        self._found: list[StateDeclaration | WrongDeclaration] = []

    def found(self) -> list[StateDeclaration | WrongDeclaration]:
        """Return what the method declares."""
        for statement in self._definition.body:
            self.visit(statement)
        return self._found

    def visit_Assign(self, node: ast.Assign) -> None:  # noqa: N802 - the name that `ast` calls
        self.generic_visit(node)
        if len(node.targets) != 1:
            return
        target = node.targets[0]
        if _is_of_self(target, self._self) and isinstance(node.value, ast.Name) and node.value.id in self._parameters:
            self._reader._contexts.add(target.attr)  # noqa: SLF001 - its own reader
            return
        value = self._known(node.value)
        if isinstance(target, ast.Name):
            self._locals[target.id] = value
        elif _is_of_self(target, self._self) and isinstance(value, StateDescriptor):
            self._reader._fields[target.attr] = value  # noqa: SLF001

    def visit_Expr(self, node: ast.Expr) -> None:  # noqa: N802
        self.generic_visit(node)
        call = node.value
        if isinstance(call, ast.Call) and isinstance(call.func, ast.Attribute):
            if call.func.attr in ("enable_time_to_live", "set_queryable"):
                self._known(call)

    def visit_Call(self, node: ast.Call) -> None:  # noqa: N802
        self.generic_visit(node)
        func = node.func
        if not isinstance(func, ast.Attribute) or func.attr not in _DESCRIPTORS or len(node.args) + len(node.keywords) != 1:
            return
        if not self._is_context(func.value):
            return
        place = f"{self._file}, line {node.lineno}"
        argument = node.args[0] if node.args else node.keywords[0].value
        descriptor = self._known(argument)
        if descriptor is _UnknownError:
            return
        step, reader = self._reader._step, self._reader  # noqa: SLF001
        error = self._refusal(descriptor, _DESCRIPTORS[func.attr])
        if error is not None:
            self._found.append(WrongDeclaration(error, place))
            return
        if self._late:
            method = self._definition.name
            message = (
                f"The state {descriptor.name!r} of {step.name!r} is declared in {method}(), after the first element: until "
                "then a restored job carries its values along unseen, and a type that doesn't fit them fails the job there."
            )
            hint = "declare it in open(), and keep what get_state() and its like return in a field"
            late = JobGraphError(message, where=f"uid {reader._uid}", hint=hint)  # noqa: SLF001
            self._found.append(WrongDeclaration(late, place, fails=False))
        self._found.append(StateDeclaration(step, descriptor, place))

    def _refusal(self, descriptor: Any, wanted: type[StateDescriptor]) -> PystateError | None:
        step, uid = self._reader._step, self._reader._uid  # noqa: SLF001
        try:
            check_declaration(descriptor, wanted, f"uid {uid}")
            StateSchema.of(descriptor)
        except PystateError as error:
            return error
        return keyless_state(step.name, uid, descriptor.name, step.kind, keyed=step.keyed)

    def _is_context(self, node: ast.expr) -> bool:
        """Whether an expression is what `open()` is given, or the store of `initialize_state()`."""
        if isinstance(node, ast.Name):
            return (
                node.id in self._parameters
                and self._definition.name in _FIRST
                or (node.id in self._parameters and not self._late)
            )
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            return node.func.attr in _STORES
        return _is_of_self(node, self._self) and node.attr in self._reader._contexts  # noqa: SLF001

    def _known(self, node: ast.expr) -> Any:
        """Return what an expression gives; `_UnknownError` if that isn't known. A call that must fail is told of."""
        try:
            return self._value(node)
        except _UnknownError:
            return _UnknownError
        except _CallError as error:
            cause = error.__cause__
            place = f"{self._file}, line {node.lineno}"
            told = cause if isinstance(cause, PystateError) else JobGraphError(error_sentence(cause or error))
            if all(one.place != place for one in self._found):
                self._found.append(WrongDeclaration(told, place))
            return _UnknownError

    def _value(self, node: ast.expr) -> Any:
        if isinstance(node, ast.Constant):
            return node.value
        if isinstance(node, (ast.List, ast.Tuple)):
            items = [self._value(item) for item in node.elts]
            return items if isinstance(node, ast.List) else tuple(items)
        if isinstance(node, ast.Lambda):
            return lambda *_: None  # a function of a state, which is never called here
        if isinstance(node, ast.Name):
            return self._named(node.id)
        if isinstance(node, ast.Attribute):
            return self._attribute(node)
        if isinstance(node, ast.Call):
            return self._called(node)
        raise _UnknownError

    def _named(self, name: str) -> Any:
        found = self._locals.get(name, self._globals.get(name, getattr(builtins, name, _UnknownError)))
        if found is _UnknownError or name == self._self:
            raise _UnknownError
        return found

    def _attribute(self, node: ast.Attribute) -> Any:
        if _is_of_self(node, self._self):
            return self._reader.value_of_field(node.attr)
        whole = self._value(node.value)
        if isinstance(whole, (ModuleType, type)) or _is_ours(type(whole)):
            found = getattr(whole, node.attr, _UnknownError)
            if found is not _UnknownError:
                return found
        raise _UnknownError

    def _called(self, node: ast.Call) -> Any:
        function = self._value(node.func)
        if not _is_ours(function) or any(keyword.arg is None for keyword in node.keywords):
            raise _UnknownError
        given = [self._value(argument) for argument in node.args]
        named = {keyword.arg: self._value(keyword.value) for keyword in node.keywords if keyword.arg is not None}
        try:
            return function(*given, **named)
        except Exception as error:
            raise _CallError from error


def _is_of_self(node: ast.AST, name: str = "self") -> TypeGuard[ast.Attribute]:
    return isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == name


def _calls_super(definition: ast.FunctionDef) -> bool:
    return any(isinstance(node, ast.Name) and node.id == "super" for node in ast.walk(definition))


def _is_ours(value: Any) -> bool:
    """Whether calling it runs pystate's code, and none of the program's."""
    return str(getattr(value, "__module__", "")).partition(".")[0] == "pystate"
