"""Functions chained in one task: an element goes through them by plain calls, without being serialized in between.

A chain is a tree (behind a union two of its branches may lead to the same node). Its inner nodes are operators, its leaves
are outputs: an edge to the next task, or a sink. The same chains run in the stateless stage in front of a shuffle and in
slots.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

from pystate.api.checkpointed import CheckpointedFunction, CheckpointListener, ListCheckpointed
from pystate.api.functions import (
    BaseBroadcastProcessFunction,
    CoFlatMapFunction,
    CoMapFunction,
    CoProcessFunction,
    Function,
    KeyedCoProcessFunction,
    RuntimeContext,
    SinkFunction,
)
from pystate.api.job_graph import OperatorKind
from pystate.api.state import MapStateDescriptor
from pystate.slot.operators.one_input import Emit, stateless_handler
from pystate.slot.output import OutputSpec
from pystate.slot.output_buffer import OutputBuffer

CHECKPOINT_MIXINS = (CheckpointedFunction, ListCheckpointed, CheckpointListener)
"""What a function mixes in to take part in checkpoints."""

_SLOT_FUNCTIONS = (
    *CHECKPOINT_MIXINS,
    SinkFunction,
    BaseBroadcastProcessFunction,
    CoMapFunction,
    CoFlatMapFunction,
    CoProcessFunction,
    KeyedCoProcessFunction,
)


@dataclass
class OperatorSpec:
    """One operator of a task.

    Attributes:
        uid: The identity of its state.
        function: The user's function object, or a plain function.
        descriptors: For the broadcast kinds: the broadcast states that were declared with `broadcast(...)`.
    """

    uid: str
    name: str
    kind: OperatorKind
    function: Any
    descriptors: list[MapStateDescriptor] = field(default_factory=list)


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
        """Return the outputs of the whole tree, each once."""
        found = [*self.outputs, *(output for node in self.nodes() for output in node.outputs)]
        return list({output.tag: output for output in found}.values())

    def all_operators(self) -> list[OperatorSpec]:
        """Return the operators of the whole tree."""
        return [node.operator for node in self.nodes()]

    def nodes(self) -> Iterator[ChainNode]:
        """Yield every node once: behind a union one node follows several."""
        seen: set[int] = set()
        stack = list(self.children)
        while stack:
            node = stack.pop()
            if id(node) not in seen:
                seen.add(id(node))
                yield node
                stack.extend(node.children)


def compile_chain(chain: Chain, buffers: Mapping[int, OutputBuffer], attach: Callable[[OperatorSpec, Emit], Emit]) -> Emit:
    """Turn what follows the head of a task into one function.

    Args:
        chain: The operators and outputs.
        buffers: The output buffers by tag.
        attach: Makes the handler of an operator, from what takes its results. Called once per operator, for the last ones
            first.
    """
    handlers: dict[int, Emit] = {}

    def handler(node: ChainNode) -> Emit:
        if id(node) not in handlers:
            handlers[id(node)] = attach(node.operator, join(node))
        return handlers[id(node)]

    def join(place: Chain | ChainNode) -> Emit:
        targets = [handler(child) for child in place.children]
        targets += [buffers[output.tag].append for output in place.outputs]
        if len(targets) == 1:
            return targets[0]

        def emit_to_all(element: Any) -> None:
            for target in targets:
                target(element)

        return emit_to_all

    return join(chain)


class ChainPhase(Enum):
    """Where a chain's functions stand in their life."""

    NEW = "new"
    OPEN = "open"
    CLOSED = "closed"


class CompiledChain:
    """A chain of stateless functions outside of a slot.

    Args:
        chain: What to compile.
        buffers: The output buffers by tag.
        context: Makes the runtime context of an operator.

    Attributes:
        emit: Takes one element.
    """

    def __init__(
        self, chain: Chain, buffers: dict[int, OutputBuffer], context: Callable[[OperatorSpec], RuntimeContext]
    ) -> None:
        self._context = context
        self._functions: list[tuple[Function, OperatorSpec]] = []
        self._phase = ChainPhase.NEW
        self.emit = compile_chain(chain, buffers, self._attach)

    def open(self) -> None:
        """Open the functions, last first, so that each finds what is behind it ready."""
        self._phase = ChainPhase.OPEN
        for function, spec in self._functions:
            function.open(self._context(spec))

    def close(self) -> None:
        """Close the functions, once."""
        if self._phase is ChainPhase.OPEN:
            self._phase = ChainPhase.CLOSED
            for function, _ in reversed(self._functions):
                function.close()

    def _attach(self, spec: OperatorSpec, emit: Emit) -> Emit:
        function = function_object(spec.function)
        if isinstance(function, Function):
            self._functions.append((function, spec))
        return stateless_handler(spec.kind, spec.function, emit)


def function_object(function: Any) -> Any:
    """Return the object behind a function: that of a bound method, of a partial, of what `functools.wraps` decorated.

    An author may write `stream.map(counter.count)`: it is the counter that keeps state.
    """
    seen = 0
    while seen < 16:  # a chain of wrappers may be a ring
        inner = getattr(function, "__self__", None) if inspect.ismethod(function) else None
        if inner is None and isinstance(function, functools.partial):
            inner = function.func
        if inner is None and not isinstance(function, (Function, *CHECKPOINT_MIXINS)):
            inner = getattr(function, "__wrapped__", None)
        if inner is None:
            return function
        function, seen = inner, seen + 1
    return function


def needs_slot(function: Any) -> bool:
    """Return whether a function must run in a slot, never in the stateless stage behind a source."""
    return isinstance(function, _SLOT_FUNCTIONS) or isinstance(function_object(function), CHECKPOINT_MIXINS)
