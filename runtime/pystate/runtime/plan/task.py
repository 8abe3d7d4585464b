"""The descriptors that the driver deploys to slots: of a task, and of its job."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from pystate.common.key_groups import KeyGroupRange, key_group_range
from pystate.common.type_info import TypeInformation
from pystate.common.user_code.program_classes import ProgramClasses
from pystate.common.user_code.taken import SendsTaken, Taken
from pystate.core.api.operator_kind import OperatorKind
from pystate.core.api.row_decoder import RowDecoder
from pystate.core.records.key_column import KeyColumn
from pystate.runtime.plan.chain import Chain, OperatorSpec
from pystate.runtime.plan.task_output import OutputKind, OutputSpec

_SUBTASK = ", subtask "


@dataclass
class TaskInput(SendsTaken):
    """One input stream of a task.

    Attributes:
        type_info: The type of the elements, None if they are untyped.
        key: The position of the key in the rows; None if this input isn't keyed.
        broadcast: Whether every subtask gets every row, within an epoch before the rows of other inputs.
        timestamped: Whether rows have a timestamp column, and watermarks come along with them.
        channels: Of a timestamped input: the channels that send watermarks, with their idle timeout in ms; None for never.
        partitioned_by: Of a source with durable partitions: the columns that identify the partition of a row.
        decoder: Of a source: converts rows to elements, if rows are not the elements.
        taken: The decoder as captured from the program.
    """

    type_info: TypeInformation | None
    key: KeyColumn | None = None
    broadcast: bool = False
    timestamped: bool = False
    channels: dict[str, int | None] = field(default_factory=dict)
    partitioned_by: tuple[str, ...] = ()
    decoder: RowDecoder | None = None
    taken: dict[str, Taken] = field(default_factory=dict, repr=False)


@dataclass
class TaskSpec:
    """A vertex of the running job: a stateful operator, or the end of a stateless stream, with its chain.

    Attributes:
        uid: The uid of the operator that heads the task.
        inputs: The input streams, one or two; a batch of rows names its input by index. A union of streams is one input.
        head: The operator that runs on the inputs; None if the only input goes straight into the chain.
        chain: The operators and outputs after the head.
        is_source: Whether this is the stateless part of a source, which runs upstream of the first shuffle.
    """

    uid: str
    name: str
    vertex_id: str
    parallelism: int
    max_parallelism: int
    inputs: list[TaskInput]
    head: OperatorSpec | None = None
    chain: Chain = field(default_factory=Chain)
    is_source: bool = False

    @property
    def chained_name(self) -> str:
        """The names of the chained operators, in Flink's form: `Source: words -> Map, Filter -> Sink: Print`."""
        parts = [f"Source: {self.name}"] if self.is_source else []
        parts += [operator.name for operator in self.operators if operator.kind is OperatorKind.SOURCE]
        ends = (OperatorKind.SINK, OperatorKind.SOURCE)
        functions = [operator.name for operator in self.operators if operator.kind not in ends]
        sinks = [operator.name for operator in self.operators if operator.kind is OperatorKind.SINK]
        sinks += [output.name for output in self.outputs if output.kind is not OutputKind.EDGE]
        if functions:
            parts.append(", ".join(functions))
        if sinks:
            texts = [f"Sink: {name}" for name in sinks]
            parts.append(texts[0] if len(texts) == 1 else f"({', '.join(texts)})")
        return " -> ".join(parts) or self.name

    @property
    def key(self) -> KeyColumn | None:
        """The position of the key in the rows of the first keyed input; None if the task isn't keyed."""
        return next((read.key for read in self.inputs if read.key is not None), None)

    @property
    def operators(self) -> list[OperatorSpec]:
        """All operators of the task, the head first."""
        return [*([] if self.head is None else [self.head]), *self.chain.all_operators()]

    @property
    def is_own_source(self) -> bool:
        """Whether its head is a source that runs in slots."""
        return self.head is not None and self.head.kind is OperatorKind.SOURCE

    @property
    def stands_for_itself(self) -> bool:
        """Whether none of its operators has its uid, as where it hands rows to `for_each_batch`.

        What was in flight to it is in snapshots under its own uid then.
        """
        return all(operator.uid != self.uid for operator in self.operators)

    @property
    def outputs(self) -> list[OutputSpec]:
        """All outputs of the task."""
        return self.chain.all_outputs()

    def output(self, tag: int) -> OutputSpec:
        """Return the output with that tag; below 0 it is the one beside an edge that carries watermarks."""
        if tag < 0:
            return self.output(-1 - tag).watermarks()
        return next(output for output in self.outputs if output.tag == tag)

    def place_of(self, subtask: int) -> str:
        """Return the name of a subtask for errors."""
        return f"{self.name} (uid {self.uid}){_SUBTASK}{subtask}"

    def key_group_range(self, subtask: int) -> KeyGroupRange:
        """Return the key groups that a subtask owns."""
        return key_group_range(subtask, self.parallelism, self.max_parallelism)


def task_in(place: str) -> str:
    """Return the task of a subtask's name as given by `TaskSpec.place_of`."""
    return place.partition(_SUBTASK)[0]


@dataclass(frozen=True)
class JobEnvironment:
    """The information about the job that every subtask has.

    Attributes:
        configuration: The effective options, as text.
        kept_output_bytes: The memory bound of one subtask's kept output.
        working_directory: A folder of this slot and execution attempt alone.
        batch: All input is one epoch, and reaches keyed tasks key by key in the order of time.
        program_classes: Of the program's file.
    """

    job_id: str
    job_name: str
    attempt: int
    configuration: dict[str, Any]
    state_backend: str
    kept_output_bytes: int
    working_directory: str
    batch: bool = False
    program_classes: ProgramClasses = ProgramClasses({})
