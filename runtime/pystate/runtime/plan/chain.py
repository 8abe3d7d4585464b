"""Operator chains: functions in one task that pass elements by plain calls, without serialization.

A chain is a tree (after a union, two of its branches may lead to the same node). Its inner nodes are operators, its leaves
are outputs: an edge to the next task, or a sink. The same chains run in the stateless stage upstream of a shuffle and in
slots.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

from pystate.common.type_info import TypeInformation
from pystate.common.user_code.taken import SendsTaken, Taken
from pystate.core.api.checkpointed import CheckpointedFunction, CheckpointListener, ListCheckpointed
from pystate.core.api.functions import (
    Function,
)
from pystate.core.api.operator_kind import OperatorKind
from pystate.core.api.state import MapStateDescriptor
from pystate.core.api.transformations import OneInputTransformation, Transformation, TwoInputTransformation
from pystate.runtime.plan.task_output import OutputSpec

CHECKPOINT_MIXINS = (CheckpointedFunction, ListCheckpointed, CheckpointListener)
"""The mixins of functions that take part in checkpoints."""

_KINDS = [(kind.traits, function) for kind in OperatorKind if (function := kind.traits.function) is not None]
_SLOT_FUNCTIONS: tuple[type[Any], ...] = (
    *CHECKPOINT_MIXINS,
    *(function for traits, function in _KINDS if traits.needs_slot),
)
_TIMED_FUNCTIONS = tuple(function for _, function in _KINDS if hasattr(function, "on_timer"))


@dataclass
class OperatorSpec(SendsTaken):
    """One operator of a task.

    Attributes:
        uid: The identity of its state.
        function: The user's function object, or a plain function.
        descriptors: For the broadcast kinds: the broadcast states that were declared with `broadcast(...)`.
        output_type: Of a task's head: the type of its results, None for untyped ones.
        taken: Function and descriptors as captured from the program.
    """

    uid: str
    name: str
    kind: OperatorKind
    function: Any
    descriptors: list[MapStateDescriptor] = field(default_factory=list)
    output_type: TypeInformation | None = None
    taken: dict[str, Taken] = field(default_factory=dict, repr=False)


class Copies(Enum):
    """Which of the next operators get a copy of each element, since others hold it, too."""

    NONE = "none"
    BUT_LAST = "but the last"  # one element, several operators: all but one of them
    ALL = "all"  # whatever made the element may still have it, in its state or on its way to a side output


@dataclass
class ChainNode:
    """An operator with its downstream operators and outputs.

    Attributes:
        operator: The operator.
        children: Operators that read its main output.
        outputs: The outputs of the task that its main output feeds.
        side_outputs: The consumers of its side outputs, by tag name.
        copies: Which children get copies.
    """

    operator: OperatorSpec
    children: list[ChainNode] = field(default_factory=list)
    outputs: list[OutputSpec] = field(default_factory=list)
    side_outputs: dict[str, Chain] = field(default_factory=dict)
    copies: Copies = Copies.NONE


@dataclass
class Chain:
    """The operators and outputs chained to the head of a task (or to a source).

    Attributes:
        children: Operators that read the main output.
        outputs: The outputs of the task that the main output feeds.
        side_outputs: The consumers of the head's side outputs, by tag name.
        copies: Which children get copies.
    """

    children: list[ChainNode] = field(default_factory=list)
    outputs: list[OutputSpec] = field(default_factory=list)
    side_outputs: dict[str, Chain] = field(default_factory=dict)
    copies: Copies = Copies.NONE

    def all_outputs(self) -> list[OutputSpec]:
        """Return the outputs of the whole tree, each once."""
        found = [output for place in self.places() for output in place.outputs]
        return list({output.tag: output for output in found}.values())

    def all_operators(self) -> list[OperatorSpec]:
        """Return the operators of the whole tree."""
        return [node.operator for node in self.nodes()]

    def nodes(self) -> Iterator[ChainNode]:
        """Yield every node once: after a union, a node has several parents."""
        for place in self.places():
            if isinstance(place, ChainNode):
                yield place

    def places(self) -> Iterator[Chain | ChainNode]:
        """Yield all places that receive results, each once: this one, side outputs, and nodes."""
        seen: set[int] = set()
        stack: list[Chain | ChainNode] = [self]
        while stack:
            place = stack.pop()
            if id(place) not in seen:
                seen.add(id(place))
                yield place
                stack.extend(place.side_outputs.values())
                stack.extend(place.children)


def function_object(function: Any) -> Any:
    """Return the object underlying a function: of a bound method, a partial, or what `functools.wraps` decorated.

    In `stream.map(counter.count)` it is the counter that keeps state.
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
    """Return whether a function must run in a slot, not in the stateless stage of a source."""
    return isinstance(function, _SLOT_FUNCTIONS) or isinstance(function_object(function), CHECKPOINT_MIXINS)


def keeps_results(step: Transformation) -> bool:
    """Return whether a step may keep emitted elements in its state."""
    if not isinstance(step, (OneInputTransformation, TwoInputTransformation)) or not step.keeps_state:
        return False
    # a plain function on a keyed stream has no context to ask for state
    return step.kind.traits.keeps_state or isinstance(function_object(step.function), (Function, *CHECKPOINT_MIXINS))


def has_on_timer(function: Any) -> bool:
    """Return whether a function implements `on_timer`."""
    known = [base.on_timer for base in _TIMED_FUNCTIONS if isinstance(function, base)]
    return bool(known) and type(function).on_timer not in known
