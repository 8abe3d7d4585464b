"""Jobs in one process that stop now and then and go on from a snapshot, with other subtasks and another state backend."""

from __future__ import annotations

import itertools
import time
from collections.abc import Sequence
from pathlib import Path
from unittest import mock

from pystate.common.configuration.configuration import Configuration
from pystate.core.api.executor import JobExecutionResult
from pystate.core.api.stream_graph import StreamGraph
from pystate.core.snapshot.metadata import CheckpointMetadata, CheckpointType, SavepointFormatType
from pystate.core.snapshot.operator_state import OperatorState
from pystate.core.snapshot.state_assignment import JobVertex, StateAssignmentOperation
from pystate.core.snapshot.storage.memory_storage import MemorySnapshotLocation
from pystate.core.snapshot.storage.snapshot_location import MEMORY_SCHEME
from pystate.runtime.checkpoint.barrier import CheckpointBarrier
from pystate.runtime.plan.job_plan import JobPlan
from pystate.runtime.plan.planner import JobPlanner
from pystate.runtime.slot.snapshots.restored_operator import RestoredOperator
from tests.fidelity.in_process import Clock, InProcessExecutor, InProcessJob

MAX_PARALLELISM = 16
LOCATION = f"{MEMORY_SCHEME}/test/chk-1"
ANY_SIZE = 1 << 62


class RestartingExecutor(InProcessExecutor):
    """Runs a job as attempts behind each other, each of which goes on from a snapshot that the one before took.

    Args:
        attempts: The parallelism and the state backend of each, again and again.
        epochs: How many epochs an attempt has, each of one element of each collection.
        directory: For what backends write.
    """

    def __init__(self, attempts: Sequence[tuple[int, str]], epochs: int, directory: Path) -> None:
        super().__init__()
        self._attempts = attempts
        self._epochs = epochs
        self._directory = directory

    def execute(self, graph: StreamGraph, configuration: Configuration, job_name: str) -> JobExecutionResult:
        uids = graph.assign_uids(auto=True)
        sources = graph.live_sources()
        clock = Clock()
        longest = max(len(source.collection) for source in sources)
        snapshot: CheckpointMetadata | None = None
        with mock.patch.object(time, "sleep", clock.sleep):
            for number in itertools.count():
                parallelism, backend = self._attempts[number % len(self._attempts)]
                plan = JobPlanner(graph, uids, parallelism, MAX_PARALLELISM).plan([one.output_type for one in sources])
                working = self._directory / f"attempt-{number}"
                working.mkdir(parents=True)
                job = InProcessJob(plan, clock, backend, str(working))
                _open(job, plan, snapshot)
                first = number * self._epochs
                for row in range(first, min(first + self._epochs, longest)):
                    job.run_epoch(slice(row, row + 1))
                if first + self._epochs >= longest:
                    break
                snapshot = _snapshot(job, plan)
                job.close()
            job.run_epoch(slice(0), end_of_input=True)
            job.commit_rest()
            job.close()
        return JobExecutionResult("0" * 32, 0)


def _open(job: InProcessJob, plan: JobPlan, snapshot: CheckpointMetadata | None) -> None:
    if snapshot is None:
        job.open()
        return
    vertices = [
        JobVertex(operator.uid, operator.uid, task.parallelism, task.max_parallelism)
        for task in plan.tasks
        for operator in task.operators
    ]
    assignment = StateAssignmentOperation(snapshot, vertices).assign()
    job.open(lambda uid, subtask: RestoredOperator.of(assignment, uid, subtask, LOCATION))


def _snapshot(job: InProcessJob, plan: JobPlan) -> CheckpointMetadata:
    location = MemorySnapshotLocation(LOCATION)
    states: dict[str, OperatorState] = {}
    for (uid, subtask), chain in job.chains.items():
        task = plan.task(uid)
        frozen = chain.on_barrier(CheckpointBarrier(1, LOCATION, ANY_SIZE, 0))
        for operator, state in frozen.write(location, subtask, ANY_SIZE).operators.items():
            empty = OperatorState(operator, operator, task.parallelism, task.max_parallelism)
            states.setdefault(operator, empty).subtasks[subtask] = state
        frozen.release()
    kind, form = CheckpointType.SAVEPOINT, SavepointFormatType.CANONICAL
    return CheckpointMetadata(1, kind, form, 0, "", "", 0, plan.parallelism, MAX_PARALLELISM, list(states.values()))
