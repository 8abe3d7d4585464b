"""Real objects as state machines: what one does with a stimulus is tried once, and known from then on.

An object is built anew, is given all that brought it into its state, and then the stimulus. Its state is all that can be
reached from it and changes; locks, threads and what only people are told are left out. So a search can go from state to
state of many objects without copying any.
"""

from __future__ import annotations

import types
from collections import deque
from collections.abc import Callable, Hashable, Iterable, Mapping
from enum import Enum
from typing import Any, NamedTuple, Protocol

import pyarrow as pa


class Driven(Protocol):
    """A real object that a model drives."""

    def apply(self, stimulus: Any) -> Iterable[Hashable]:
        """Do what is asked; return what came out."""

    def roots(self) -> Any:
        """Return what its state can be reached from."""

    def shows(self) -> Hashable:
        """Return what a model may know of its state."""


class Learned:
    """What is known of objects of one kind.

    Args:
        build: Makes one in its first state.
        ignored: Names of attributes that are no part of the state.
        merges: Whether objects in equal states count as one; else each way leads to a state of its own.

    Attributes:
        tried: How often an object was asked.
    """

    def __init__(self, build: Callable[[], Driven], ignored: frozenset[str] = frozenset(), *, merges: bool = True) -> None:
        self._build = build
        self._merges = merges
        self._ignored = ignored
        self._numbers: dict[Hashable, int] = {}
        self._ways: list[tuple[Any, ...]] = []
        self._shown: list[Any] = []
        self._looks: list[Hashable] = []
        self._known: dict[tuple[int, Any], tuple[int, tuple[Any, ...]]] = {}
        self.tried = 0
        self.start = self._number(build(), ())

    def apply(self, state: int, stimulus: Hashable) -> tuple[int, tuple[Any, ...]]:
        """Return the state behind a stimulus, and what comes out."""
        known = self._known.get((state, stimulus))
        if known is None:
            self.tried += 1
            way, one = self._ways[state], self._build()
            for before in way:
                one.apply(before)
            out = tuple(one.apply(stimulus))
            known = self._known[state, stimulus] = self._number(one, (*way, stimulus)), out
        return known

    def shows(self, state: int) -> Any:
        """Return what an object shows in a state."""
        return self._shown[state]

    def is_same(self, state: int, other: int) -> bool:
        """Return whether objects in two states behave in the same way."""
        return self._looks[state] == self._looks[other]

    def _number(self, one: Driven, way: tuple[Any, ...]) -> int:
        looks = fingerprint(one.roots(), self._ignored), one.shows()
        key: Hashable = looks if self._merges else way
        number = self._numbers.setdefault(key, len(self._ways))
        if number == len(self._ways):
            self._ways.append(way)
            self._shown.append(looks[1])
            self._looks.append(looks)
        return number


class _Object(NamedTuple):
    """What is left of an object in a fingerprint."""

    kind: str
    parts: Any


def fingerprint(root: Any, ignored: frozenset[str] = frozenset()) -> Hashable:
    """Return what is equal for objects that behave in the same way: all that is reached from it, but locks and threads.

    Args:
        root: The object.
        ignored: Names of attributes that don't count.
    """
    visited: dict[int, tuple[int, Any]] = {}  # with the object itself, so that no other one gets its id meanwhile

    def walk(one: Any) -> Hashable:
        if one is None or isinstance(one, (bool, int, float, str, bytes, Enum)):
            return one
        if isinstance(one, memoryview):
            return bytes(one)
        if isinstance(one, types.BuiltinFunctionType):  # its text has an address where it is a method
            return one.__qualname__
        if isinstance(one, (type, types.ModuleType, pa.Schema)):
            return str(one)
        if not isinstance(one, tuple):
            if id(one) in visited:
                return _Object("again", visited[id(one)][0])
            visited[id(one)] = len(visited), one
        return parts_of(one)

    def parts_of(one: Any) -> Hashable:
        kind = type(one).__name__
        if isinstance(one, (list, tuple, deque)):
            return _Object("list", tuple(map(walk, one)))
        if isinstance(one, (set, frozenset)):
            return _Object("set", tuple(sorted(map(walk, one), key=repr)))
        if isinstance(one, Mapping):
            return _Object("map", tuple(sorted(((walk(key), walk(item)) for key, item in one.items()), key=repr)))
        if isinstance(one, types.MethodType):
            return _Object(one.__qualname__, walk(one.__self__))
        if isinstance(one, types.FunctionType):
            cells = [cell.cell_contents for cell in one.__closure__ or ()]
            return _Object(one.__qualname__, tuple(map(walk, cells)))
        if type(one).__module__ in ("threading", "_thread") or not hasattr(one, "__dict__"):
            return kind
        state = {name: item for name, item in vars(one).items() if name not in ignored}
        return _Object(kind, tuple((name, walk(state[name])) for name in sorted(state)))

    return walk(root)
