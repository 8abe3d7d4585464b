"""Compiles operator chains: everything after the head of a task becomes one function."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from enum import Enum
from typing import NamedTuple

from pystate.common.time import current_time_ms
from pystate.common.user_code.inlined_code import Code, inlined
from pystate.core.api.functions import Function, RuntimeContext
from pystate.core.api.operator_kind import OperatorKind
from pystate.core.records.element_copy import UNCHANGING, copied
from pystate.runtime.plan.chain import Chain, ChainNode, Copies, OperatorSpec, function_object
from pystate.runtime.plan.custom_partitions import CustomPartitions
from pystate.runtime.plan.task_output import OutputSpec
from pystate.runtime.slot.event_time.chain_time import ChainTime
from pystate.runtime.slot.operators.one_input import stateless_handler
from pystate.runtime.slot.operators.operator_output import Emit, Output
from pystate.runtime.slot.operators.timestamps import TimestampsAndWatermarks
from pystate.runtime.slot.output_buffer import OutputBuffer


def compile_chain(
    chain: Chain, buffers: Mapping[int, OutputBuffer], attach: Callable[[OperatorSpec, Output], Emit]
) -> Output:
    """Compile the operators after the head of a task into functions, one for its main output and one for each side output.

    Args:
        chain: The operators and outputs.
        buffers: The output buffers by tag.
        attach: Creates the handler of an operator, given the handler of its results. Called once per operator, the last ones
            first.
    """
    handlers: dict[int, Emit] = {}

    def handler(node: ChainNode) -> Emit:
        if id(node) not in handlers:
            handlers[id(node)] = attach(node.operator, output(node))
        return handlers[id(node)]

    def output(place: Chain | ChainNode) -> Output:
        ends = None if place.children else [buffers[output.tag] for output in place.outputs]
        return Output(join(place), {tag: join(side) for tag, side in place.side_outputs.items()}, ends)

    def join(place: Chain | ChainNode) -> Emit:
        # a buffer keeps no mutable objects; the last operator may take the element itself
        targets = [_Target(buffers[output.tag].append) for output in place.outputs]
        targets += [_Target(handler(child), copies=place.copies is not Copies.NONE) for child in place.children]
        if targets and place.copies is Copies.BUT_LAST:
            targets[-1] = _Target(targets[-1].emit)
        if len(targets) == 1 and not targets[0].copies:
            return targets[0].emit

        def write(code: Code, element: str) -> list[str]:
            return [line for target in targets for line in _hand_on(code, target, element)] or ["pass"]

        return inlined(write)

    return output(chain)


class _Target(NamedTuple):
    """What gets the results of an operator.

    Attributes:
        emit: Takes an element.
        copies: Whether it gets a copy of it.
    """

    emit: Emit
    copies: bool = False


def _hand_on(code: Code, target: _Target, element: str) -> list[str]:
    if not target.copies:
        return code.apply(target.emit, element)
    own, plain = code.name("own"), code.bind(UNCHANGING, "unchanging")
    line = f"{own} = {element} if type({element}) in {plain} else {code.bind(copied, 'copied')}({element})"
    return [line, *code.apply(target.emit, own)]


def partitioners(outputs: Iterable[OutputSpec]) -> list[tuple[Function, OperatorSpec]]:
    """Return the program's partitioners on the given edges; they are opened as operators are."""
    specs = [
        (edge.selector, OperatorSpec(f"{edge.target}-partitioner-{edge.tag}", "Partition Custom", OperatorKind.MAP, None))
        for edge in outputs
    ]
    return [(selector, spec) for selector, spec in specs if isinstance(selector, CustomPartitions)]


class ChainPhase(Enum):
    """The phases in the life of a chain's functions."""

    NEW = "new"
    OPEN = "open"
    CLOSED = "closed"


class CompiledChain:
    """A chain of stateless functions outside of a slot.

    Args:
        chain: The chain to compile.
        buffers: The output buffers by tag.
        context: Creates the runtime context of an operator.
        time: The chain's time.

    Attributes:
        emit: Processes one element.
        output: Takes elements of the main output, as `emit` does, and those of side outputs.
        assigners: The timestamp assigners, by uid.
    """

    def __init__(
        self,
        chain: Chain,
        buffers: dict[int, OutputBuffer],
        context: Callable[[OperatorSpec], RuntimeContext],
        time: ChainTime | None = None,
    ) -> None:
        self._context = context
        self._functions: list[tuple[Function, OperatorSpec]] = []
        self._phase = ChainPhase.NEW
        self._time = time or ChainTime(current_time_ms)
        self.assigners: dict[str, TimestampsAndWatermarks] = {}
        self.output = compile_chain(chain, buffers, self._attach)
        self.emit = self.output.emit
        self._functions += partitioners(chain.all_outputs())

    def open(self) -> None:
        """Open the functions, last first, so that the functions downstream of each are ready."""
        self._phase = ChainPhase.OPEN
        for function, spec in self._functions:
            function.open(self._context(spec))

    def close(self) -> None:
        """Close the functions, once."""
        if self._phase is ChainPhase.OPEN:
            self._phase = ChainPhase.CLOSED
            for function, _ in reversed(self._functions):
                function.close()

    def _attach(self, spec: OperatorSpec, output: Output) -> Emit:
        if spec.kind is OperatorKind.ASSIGN_TIMESTAMPS:
            assigner = TimestampsAndWatermarks(spec.function, output.emit, self._time, spec.name)
            self.assigners[spec.uid] = assigner
            return assigner.process_element
        function = function_object(spec.function)
        if isinstance(function, Function):
            self._functions.append((function, spec))
        return stateless_handler(spec.kind, spec.function, output, self._time)
