"""The steps of a program, from its sources to its sinks.

Which of them share a task is decided later, by the translation to Spark. Source: Flink's `streaming.api.transformations`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, ClassVar

from pystate.common.errors import JobGraphError
from pystate.common.type_info import TypeInformation, TypeKind
from pystate.common.user_code.notebook import CellRun, current_cell
from pystate.common.user_code.taken import Taken, take
from pystate.common.user_code.user_frames import program_line
from pystate.common.watermark_strategy import WatermarkStrategy
from pystate.core.api.checkpointed import CheckpointedFunction, ListCheckpointed
from pystate.core.api.operator_kind import OperatorKind
from pystate.core.api.row_decoder import RowDecoder
from pystate.core.api.source_stream import CompletedOffsets, SourceIdentity, StoppingOffsets
from pystate.core.api.state import MapStateDescriptor
from pystate.core.api.window.window_operation import WindowOperation


class SinkKind(Enum):
    """The kind of a sink."""

    PRINT = "Print"
    FOR_EACH_BATCH = "ForEachBatch"
    FUNCTION = "Sink"
    COLLECT = "Collect"


class Partitioning(Enum):
    """How elements of a non-keyed stream are distributed over the subtasks of the next step."""

    FORWARD = "Forward"  # the one that belongs to the sender's partition
    REBALANCE = "Rebalance"  # the next one in turn
    SHUFFLE = "Shuffle"  # any one
    GLOBAL = "Global"  # the first one
    BROADCAST = "Broadcast"  # every one
    CUSTOM = "Custom"  # the one that a function names


@dataclass(eq=False)
class Transformation:
    """One step of the program.

    Attributes:
        name: The displayed name.
        parents: The steps this one reads; a step may occur twice.
        output_type: The type of its elements; None means untyped (pickled between tasks).
        uid: The identity of the step's state across versions of the job, as its author set it.
        parallelism: The number of its subtasks as its author set it; None for the job's.
        max_parallelism: The number of key groups of its state as its author set it; None for the job's.
        description: The text displayed in the plan; None for the name.
        non_parallel: Its parallelism must be 1.
        notices: Sentences for the program's author about it.
        detached: A job has taken the step, and no step built since reads it: it isn't part of any graph.
        place: The line of the program that added it, as "FILE, line N"; None if unknown.
        taken: The program's objects that are sent to where the step runs, by field, as they were when the step was added.
        cell: The notebook's cell that added it; None outside of notebooks.
    """

    SENT: ClassVar[tuple[str, ...]] = ()

    name: str
    parents: tuple[Transformation, ...] = ()
    output_type: TypeInformation | None = None
    uid: str | None = None
    parallelism: int | None = None
    max_parallelism: int | None = None
    description: str | None = None
    non_parallel: bool = False
    notices: list[str] = field(default_factory=list, repr=False)
    children: list[Transformation] = field(default_factory=list, repr=False)
    detached: bool = field(default=False, init=False, repr=False)
    place: str | None = field(default=None, repr=False)
    taken: dict[str, Taken] = field(default_factory=dict, repr=False)
    cell: CellRun | None = field(default_factory=current_cell, repr=False)

    def __post_init__(self) -> None:
        """Record the program's line, capture the user objects, and add the step to its parents.

        Raises:
            JobGraphError: What is handed over can't be sent to where it runs.
        """
        self.place = self.place or program_line()
        for name in self.sent:
            value = getattr(self, name)
            if name not in self.taken and value is not None:
                self.taken[name] = take(value, self.name, self.place)
        self.attach()

    def attach(self) -> None:
        """Add the step to its parents, and reattach parents that a job has detached."""
        for parent in self.parents:
            if parent.detached:
                parent.detached = False
                parent.attach()
            parent.children.append(self)

    @property
    def sent(self) -> tuple[str, ...]:
        """The fields with user objects that run in slots or in Spark's Python workers."""
        return self.SENT

    @property
    def parent(self) -> Transformation:
        """The only step this one reads."""
        (only,) = self.parents
        return only

    @property
    def keeps_state(self) -> bool:
        """Whether the step has state that another version of the job must be able to restore."""
        return False

    @property
    def keeps_type(self) -> bool:
        """Whether the output elements have the type of the input elements."""
        return False


