"""A power cut at each step of a disk: what a reader sees is what complete checkpoints hold, each element once."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pystate.common.serialization import Encoder
from pystate.datastream.connectors.file_system import (
    BucketAssigner,
    FileCompactor,
    FileCompactStrategy,
    FileSink,
    RollingPolicy,
)
from pystate.testing import SinkTestHarness
from tests.connectors.file_system.faulty_disk import FaultyDisk, PowerCut, files, hidden, visible
from tests.hypothesis_profiles import in_short_and_at_length

POLICIES = {
    "checkpoint": RollingPolicy.on_checkpoint_rolling_policy(),
    "open": RollingPolicy.default_rolling_policy(),
    "size": RollingPolicy.default_rolling_policy(part_size=12),
    "checkpoint, compacted": RollingPolicy.on_checkpoint_rolling_policy(),
    "size, compacted": RollingPolicy.default_rolling_policy(part_size=4),
}
COMPACTED = {
    "checkpoint, compacted": FileCompactStrategy.builder().enable_compaction_on_checkpoint(2).build(),
    "size, compacted": FileCompactStrategy.builder().set_size_threshold(9).build(),
}


class Modulo(BucketAssigner):
    def get_bucket_id(self, element, context):
        return f"b{element % 2}"


class Job:
    """A job that reads numbers, and starts again after its latest complete checkpoint, with whatever parallelism.

    Args:
        root: The base path.
        policy: The sink's.
    """

    def __init__(self, root, policy):
        self.root = root
        encoder = Encoder.simple_string_encoder()
        builder = FileSink.for_row_format(str(root), encoder).with_rolling_policy(POLICIES[policy])
        self.compacted = policy in COMPACTED
        if self.compacted:
            builder.enable_compact(COMPACTED[policy], FileCompactor.concat_file_compactor())
        self.sink = builder.with_bucket_assigner(Modulo()).build()
        self.attempt = -1
        self.complete = (0, None, 1)  # position, snapshots, parallelism
        self.checkpoint = 0
        self.dead = []

    def start(self, parallelism=1):
        position, snapshots, old = self.complete
        self.attempt += 1
        self.position = position
        shares = None if snapshots is None else SinkTestHarness.repartition(snapshots, old, parallelism, 128)
        self.subtasks = []
        for subtask in range(parallelism):
            harness = SinkTestHarness(self.sink, parallelism=parallelism, subtask_index=subtask, attempt=self.attempt)
            self.subtasks.append(harness)
            if shares is not None:
                harness.initialize_state(shares[subtask])
            harness.open()

    def write(self, count):
        for number in range(self.position, self.position + count):
            self.subtasks[number % 7 % len(self.subtasks)].process_element(number)
        self.position += count

    def take_checkpoint(self, told=None):
        """Take one, which completes, and tell the first subtasks of it; all for None."""
        self.checkpoint += 1
        snapshots = [harness.snapshot(self.checkpoint) for harness in self.subtasks]
        self.complete = (self.position, snapshots, len(self.subtasks))
        for harness in self.subtasks[:told]:
            harness.notify_of_completed_checkpoint(self.checkpoint)

    def take_checkpoint_in_vain(self):
        self.checkpoint += 1
        for harness in self.subtasks[1:]:
            harness.snapshot(self.checkpoint)

    def die(self):
        """Lose all processes, without a word to their writers; their buffers may still get to the disk."""
        self.dead.append(self.subtasks)
        self.subtasks = []

    def end(self):
        for harness in self.subtasks:
            harness.end_input()
        self.take_checkpoint()
        for harness in self.subtasks:
            harness.close()

    def check(self):
        """Nothing is seen twice, nothing early."""
        seen = visible(self.root)
        assert max(seen.values(), default=1) == 1
        assert set(map(int, seen)) <= set(range(self.complete[0]))

    def check_end(self):
        assert visible(self.root) == Counter(str(number) for number in range(self.position))
        assert hidden(self.root) == []
        for file in [] if self.compacted else files(self.root):  # and in order; several writers' make one where compacted
            numbers = [int(line) for line in file.read_text().splitlines()]
            assert numbers == sorted(numbers)


def scenario(job):
    """What is done until the power is cut: two checkpoints, at different parallelisms, and the end."""
    job.start(2)
    job.write(6)
    job.take_checkpoint()
    job.write(5)
    job.take_checkpoint(told=1)
    job.die()
    job.start(1)
    job.write(4)
    job.take_checkpoint()
    job.write(3)
    job.end()


@in_short_and_at_length
@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("last_is_done", [False, True])
def test_a_power_cut_at_each_step(tmp_path, disk, policy, last_is_done, at_length):
    job = Job(tmp_path / "whole", policy)
    scenario(job)
    job.check_end()
    steps = FaultyDisk.steps
    assert steps > 20
    for step in range(0 if at_length else list(POLICIES).index(policy) % 3, steps, 1 if at_length else 3):
        root = tmp_path / str(step)
        job = Job(root, policy)
        disk.charge(step, last_is_done)
        with pytest.raises(BaseException) as cut:  # noqa: PT011 - the slot may wrap it
            scenario(job)
        assert is_cut(cut.value), cut.value
        job.subtasks = getattr(job, "subtasks", [])
        job.die()
        disk.charge(None)
        job.check()
        job.start(2)
        job.check()
        job.write(18 - job.position)
        job.take_checkpoint()
        job.check()
        job.end()
        job.check_end()


def is_cut(error):
    while error is not None and not isinstance(error, PowerCut):
        error = error.__cause__ or error.__context__
    return error is not None


OPS = st.one_of(
    st.tuples(st.just("write"), st.integers(1, 9)),
    st.tuples(st.just("checkpoint"), st.none() | st.integers(0, 2)),
    st.tuples(st.just("in vain"), st.none()),
    st.tuples(st.just("restart"), st.integers(1, 3)),
    st.tuples(st.just("close and restart"), st.integers(1, 3)),
    st.tuples(st.just("cut in"), st.tuples(st.integers(0, 12), st.booleans())),
)


@settings(max_examples=40, deadline=None, suppress_health_check=list(HealthCheck))
@given(policy=st.sampled_from(sorted(POLICIES)), ops=st.lists(OPS, max_size=14))
def test_what_is_seen_is_what_complete_checkpoints_hold(tmp_path_factory, disk, policy, ops):
    play(Job(tmp_path_factory.mktemp("files") / "out", policy), disk, ops)


@pytest.mark.slow
@settings(max_examples=2000, deadline=None, suppress_health_check=list(HealthCheck))
@given(policy=st.sampled_from(sorted(POLICIES)), ops=st.lists(OPS, max_size=30))
def test_what_is_seen_is_what_complete_checkpoints_hold_at_length(tmp_path_factory, disk, policy, ops):
    play(Job(tmp_path_factory.mktemp("files") / "out", policy), disk, ops)


def play(job, disk, ops):
    disk.charge(None)
    job.start(1)
    for name, value in ops:
        try:
            play_one(job, disk, name, value)
        except BaseException as error:
            if not is_cut(error):
                raise
            job.die()
            disk.charge(None)
            job.check()
            job.start(1 + job.attempt % 3)
        job.check()
    disk.charge(None)
    job.write(3)
    job.end()
    job.check_end()


def play_one(job, disk, name, value):
    if name == "write":
        job.write(value)
    elif name == "checkpoint":
        job.take_checkpoint(value)
    elif name == "in vain":
        job.take_checkpoint_in_vain()
    elif name == "cut in":
        disk.charge(*value)
    else:
        if name == "close and restart":
            for harness in job.subtasks:
                harness.close()
        job.die()
        job.start(value)
