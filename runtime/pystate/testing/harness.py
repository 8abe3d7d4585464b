"""The test harness of one operator in one subtask, driven like in a slot of a job."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import pyarrow as pa

from pystate.common.errors import StateError
from pystate.common.type_info import TypeInformation
from pystate.core.api.operator_kind import OperatorKind
from pystate.core.api.output_tag import OutputTag
from pystate.core.api.state import MapStateDescriptor
from pystate.core.api.timer_service import TimeDomain
from pystate.core.metrics.sample import sorted_figures
from pystate.core.records.codec import KEY_FIELD, KEY_GROUP_FIELD, KIND_COLUMN, TIMESTAMP_FIELD, RecordCodec
from pystate.core.records.key_column import KeyColumn
from pystate.core.state.keys.keys import KeyCodec
from pystate.runtime.checkpoint.barrier import CheckpointBarrier
from pystate.runtime.plan.chain import Chain, OperatorSpec
from pystate.runtime.plan.task import JobEnvironment, TaskInput, TaskSpec
from pystate.runtime.plan.task_output import KindsPlace, OutputKind, OutputSpec
from pystate.runtime.slot.chain.operator_chain import OperatorChain
from pystate.testing.golden_run import GoldenRun
from pystate.testing.operator_snapshot import UID, OperatorSnapshot, repartition
from pystate.testing.steps import Elements, InputStep, ProcessingTime, Watermark

H = TypeVar("H", bound="OperatorTestHarness")

MAIN_OUTPUT = ""
"""The name of the main output among those of side outputs, which are never empty."""

MAX_PARALLELISM = 128
"""The number of key groups where a test doesn't set one."""


@dataclass
class HarnessInput:
    """An input stream of the operator.

    Attributes:
        type_info: The type of its elements; None for untyped.
        key_selector: Returns the key of an element; None for a non-keyed stream.
        broadcast: Whether every subtask gets every element.
    """

    type_info: TypeInformation | None = None
    key_selector: Callable[[Any], Any] | None = None
    broadcast: bool = False


class CollectedOutput:
    """The collected elements of one output.

    Args:
        decode: Returns the elements of a batch.

    Attributes:
        elements: All elements, including those of the current epoch.
    """

    def __init__(self, decode: Callable[[pa.RecordBatch], Iterable[Any]]) -> None:
        self.elements: list[Any] = []
        self._decode = decode
        self._kept = 0

    def take(self, batch: pa.RecordBatch) -> None:
        """Add a batch."""
        self.elements += self._decode(batch)

    def keep(self) -> None:
        """Keep the elements of the current epoch."""
        self._kept = len(self.elements)

    def roll_back(self) -> None:
        """Drop the elements of the current epoch."""
        del self.elements[self._kept :]

    def clear(self) -> None:
        """Drop all elements."""
        self.elements.clear()
        self._kept = 0