@dataclass(eq=False)
class SourceTransformation(Transformation):
    """A streaming DataFrame, a collection of the program, or files.

    Attributes:
        frame: Called once per job; returns the streaming DataFrame. None for a collection and for files.
        collection: The elements; None for others.
        single_column: The elements are the values of the only column instead of rows.
        bounded: The source has an end.
        paths: Of a source of files, where they are; paths, URLs, or patterns.
        watermark_strategy: Assigns timestamps and watermarks; None if there are none.
        decoder: Converts rows to elements; None if rows, or their only column, are the elements.
        stopping: Where it ends; None if it has no end, or Spark finds it.
        completed_offsets: Is notified of the offsets of completed checkpoints; None if not needed.
        identity: The identity of what Spark's offsets refer to; None if not checked.
        in_slots: (session or None) -> the `Source` that reads the same data in slots, and its element type. None if there is
            no such source.
        partitioned_by: The columns that identify the durable partition of a row, as found by the engine.
        not_replayable: Why its elements can't be read again after a failure, as a clause; None if they can. Found by the
            engine where the source itself doesn't say.
        gives_some_again: Although it can't be replayed, some of its elements may come twice, as found by the engine.
        from_the_end: A start without a snapshot reads only new data, as found by the engine.
        from_the_group: A start without a snapshot reads only what follows the latest complete checkpoint, whose offsets were
            committed to the source's consumer group, as found by the engine.
        non_deterministic: The expressions that give different rows for the same input, as found by the engine.
        has_side_outputs: The source may emit to side outputs, before its timestamps.
    """

    SENT: ClassVar[tuple[str, ...]] = ("watermark_strategy", "decoder")

    frame: Callable[[], Any] | None = None
    collection: Sequence[Any] | None = None
    single_column: bool = False
    bounded: bool = False
    paths: tuple[str, ...] = ()
    watermark_strategy: WatermarkStrategy | None = None
    decoder: RowDecoder | None = None
    stopping: StoppingOffsets | None = None
    completed_offsets: CompletedOffsets | None = None
    identity: SourceIdentity | None = None
    in_slots: Callable[[Any], tuple[Any, TypeInformation]] | None = None
    partitioned_by: tuple[str, ...] = field(default=(), init=False)
    not_replayable: str | None = None
    gives_some_again: bool = field(default=False, init=False)
    from_the_end: bool = field(default=False, init=False)
    from_the_group: bool = field(default=False, init=False)
    non_deterministic: tuple[str, ...] = field(default=(), init=False)
    has_side_outputs: bool = False
    _timestamps: TimestampsTransformation | None = field(default=None, init=False, repr=False)

    def follow_timestamps(self, copies: Mapping[int, Transformation]) -> None:
        """Refer to the copy of the timestamp step, in a copied source.

        Args:
            copies: Of all steps of the graph, by `id(step)`.
        """
        found = copies.get(id(self._timestamps))
        self._timestamps = found if isinstance(found, TimestampsTransformation) else None

    def insert_timestamps(self) -> None:
        """Insert the timestamp step between the source and its readers; again if readers were added."""
        side = [child for child in self.children if isinstance(child, SideOutputTransformation)]
        read = [child for child in self.children if child is not self._timestamps and child not in side]
        if self.watermark_strategy is None or not read:
            return
        step = self._timestamps
        if step is None:
            step = TimestampsTransformation(
                f"{self.name} timestamps",
                (self,),
                self.output_type,
                place=self.place,
                cell=self.cell,
                taken={"function": self.taken["watermark_strategy"]},
                kind=OperatorKind.ASSIGN_TIMESTAMPS,
                function=self.watermark_strategy,
                inserted=True,
            )
            self._timestamps = step
        step.parallelism = self.parallelism  # elements routed differently would send their times to another subtask
        step.detached = False
        for child in read:
            child.parents = tuple(step if parent is self else parent for parent in child.parents)
            step.children.append(child)
        self.children = [step, *side]


@dataclass(eq=False)
class OwnSourceTransformation(SourceTransformation):
    """A source written in Python that runs as a task in slots; it isn't read by Spark.

    Attributes:
        function: The `SourceOperator` that runs it.
    """

    SENT: ClassVar[tuple[str, ...]] = ("watermark_strategy", "function")

    function: Any = None
    kind: OperatorKind = OperatorKind.SOURCE

    @property
    def keeps_state(self) -> bool:
        """Its read position is operator state."""
        return True


@dataclass(eq=False)
class OneInputTransformation(Transformation):
    """A function over the elements of one stream."""

    SENT: ClassVar[tuple[str, ...]] = ("function",)

    kind: OperatorKind = OperatorKind.MAP
    function: Any = None
    keyed: bool = False

    @property
    def keeps_state(self) -> bool:
        """Whether it may have keyed or operator state."""
        return self.keyed or isinstance(self.function, (CheckpointedFunction, ListCheckpointed))

    @property
    def keeps_type(self) -> bool:
        """Whether elements are forwarded unchanged."""
        if isinstance(self.function, WindowOperation):
            return self.function.keeps_type
        return self.kind.traits.keeps_type

    @property
    def has_side_outputs(self) -> bool:
        """Whether the function may emit to side outputs."""
        return self.kind.traits.has_context


@dataclass(eq=False)
class TimestampsTransformation(OneInputTransformation):
    """Assigns timestamps and generates watermarks; its function is a `WatermarkStrategy`.

    Attributes:
        is_read: Whether a downstream step needs time, as found by the planner. Otherwise it isn't run.
        inserted: It is the strategy of a source and not a step of the program: it doesn't affect generated uids.
    """

    is_read: bool = True
    inserted: bool = False

    @property
    def keeps_type(self) -> bool:
        """Elements are forwarded unchanged."""
        return True


