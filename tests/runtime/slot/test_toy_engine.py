"""The seam between subtasks and engines, by an engine that has channels instead of epochs."""

from collections import Counter

import pytest

from pystate.common import Types
from pystate.core.api.operator_kind import OperatorKind
from pystate.core.records.codec import KEY_FIELD
from pystate.core.records.key_column import KeyColumn
from pystate.core.snapshot.storage.snapshot_location import SnapshotLocation
from pystate.datastream import KeyedProcessFunction, ValueStateDescriptor
from pystate.runtime.checkpoint.barrier import CheckpointBarrier
from pystate.runtime.plan.chain import Chain, OperatorSpec
from pystate.runtime.plan.task import TaskInput, TaskSpec
from pystate.runtime.plan.task_output import OutputKind, OutputSpec, Routing
from pystate.runtime.slot.chain.operator_chain import MIN_WATERMARK
from tests.runtime.slot.toy_engine import End, Tick, ToyEngine, ToySubtask, Watermark

WORDS = ["apple", "ant", "bee", "bat", "cow", "cat", "dog", "dove"]
COUNTED = Types.TUPLE([Types.STRING(), Types.LONG()])
SEEDS = range(8)


class CountWords(KeyedProcessFunction):
    def open(self, runtime_context):
        self.count = runtime_context.get_state(ValueStateDescriptor("count", Types.LONG()))

    def process_element(self, value, ctx):
        self.count.update((self.count.value() or 0) + 1)
        yield value[0], self.count.value()


class CountLetters(KeyedProcessFunction):
    def open(self, runtime_context):
        self.count = runtime_context.get_state(ValueStateDescriptor("count", Types.LONG()))

    def process_element(self, value, ctx):
        self.count.update((self.count.value() or 0) + 1)
        yield value[0], self.count.value()


def tasks(parallelism):
    string = Types.STRING()
    key = KeyColumn(KEY_FIELD, string)
    edge = OutputSpec(
        0, OutputKind.EDGE, "to letters", COUNTED, key, lambda row: row[0], target="letters", routing=Routing.KEY
    )
    words, letters = OperatorKind.PROCESS, OperatorKind.PROCESS
    return [
        TaskSpec(
            "words",
            "words",
            "0" * 32,
            parallelism,
            16,
            [TaskInput(string, KeyColumn("value", string))],
            OperatorSpec("words", "words", words, CountWords()),
            Chain(outputs=[edge]),
        ),
        TaskSpec(
            "letters",
            "letters",
            "1" * 32,
            parallelism,
            16,
            [TaskInput(COUNTED, key)],
            OperatorSpec("letters", "letters", letters, CountLetters()),
            Chain(outputs=[OutputSpec(0, OutputKind.FRAME, "out", COUNTED)]),
        ),
    ]


def totals(collected):
    """The last count of each letter, of which each is seen once."""
    assert len(set(collected)) == len(collected), "a count was given twice"
    found = {}
    for letter, count in collected:
        found[letter] = max(count, found.get(letter, 0))
    return found


def input_of(source):
    return [WORDS[(source * 3 + i * i) % len(WORDS)] for i in range(40)]


EXPECTED = Counter(word[0] for source in (0, 1) for word in input_of(source))


@pytest.fixture
def engine(tmp_path):
    made = []

    def make(parallelism=2, **options):
        folder = tmp_path / f"work-{len(made)}"
        folder.mkdir()
        made.append(ToyEngine(tasks(parallelism), 2, str(folder), **options))
        return made[-1]

    yield make
    for one in made:
        one.close()
        assert one.failures == []


def feed(engine, begin=(0, 0), barriers=(None, None), barrier=None):
    """Send both sources' words from a place on, in small batches, a barrier before one of them."""
    for source in (0, 1):
        for i in range(begin[source], 40):
            if i == barriers[source]:
                engine.send_all(source, barrier)
            engine.send(source, [input_of(source)[i]])
            if i % 7 == 0:
                engine.send_all(source, Tick())
        engine.send_all(source, End())


def barrier_at(tmp_path):
    location = SnapshotLocation(f"file:{tmp_path}/chk-1")
    location.create()
    return CheckpointBarrier(1, location.uri, 0, 0)


@pytest.mark.parametrize("seed", SEEDS)
def test_channels_in_any_order_give_the_same_counts(engine, seed):
    one = engine(seed=seed)
    feed(one)
    one.run()
    assert totals(one.collected) == EXPECTED


def cut_and_resumed(engine, tmp_path, seed, kind, backend="hashmap"):
    """Run with a barrier that reaches the sources at different places; resume from it at another parallelism."""
    barrier, cut = barrier_at(tmp_path), (5 + seed, 30 - seed)
    first = engine(seed=seed, kind=kind, state_backend=backend)
    feed(first, barriers=cut, barrier=barrier)
    first.run()
    assert sorted(first.acknowledged) == [("letters", 0), ("letters", 1), ("words", 0), ("words", 1)]
    second = engine(3, seed=seed, restored=first.restored(barrier.location), state_backend=backend)
    feed(second, begin=cut)
    second.run()
    found = totals(second.collected)
    return all(found[letter] == EXPECTED[letter] for letter in found), found


@pytest.mark.parametrize("backend", ["hashmap", "rocksdb"])
@pytest.mark.parametrize("seed", SEEDS)
def test_an_aligned_barrier_cuts_between_all_channels_and_is_resumed_at_another_parallelism(engine, tmp_path, seed, backend):
    right, found = cut_and_resumed(engine, tmp_path, seed, ToySubtask, backend)
    assert right, found


class Hasty(ToySubtask):
    """Takes its snapshot at the first barrier it sees."""

    aligns = False


def test_without_alignment_elements_would_be_lost_or_counted_twice(engine, tmp_path):
    right, _ = cut_and_resumed(engine, tmp_path, 0, Hasty)
    assert not right


def test_a_task_stands_at_the_lowest_watermark_of_its_channels_and_never_goes_back(engine):
    one = engine()
    chains = {(subtask.task.uid, subtask.index): subtask.chain for subtask in one.subtasks()}
    one.send_all(0, Watermark(10))
    one.run()
    assert {chain.current_watermark for chain in chains.values()} == {-1}, "the other source has said nothing"
    one.send_all(1, Watermark(7))
    one.run()
    assert {chain.current_watermark for chain in chains.values()} == {7}
    one.send_all(1, Watermark(3))
    one.send_all(0, Watermark(20))
    one.run()
    assert {chain.current_watermark for chain in chains.values()} == {7}
    fresh = engine()
    assert {subtask.chain.current_watermark for subtask in fresh.subtasks()} == {MIN_WATERMARK}


def test_rows_wait_in_output_buffers_for_a_tick(engine):
    one = engine(parallelism=1)
    one.send(0, ["apple"])
    one.run()
    assert one.collected == []
    for subtask in one.subtasks():
        subtask.chain.on_tick()
    one.run()
    for subtask in one.subtasks():
        subtask.chain.on_tick()
    assert one.collected == [("a", 1)]
