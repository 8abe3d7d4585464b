"""What was in flight to a task, and jobs that have other channels: each way to start from it says so, without Spark."""

from __future__ import annotations

import pytest

from pystate.common import Types
from pystate.common.configuration.configuration import Configuration
from pystate.core.snapshot.handles.handles import ByteStreamStateHandle
from pystate.core.snapshot.handles.input_channel_state import ChannelStateRescaleError, InputChannelStateHandle
from pystate.core.snapshot.metadata import CheckpointMetadata, CheckpointType, SavepointFormatType
from pystate.core.snapshot.metadata_file import write_metadata
from pystate.core.snapshot.operator_state import OperatorState, OperatorSubtaskState
from pystate.core.snapshot.storage.snapshot_location import SnapshotLocation
from pystate.runtime.driver.program.early_check import check_before_spark
from pystate.runtime.driver.program.restore_check import Fit, check_against
from pystate.runtime.execution.restore import RestorePlan, load_snapshot
from pystate.runtime.execution.sources_in_slots import sources_in_slots
from pystate.runtime.plan.channels import JobChannels
from pystate.runtime.plan.planner import JobPlanner
from tests.runtime.engines.real_time.driver.jobs import graph_of
from tests.runtime.engines.real_time.driver.programs import numbers

PARALLELISM = 2


def program(*, senders=None, uid="slow", others=False):
    """A source that sends to a map in turn, which sends to one function of DataFrames; collections are read by one."""

    def made(environment):
        stream = environment.from_source(numbers(10, 10), None, "numbers").uid("numbers")
        if senders is not None:
            stream.set_parallelism(senders)
        words = environment.from_collection([1, 2], Types.LONG()).uid("collection")
        streams = [words, *([environment.from_collection([3], Types.LONG()).uid("more")] if others else [])]
        slow = stream.union(*streams).rebalance().map(abs, Types.LONG()).uid(uid)
        slow.for_each_batch(print).uid("frames").set_parallelism(1)

    return made


def planned(options, **what):
    graph = graph_of(program(**what), options)
    uids = graph.assign_uids(auto=True)
    sources_in_slots(graph, uids, None)
    return JobPlanner(graph, uids, int(options["parallelism.default"])).plan([])


def options_of(path=None, *, parallelism=PARALLELISM, engine="real-time"):
    options = {"execution.engine": engine, "parallelism.default": str(parallelism)}
    return options if path is None else {**options, "execution.state-recovery.path": str(path)}


@pytest.fixture
def path(tmp_path):
    """A checkpoint with data in flight to the map and to the function."""
    operators = []
    for uid, task in JobChannels.of(planned(options_of())).tasks.items():
        if task.upstream:
            in_flight = InputChannelStateHandle(list(task.upstream), [ByteStreamStateHandle(b"12345")])
            subtasks = {task.parallelism - 1: OperatorSubtaskState(input_channel_state=in_flight)}
            operators.append(OperatorState(uid, uid, task.parallelism, 128, subtasks=subtasks))
    assert [operator.uid for operator in operators] == ["slow", "frames"]
    metadata = CheckpointMetadata(
        7, CheckpointType.CHECKPOINT, SavepointFormatType.CANONICAL, 0, "a" * 32, "job", -1, PARALLELISM, 128, operators
    )
    location = SnapshotLocation(str(tmp_path / "chk-7"))
    location.create()
    location.write_metadata(write_metadata(metadata))
    return tmp_path / "chk-7"


def refused_by_info(options, path, **what):
    """Return what `pystate info -s` says of each operator that doesn't fit."""
    graph = graph_of(program(**what), options)
    found = check_against(graph, graph.assign_uids(auto=True), Configuration(options), load_snapshot(str(path)))
    return {one.uid: one.problem for one in found.operators if one.fit is Fit.MISFIT}


def test_the_same_program_gets_what_was_in_flight_to_tasks_with_and_without_a_head(path):
    options = options_of(path)
    assert check_before_spark(graph_of(program(), options), Configuration(options), starts=True) is not None
    assert refused_by_info(options, path) == {}
    restored = RestorePlan(planned(options), allow_non_restored=False).restored(load_snapshot(str(path)))
    first, second = restored.operators
    assert [slot["slow"].in_flight is None for slot in (first, second)] == [True, False]
    assert first["frames"].in_flight.upstream == [("slow", 0), ("slow", 1)]


@pytest.mark.parametrize(
    ("parallelism", "what", "why"),
    [
        (3, {}, "its parallelism was 2 and is 3"),
        (3, {"senders": 2}, "its parallelism was 2 and is 3"),
        (2, {"senders": 1}, "it came from numbers, whose parallelism was 2 and is 1"),
    ],
)
def test_each_way_in_refuses_another_parallelism_of_who_receives_or_sends(path, parallelism, what, why):
    options = options_of(path, parallelism=parallelism)
    with pytest.raises(ChannelStateRescaleError) as refused:
        check_before_spark(graph_of(program(**what), options), Configuration(options), starts=True)
    assert why in refused.value.message
    assert "to rescale, take a savepoint of that job" in refused.value.hint
    assert why in refused_by_info(options, path, **what)["slow"]
    with pytest.raises(ChannelStateRescaleError):
        RestorePlan(planned(options, **what), allow_non_restored=False).restored(load_snapshot(str(path)))


def test_one_more_sender_is_refused_by_the_driver(path):
    plan = RestorePlan(planned(options_of(path), others=True), allow_non_restored=False)
    with pytest.raises(ChannelStateRescaleError, match=r"3 subtasks of .*, which are 4 of .*'more'"):
        plan.restored(load_snapshot(str(path)))


def test_info_says_too_that_the_other_engine_has_no_channels(path):
    found = refused_by_info(options_of(path, engine="micro-batch"), path)
    assert list(found) == ["slow", "frames"]
    assert all("the micro-batch engine has no channels" in problem for problem in found.values())