@dataclass(eq=False)
class TwoInputTransformation(Transformation):
    """A function over the elements of two streams.

    Attributes:
        descriptors: The broadcast states declared with the second stream, for the broadcast kinds.
    """

    SENT: ClassVar[tuple[str, ...]] = ("function", "descriptors")

    kind: OperatorKind = OperatorKind.CO_MAP
    function: Any = None
    keyed: bool = False
    descriptors: tuple[MapStateDescriptor, ...] = ()

    @property
    def keeps_state(self) -> bool:
        """Whether it may have keyed, broadcast or operator state."""
        return self.keyed or bool(self.descriptors) or isinstance(self.function, (CheckpointedFunction, ListCheckpointed))

    @property
    def has_side_outputs(self) -> bool:
        """Whether the function may emit to side outputs."""
        return self.kind.traits.has_context


@dataclass(eq=False)
class VirtualTransformation(Transformation):
    """A step without an operator: it only declares how elements get to the next step."""

    @property
    def keeps_type(self) -> bool:
        """Elements are forwarded unchanged."""
        return True


@dataclass(eq=False)
class KeyByTransformation(VirtualTransformation):
    """Partitions the stream by key; each key goes to one subtask of the next step.

    Attributes:
        column: The key is this column of the rows, or None.
        selector: The key is what this function returns, or None.
        key_type: The type of the key; None for untyped keys.
    """

    SENT: ClassVar[tuple[str, ...]] = ("selector",)

    column: str | None = None
    selector: Callable[[Any], Any] | None = None
    key_type: TypeInformation | None = None


@dataclass(eq=False)
class PartitionTransformation(VirtualTransformation):
    """Declares how elements are distributed over the subtasks of the next step."""

    partitioning: Partitioning = Partitioning.REBALANCE


@dataclass(eq=False)
class CustomPartitionTransformation(PartitionTransformation):
    """Distributes elements over the subtasks of the next step by a function.

    Attributes:
        partitioner: A `Partitioner`, or a function, of a key and the number of subtasks.
        key_selector: A `KeySelector`, or a function, that makes the key of an element.
    """

    SENT: ClassVar[tuple[str, ...]] = ("partitioner", "key_selector")

    partitioner: Any = None
    key_selector: Any = None


@dataclass(eq=False)
class SideOutputTransformation(VirtualTransformation):
    """A side output of the step that it reads.

    Attributes:
        tag: The name of its tag.
    """

    tag: str = ""

    @property
    def keeps_type(self) -> bool:
        """The tag determines the type."""
        return False


@dataclass(eq=False)
class UnionTransformation(VirtualTransformation):
    """The elements of several streams of one type, in no order between the streams."""


@dataclass(eq=False)
class SinkTransformation(Transformation):
    """The end of a stream.

    Attributes:
        function: For FOR_EACH_BATCH: called with (DataFrame, epoch). For FUNCTION: a `SinkFunction`. For COLLECT: the queue
            that the program takes results from.
        identifier: For PRINT: a prefix of every line.
        stateless: Whether the function, though it takes part in checkpoints, is known to put nothing into them.
    """

    kind: SinkKind = SinkKind.PRINT
    function: Any = None
    identifier: str | None = None
    stateless: bool = False

    @property
    def sent(self) -> tuple[str, ...]:
        """Its function, if it is called in a slot and not in the program's process."""
        return ("function",) if self.kind is SinkKind.FUNCTION else ()

    @property
    def keeps_state(self) -> bool:
        """Whether it may have operator state."""
        return not self.stateless and isinstance(self.function, (CheckpointedFunction, ListCheckpointed))


def is_read_by_spark(step: Transformation) -> bool:
    """Return whether a step is a source that doesn't run in slots."""
    return isinstance(step, SourceTransformation) and not isinstance(step, OwnSourceTransformation)


def as_written(parent: Transformation) -> Transformation:
    """Return the step that the program reads: the source, if its watermark strategy was inserted between."""
    return parent.parent if isinstance(parent, TimestampsTransformation) and parent.inserted else parent


def live_children(step: Transformation) -> list[Transformation]:
    """Return the children, each as often as it reads this step, without virtual steps that nothing reads."""
    return [child for child in step.children if not isinstance(child, VirtualTransformation) or live_children(child)]


def without_key(step: Transformation) -> Transformation:
    """Return the input of a key_by(): another partitioning makes the key irrelevant."""
    return without_key(step.parent) if isinstance(step, KeyByTransformation) else step


def check_same_type(first: Transformation, second: Transformation) -> None:
    """Reject a union of streams of different types.

    Raises:
        JobGraphError: Names both types.
    """
    if element_type(first.output_type) != element_type(second.output_type):
        message = (
            f"union() takes streams of one type: {first.name!r} has {type_name(first.output_type)}, "
            f"{second.name!r} has {type_name(second.output_type)}."
        )
        raise JobGraphError(message, hint="give both the same output_type, with a map() in front where they differ")


def element_type(type_info: TypeInformation | None) -> TypeInformation | None:
    """Return the type used for transport: pickled elements are untyped."""
    return None if type_info is not None and type_info.kind is TypeKind.PICKLED_BYTE_ARRAY else type_info


def type_name(type_info: TypeInformation | None) -> str:
    """Return the name of a type for errors."""
    return "no declared type" if element_type(type_info) is None or type_info is None else type_info.name