class OperatorTestHarness:
    """Base of all harnesses; use one of the subclasses.

    A test calls `initialize_state` with a snapshot, if there is one, `open`, processes elements, and calls `close`. Elements
    belong to the current epoch until `end_epoch`; `roll_back_epoch` undoes them. `snapshot`, `repartition` and the
    notifications are between two epochs, as in a job: they end the current epoch first.

    Exceptions of the function are raised unchanged.

    Args:
        kind: How the function is called.
        function: The function.
        inputs: The input streams.
        key_type: The type of the keys; None for untyped.
        descriptors: The broadcast states declared with `broadcast(...)`.
        side_outputs: The side outputs to collect, see `get_side_output`; others are dropped.
        output_type: The type of the results; None for untyped.
        parallelism: The number of subtasks of the operator; the harness is one of them.
        subtask_index: The index of this subtask, from 0.
        max_parallelism: The number of key groups.
        state_backend: A value of `state.backend.type`.
        job_parameters: The job's configuration.
        attempt: The number of the execution attempt.
    """

    def __init__(
        self,
        kind: OperatorKind,
        function: Any,
        inputs: Sequence[HarnessInput],
        *,
        key_type: TypeInformation | None = None,
        descriptors: Iterable[MapStateDescriptor] = (),
        side_outputs: Iterable[OutputTag] = (),
        output_type: TypeInformation | None = None,
        parallelism: int = 1,
        subtask_index: int = 0,
        max_parallelism: int = MAX_PARALLELISM,
        state_backend: str = "hashmap",
        job_parameters: dict[str, Any] | None = None,
        attempt: int = 0,
    ) -> None:
        self._inputs = list(inputs)
        self._codecs = [RecordCodec(read.type_info, kind.value, kinds=True) for read in self._inputs]
        self._key_codec = KeyCodec(key_type)
        self._key = KeyColumn(KEY_FIELD, key_type)
        self._directory = tempfile.TemporaryDirectory(prefix="pystate-test-")
        self._now = 0
        self._snapshot: OperatorSnapshot | None = None
        self._opened = False
        self._all_ended = False
        self._in_epoch = False
        self._recording: GoldenRun | None = None
        types = {MAIN_OUTPUT: output_type, **{tag.tag_id: tag.type_info for tag in side_outputs}}
        self._outputs = [CollectedOutput(RecordCodec(type_info, "output").decode) for type_info in types.values()]
        self._output_of = dict(zip(types, self._outputs, strict=True))
        ends = [
            Chain(outputs=[OutputSpec(number, OutputKind.FRAME, "output", type_info, kinds=KindsPlace.WHERE_USED)])
            for number, type_info in enumerate(types.values())
        ]
        self._task = TaskSpec(
            uid=UID,
            name=kind.value,
            vertex_id="0" * 32,
            parallelism=parallelism,
            max_parallelism=max_parallelism,
            inputs=[
                TaskInput(read.type_info, None if read.key_selector is None else self._key, read.broadcast, timestamped=True)
                for read in self._inputs
            ],
            head=OperatorSpec(UID, kind.value, kind, function, list(descriptors), output_type),
            chain=Chain(outputs=ends[0].outputs, side_outputs=dict(zip(list(types)[1:], ends[1:], strict=True))),
        )
        environment = JobEnvironment(
            job_id="0" * 32,
            job_name="test",
            attempt=attempt,
            configuration={name: str(value) for name, value in (job_parameters or {}).items()},
            state_backend=state_backend,
            kept_output_bytes=0,
            working_directory=self._directory.name,
        )
        self._chain = OperatorChain(self._task, subtask_index, environment, self._collect, lambda: self._now)

    def __enter__(self: H) -> H:
        """Return the harness."""
        return self

    def __exit__(self, *_: object) -> None:
        """Close the harness."""
        self.close()

    def initialize_state(self, snapshot: OperatorSnapshot) -> None:
        """Start from a snapshot of the same subtask and parallelism, or from a share of `repartition`.

        The state is restored in `open`. With union list state use `repartition` even at the same parallelism: a subtask gets
            back more than it wrote.

        Raises:
            StateError: The snapshot is for another subtask, or the harness is open.
        """
        task, index = self._task, self._chain.subtask
        wanted = (index, task.parallelism, task.max_parallelism)
        if (snapshot.subtask_index, snapshot.parallelism, snapshot.max_parallelism) != wanted:
            message = (
                f"The snapshot is for subtask {snapshot.subtask_index} of {snapshot.parallelism} with "
                f"{snapshot.max_parallelism} key groups; the harness is subtask {index} of {task.parallelism} with "
                f"{task.max_parallelism}."
            )
            hint = "spread the snapshots of all subtasks with repartition(...)"
            if snapshot.max_parallelism != task.max_parallelism:
                hint = f"make the harness with max_parallelism={snapshot.max_parallelism}"
            raise StateError(message, hint=hint)
        if self._opened:
            message = "State is restored before open()."
            raise StateError(message)
        self._snapshot = snapshot

    def initialize_state_from_savepoint(self, path: str, uid: str) -> None:
        """Start from the state that an operator of a job has in a savepoint or checkpoint, whatever its parallelism was.

        The state is restored in `open`, by the code of a job's restore. It stays where it is while the harness is used.

        Args:
            path: The directory of the savepoint or checkpoint, or its `_metadata`.
            uid: The operator's uid there.

        Raises:
            SnapshotError: There is no such snapshot or operator.
            RestoreError: The state can't be redistributed that way.
            StateError: The operator has another max parallelism than the harness, or the harness is open.
        """
        self.initialize_state(OperatorSnapshot.from_savepoint(path, uid, self._task.parallelism)[self._chain.subtask])

    def open(self) -> None:
        """Restore the state, and call `initialize_state` and `open` of the function.

        Raises:
            StateError: The harness is open.
        """
        if self._opened:
            message = "The harness is open already."
            hint = "the harnesses of ProcessFunctionTestHarnesses are open from the start; pystate_harness(...) opens others"
            raise StateError(message, hint=hint)
        old = self._snapshot
        restored = {} if old is None else {UID: old.restored}
        self._chain.open(restored, None if old is None else old.checkpoint_id)
        self._look_at_metrics()
        self._opened = True

    def end_epoch(self) -> None:
        """End the current epoch: its changes become part of the state.

        Raises:
            StateError: A state holds a value of the wrong type; the epoch has to be rolled back.
        """
        self._chain.flush_output()
        self._chain.finish_epoch()
        self._chain.metrics.sample_gauges()
        for output in self._outputs:
            output.keep()
        self._in_epoch = False
        if self._recording is not None:
            self._recording.end_epoch()

    def roll_back_epoch(self) -> None:
        """Undo the current epoch's changes to state and output, as when a Python worker dies in mid-epoch.

        Raises:
            PystateError: The job would have to restart from its latest checkpoint: the epoch has passed an element to a
                function that keeps state in its own fields.
        """
        beyond = self._chain.roll_back_epoch()
        for output in self._outputs:
            output.roll_back()
        self._in_epoch = False
        if self._recording is not None:
            self._recording.roll_back_epoch()
        if beyond is not None:
            raise beyond

    def snapshot(self, checkpoint_id: int, timestamp: int = 0) -> OperatorSnapshot:
        """Take a snapshot after the last element.

        Args:
            checkpoint_id: The checkpoint id that the function sees.
            timestamp: The trigger time that the function sees, ms since 1970.
        """
        self._between_epochs()
        frozen = self._chain.on_barrier(CheckpointBarrier(checkpoint_id, "", 0, timestamp, last=self._all_ended))
        task = self._task
        return OperatorSnapshot.write(frozen, checkpoint_id, self._chain.subtask, task.parallelism, task.max_parallelism)

    def notify_of_completed_checkpoint(self, checkpoint_id: int) -> None:
        """Notify the function that a checkpoint is complete."""
        self._between_epochs()
        self._chain.notify_checkpoint_complete(checkpoint_id)

    def notify_of_aborted_checkpoint(self, checkpoint_id: int) -> None:
        """Notify the function that a checkpoint was aborted."""
        self._between_epochs()
        self._chain.notify_checkpoint_aborted(checkpoint_id)

    repartition = staticmethod(repartition)

    def set_processing_time(self, milliseconds: int) -> None:
        """Set the processing time, ms since 1970, and fire the timers that are due. It is 0 at the start."""
        self._now = milliseconds
        self._look_at_metrics()
        if self._opened:
            self._in_epoch = True
            self._chain.on_tick()
        self._record(ProcessingTime(milliseconds))

    def get_processing_time(self) -> int:
        """Return the processing time."""
        return self._now

    def current_watermark(self) -> int:
        """Return the operator's event time, ms since 1970: -2^63 at the start."""
        return self._chain.current_watermark

    def num_event_time_timers(self) -> int:
        """Return the number of event-time timers."""
        return self._count_timers(TimeDomain.EVENT_TIME)

    def num_processing_time_timers(self) -> int:
        """Return the number of processing-time timers."""
        return self._count_timers(TimeDomain.PROCESSING_TIME)

    def apply(self, step: InputStep) -> None:
        """Take a step: elements, a watermark or a processing time, or end the epoch."""
        if isinstance(step, Elements):
            self._process(step.input, step.values, step.timestamps)
        elif isinstance(step, Watermark):
            self._process_watermark(step.input, step.timestamp)
        elif isinstance(step, ProcessingTime):
            self.set_processing_time(step.milliseconds)
        else:
            self.end_epoch()

    def record(self) -> GoldenRun:
        """Record from now on what the harness is given, for a test that expects the same results: see `GoldenRun.write`.

        Raises:
            StateError: The harness has results or an epoch already.
        """
        if self._in_epoch or any(output.elements for output in self._outputs):
            message = "A recording begins before the first element."
            raise StateError(message)
        self._recording = GoldenRun(self.results)
        return self._recording

    def results(self) -> dict[str, list[Any]]:
        """Return the results so far of the main output, whose name is "", and of each side output by its tag."""
        self._chain.flush_output()
        return {name: list(output.elements) for name, output in self._output_of.items()}

    def extract_output(self) -> list[Any]:
        """Return all results so far, in order, including those of the current epoch."""
        self._chain.flush_output()
        return list(self._output_of[MAIN_OUTPUT].elements)

    def get_side_output(self, output_tag: OutputTag) -> list[Any]:
        """Return the elements of a side output so far, in order, including those of the current epoch.

        Raises:
            StateError: The tag isn't among `side_outputs`.
        """
        if output_tag.tag_id not in self._output_of:
            message = f"The harness doesn't collect the side output {output_tag.tag_id!r}."
            raise StateError(message, hint="name it when you make the harness: side_outputs=[tag]")
        self._chain.flush_output()
        return list(self._output_of[output_tag.tag_id].elements)

    def clear_output(self) -> None:
        """Forget the results so far.

        Raises:
            StateError: They are recorded.
        """
        if self._recording is not None:
            message = "Results that are recorded can't be forgotten."
            raise StateError(message, hint="leave clear_output() out while record() is in force")
        self._chain.flush_output()
        for output in self._outputs:
            output.clear()

    def owns_key(self, key: Any) -> bool:
        """Return whether this subtask owns a key."""
        internal = self._key_codec.internal(key)
        return self._key_codec.key_group(internal, self._task.max_parallelism) in self._chain.key_groups

    def num_keyed_state_entries(self) -> int:
        """Return the number of entries in keyed state after the last ended epoch."""
        backend = self._chain.backend
        return 0 if backend is None else backend.entry_count()

    def get_metrics(self) -> dict[str, int | float | bool | str]:
        """Return the values of the function's metrics by name: groups and name joined by dots.

        A counter or gauge has its value; a meter its rate, and `NAME_count`; a distribution `NAME_count`, `NAME_sum`,
        `_min`, `_max` and `_mean`. Gauges have their value at the end of the last epoch, and meters use the time of
        `set_processing_time`.
        """
        return dict(sorted_figures(self._chain.metrics.operators[UID].samples()))

    def close(self) -> None:
        """Close the function and drop the state; idempotent."""
        self._chain.close()
        self._directory.cleanup()

    def _process(self, input_index: int, elements: Iterable[Any], timestamps: Iterable[int | None] | None = None) -> None:
        self._begin()
        batch = list(elements)
        times: list[int | None] = [None] * len(batch) if timestamps is None else list(timestamps)
        self._chain.on_batch(self._batch(input_index, batch, times), input_index)
        has_times = any(time is not None for time in times)
        self._record(Elements(batch, times if has_times else None, input_index))

    def _process_watermark(self, input_index: int, timestamp: int) -> None:
        self._begin()
        self._chain.on_watermark(timestamp, input_index)
        self._record(Watermark(timestamp, input_index))

    def _record(self, step: Elements | Watermark | ProcessingTime) -> None:
        if self._recording is not None:
            self._recording.add(step)

    def _begin(self) -> None:
        if not self._opened:
            message = "open() comes before the first element."
            raise StateError(message)
        self._in_epoch = True

    def _count_timers(self, domain: TimeDomain) -> int:
        return sum(1 for head in self._chain.operators if head.timers for _ in head.timers.timers(domain))

    def _batch(self, index: int, elements: list[Any], timestamps: list[int | None]) -> pa.RecordBatch:
        """Return elements as a batch from Spark's shuffle."""
        codec, select = self._codecs[index], self._inputs[index].key_selector
        prepared = elements if codec.prepare is None else [codec.prepare(element) for element in elements]
        arrays, fields = codec.encode(prepared), list(codec.schema)
        arrays.append(pa.array(timestamps, pa.int64()))
        fields.append(pa.field(TIMESTAMP_FIELD, pa.int64()))
        if select is not None:
            keys = [select(element) for element in elements]
            prepare_key = self._key.preparer()
            arrays.append(self._key.encode(keys if prepare_key is None else [prepare_key(key) for key in keys], "key"))
            internal, groups = self._key_codec.internal, self._task.max_parallelism
            arrays.append(pa.array([self._key_codec.key_group(internal(key), groups) for key in keys], pa.int32()))
            fields += [self._key.field(), pa.field(KEY_GROUP_FIELD, pa.int32())]
        if (kinds := codec.kinds_of(prepared)) is not None:
            arrays.append(kinds)
            fields.append(KIND_COLUMN)
        return pa.RecordBatch.from_arrays(arrays, schema=pa.schema(fields))

    def _look_at_metrics(self) -> None:
        self._chain.metrics.operators[UID].look(self._now / 1000)

    def _between_epochs(self) -> None:
        if self._in_epoch:
            self.end_epoch()

    def _collect(self, output: OutputSpec, batch: pa.RecordBatch) -> None:
        self._outputs[output.tag].take(batch)
