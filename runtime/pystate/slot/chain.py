"""Functions chained in one task: an element goes through them by plain calls, without being serialized in between.

A chain is a tree. Its inner nodes are operators, its leaves are outputs: an edge to the next task, or a sink. The same
chains run in the stateless stage in front of a shuffle and in slots.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

from pystate.api.functions import (
    FilterFunction,
    FlatMapFunction,
    Function,
    KeyedProcessFunction,
    MapFunction,
    RuntimeContext,
)
from pystate.api.job_graph import OperatorKind
from pystate.slot.output import OutputBuffer, OutputSpec

Emit = Callable[[Any], None]


@dataclass
class OperatorSpec:
    """One operator of a chain."""

    uid: str
    name: str
    kind: OperatorKind
    function: Any


@dataclass
class ChainNode:
    """An operator with what follows it."""

    operator: OperatorSpec
    children: list[ChainNode] = field(default_factory=list)
    outputs: list[OutputSpec] = field(default_factory=list)


@dataclass
class Chain:
    """What follows the head of a task (or a source): operators and outputs."""

    children: list[ChainNode] = field(default_factory=list)
    outputs: list[OutputSpec] = field(default_factory=list)

    def all_outputs(self) -> list[OutputSpec]:
        """Return the outputs of the whole tree."""
        found = list(self.outputs)
        stack = list(self.children)
        while stack:
            node = stack.pop()
            found.extend(node.outputs)
            stack.extend(node.children)
        return found

    def all_operators(self) -> list[OperatorSpec]:
        """Return the operators of the whole tree."""
        found = []
        stack = list(self.children)
        while stack:
            node = stack.pop()
            found.append(node.operator)
            stack.extend(node.children)
        return found


class ChainPhase(Enum):
    """Where a chain's functions stand in their life."""

    NEW = "new"
    OPEN = "open"
    CLOSED = "closed"


class CompiledChain:
    """A chain turned into one function per head: `emit(element)`.

    Args:
        chain: What to compile.
        buffers: The output buffers by tag.
        context: Makes the runtime context of an operator.
    """

    def __init__(
        self, chain: Chain, buffers: dict[int, OutputBuffer], context: Callable[[OperatorSpec], RuntimeContext]
    ) -> None:
        self._buffers = buffers
        self._context = context
        self._functions: list[tuple[Function, OperatorSpec]] = []
        self._phase = ChainPhase.NEW
        self.emit = self._join(chain.children, chain.outputs)

    def open(self) -> None:
        """Open the functions, last first, so that each finds what is behind it ready."""
        self._phase = ChainPhase.OPEN
        for function, spec in reversed(self._functions):
            function.open(self._context(spec))

    def close(self) -> None:
        """Close the functions, once."""
        if self._phase is ChainPhase.OPEN:
            self._phase = ChainPhase.CLOSED
            for function, _ in self._functions:
                function.close()

    def _join(self, children: list[ChainNode], outputs: list[OutputSpec]) -> Emit:
        targets = [self._compile(child) for child in children]
        targets += [self._buffers[output.tag].append for output in outputs]
        if len(targets) == 1:
            return targets[0]

        def emit_to_all(element: Any) -> None:
            for target in targets:
                target(element)

        return emit_to_all

    def _compile(self, node: ChainNode) -> Emit:
        spec = node.operator
        if isinstance(spec.function, Function):
            self._functions.append((spec.function, spec))
        emit = self._join(node.children, node.outputs)
        call = plain_callable(spec)
        if spec.kind is OperatorKind.MAP:

            def run_map(element: Any) -> None:
                emit(call(element))

            return run_map
        if spec.kind is OperatorKind.FILTER:

            def run_filter(element: Any) -> None:
                if call(element):
                    emit(element)

            return run_filter

        def run_flat_map(element: Any) -> None:
            results: Iterable[Any] | None = call(element)
            if results is not None:
                for result in results:
                    emit(result)

        return run_flat_map


def plain_callable(spec: OperatorSpec) -> Callable[..., Any]:
    """Return the method of a function object, or the plain function itself."""
    function = spec.function
    if isinstance(function, MapFunction):
        return function.map
    if isinstance(function, FlatMapFunction):
        return function.flat_map
    if isinstance(function, FilterFunction):
        return function.filter
    if isinstance(function, KeyedProcessFunction):
        return function.process_element
    checked: Callable[..., Any] = function
    return checked
