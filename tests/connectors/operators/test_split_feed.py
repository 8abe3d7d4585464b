"""Split-based sources: splits move from the enumerator to readers, through checkpoints, and to other subtasks."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pystate.common import Types
from pystate.common.errors import ControlError, JobGraphError
from pystate.connectors.generated.data_generator_source import (
    DataGeneratorSource,
    GeneratorFunction,
    Pace,
    RateLimiterStrategy,
)
from pystate.connectors.generated.iterator_source import split_range
from pystate.connectors.generated.number_sequence import NumberSequenceSource
from pystate.connectors.hybrid import HybridSource
from pystate.connectors.operators.source_coordinator import AFTER, NO_MORE, REGISTER, REQUEST, SPLIT, SourceCoordinator
from pystate.connectors.operators.source_operator import SourceOperator
from pystate.connectors.operators.split_feed import SplitFeed
from pystate.connectors.source import Boundedness, InputStatus, SourceClock, SplitEnumerator
from pystate.connectors.splits_on_request import SplitsOnRequest
from pystate.datastream.connectors.file_system import FileSource
from pystate.testing import SourceTestHarness

LONG = Types.LONG()


class ManyParts(NumberSequenceSource):
    """The numbers below `end` in many parts."""

    def __init__(self, end, parts):
        super().__init__(0, end - 1)
        self.parts = parts
        self.end = end

    def create_enumerator(self, context):
        return SplitsOnRequest(context, split_range(0, self.end - 1, self.parts))


def numbers(end=2300, parts=13):
    return lambda: ManyParts(end, parts)


def hybrid():
    sources = [ManyParts(700, 5), NumberSequenceSource(700, 799), NumberSequenceSource(800, 799), ManyParts(600, 4)]
    builder = HybridSource.builder(sources[0])
    for source in sources[1:]:
        builder = builder.add_source(source)
    return builder.build()


@pytest.mark.parametrize("parallelism", [1, 2, 3])
@pytest.mark.parametrize(("source", "expected"), [(numbers(), [*range(2300)]), (hybrid, [*range(800), *range(600)])])
def test_each_split_is_read_once(source, expected, parallelism):
    with SourceTestHarness(source, parallelism=parallelism, output_type=LONG) as harness:
        assert sorted(harness.run_to_end()) == sorted(expected)


def test_one_subtask_reads_a_sequence_in_order_and_a_hybrid_source_one_source_after_the_other():
    with SourceTestHarness(lambda: NumberSequenceSource(-5, 1200), output_type=LONG) as harness:
        assert harness.run_to_end() == list(range(-5, 1201))
    with SourceTestHarness(hybrid, output_type=LONG) as harness:
        assert harness.run_to_end() == [*range(800), *range(600)]


@settings(deadline=None, max_examples=40)
@given(
    st.data(),
    st.lists(st.sampled_from(["epoch", "one", "snapshot", "crash", "rescale"]), max_size=10),
    st.sampled_from(["numbers", "hybrid"]),
)
def test_each_number_counts_once_over_epochs_crashes_and_other_parallelisms(data, steps, kind):
    source, expected = {"numbers": (numbers(), [*range(2300)]), "hybrid": (hybrid, [*range(800), *range(600)])}[kind]
    counted, saved, snapshots, parallelism = [], [], None, 2

    def start():
        return SourceTestHarness(source, snapshots, parallelism=parallelism, output_type=LONG, rows_per_epoch=300)

    harness = start()
    try:
        for number, step in enumerate([*steps, "crash"], 1):
            if step == "epoch":
                counted += harness.run_epoch()
            elif step == "one":  # others of the epoch may come later, but its barrier stands after all
                counted += harness.run_epoch([data.draw(st.integers(0, parallelism - 1))])
            elif step != "crash":
                snapshots, saved = harness.snapshot(number), list(counted)
            if step in ("crash", "rescale"):
                harness.close()
                counted = list(saved)
                if step == "rescale":
                    parallelism = data.draw(st.integers(1, 4))
                harness = start()
        assert sorted(counted + harness.run_to_end()) == sorted(expected)
    finally:
        harness.close()


def test_a_split_that_is_assigned_and_not_fetched_is_in_the_snapshot():
    coordinator = SourceCoordinator(NumberSequenceSource(0, 99), 2)
    coordinator.start(None)
    coordinator.answer(0, 1, [[REGISTER, None]])
    coordinator.assign_split(split_range(500, 509, 1)[0], 1)
    own, underway = coordinator.snapshot(1)
    assert own == [[["0", 0, 49], ["1", 50, 99]]]
    assert underway == [["0", 500, 509]]


def test_a_message_that_is_sent_again_gets_the_same_answer():
    coordinator = SourceCoordinator(NumberSequenceSource(0, 99), 2)
    coordinator.start(None)
    first = coordinator.answer(0, 1, [[REGISTER, None], [REQUEST, None]])
    assert first == [[SPLIT, ["0", 0, 49]]]
    assert coordinator.answer(0, 1, [[REGISTER, None], [REQUEST, None]]) == first  # the answer was lost on its way
    assert coordinator.registered_readers() == [0]
    assert coordinator.answer(1, 1, [[REQUEST, None]]) == [[SPLIT, ["1", 50, 99]]]
    assert coordinator.answer(0, 2, [[REQUEST, None]]) == [[NO_MORE, None]]


def test_an_enumerator_names_readers_that_there_are():
    coordinator = SourceCoordinator(NumberSequenceSource(0, 9), 2)
    with pytest.raises(ControlError, match="names reader 2; there are 2, from 0 on"):
        coordinator.signal_no_more_splits(2)


class Late(SplitEnumerator):
    """Has nothing at the first request."""

    def __init__(self, context):
        self.context = context
        self.requests = 0

    def handle_split_request(self, subtask_id, requester_hostname):
        self.requests += 1

    def snapshot_state(self, checkpoint_id):
        return self.requests


class LateSource(NumberSequenceSource):
    """Its enumerator never assigns anything."""

    def __init__(self):
        super().__init__(0, 9)

    def create_enumerator(self, context):
        return Late(context)


def test_a_reader_without_a_split_is_asked_again_later_and_later():
    with SourceTestHarness(LateSource) as harness:
        pauses = []
        for _ in range(7):
            assert harness.run_epoch() == []
            pauses.append(harness.next_due(now=10_000) - 10_000)
        assert pauses == [50, 100, 200, 400, 800, 1000, 1000]


class Clock(SourceClock):
    """Stands where a test sets it."""

    def __init__(self):
        self.now = 0

    def now_ms(self):
        return self.now


def test_a_rate_is_kept_and_says_when_to_ask_again():
    clock = Clock()
    pace = Pace(10, clock)
    assert pace.allowed(100) == 1
    assert pace.allowed(100) == 0
    clock.now = pace.next_at()
    assert clock.now <= 101
    assert pace.allowed(100) == 1
    clock.now += 60_000
    assert pace.allowed(100) == 10  # no more than a second's
    assert sum(pace.allowed(3) for clock.now in range(clock.now, clock.now + 2000, 7)) in (19, 20)


class Doubled(GeneratorFunction):
    """Twice the number."""

    def map(self, value):
        return 2 * value


def test_generated_elements_are_those_of_the_numbers():
    for function in (Doubled(), lambda number: 2 * number):
        with SourceTestHarness(lambda function=function: DataGeneratorSource(function, 700), output_type=LONG) as harness:
            assert harness.run_to_end() == [2 * number for number in range(700)]
    endless = DataGeneratorSource(str, rate_limiter_strategy=RateLimiterStrategy.per_second(1))
    assert endless.get_boundedness() is Boundedness.CONTINUOUS_UNBOUNDED
    with SourceTestHarness(lambda: endless) as harness:
        assert harness.run_epoch() == ["0"]
        assert harness.next_due(now=0) > 1000  # when the next is due, and not before


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (lambda: DataGeneratorSource(3), "takes a function of a number, not 3"),
        (lambda: RateLimiterStrategy.per_second(0), "a rate is above 0"),
        (lambda: NumberSequenceSource(0, 1 << 63), "is no LONG"),
        (lambda: HybridSource.builder(FileSource("/tmp", None)).build(), "FileSource is read by Spark"),
        (lambda: HybridSource.builder(DataGeneratorSource(str)).add_source(hybrid()).build(), "Source 1 .* has no end"),
    ],
)
def test_what_can_not_be_is_refused(make, says):
    with pytest.raises(JobGraphError, match=says):
        make()


def test_a_reader_is_a_reader():
    class Readerless(NumberSequenceSource):
        def create_reader(self, context):
            return "reader"

    with pytest.raises(JobGraphError, match="create_reader.. of Readerless returned no SourceReader"):
        SourceTestHarness(lambda: Readerless(0, 1))


def test_the_end_is_the_end_of_all_parts():
    operator = SourceOperator(NumberSequenceSource(0, 9))
    assert operator.bounded
    assert operator.parallel
    assert InputStatus.END_OF_INPUT.value == "end of input"


def test_no_split_moves_between_a_reader_and_an_enumerator_that_use_buffer_different_barriers():
    coordinator = SourceCoordinator(numbers(100, 4)(), 2)
    coordinator.start(None)
    assert coordinator.answer(1, 1, [[AFTER, None], [REGISTER, None], [REQUEST, "host"]])[0][0] == SPLIT
    ((left,), underway) = coordinator.snapshot(5)
    assert (len(left), underway) == (3, [])
    # the reader has not seen that barrier: what it got now would be in both parts of the checkpoint
    assert coordinator.answer(1, 2, [[AFTER, None], [REQUEST, "host"]]) is None
    # one that has seen a later one: what it got would be in neither
    assert coordinator.answer(1, 2, [[AFTER, 6], [REQUEST, "host"]]) is None
    assert len(coordinator.snapshot(5)[0][0]) == 3
    assert coordinator.answer(1, 2, [[AFTER, 5], [REQUEST, "host"]])[0][0] == SPLIT
    assert len(coordinator.snapshot(5)[0][0]) == 2


class Between(LateSource):
    """Its reader wants to be polled again in an hour, whatever has become of its request."""

    def create_reader(self, context):
        reader = super().create_reader(context)
        reader.available_at = lambda: 3_600_000
        return reader


def test_a_reader_whose_request_was_not_taken_is_polled_soon():
    feed = SplitFeed(Between())
    feed._context = SimpleNamespace(
        get_index_of_this_subtask=lambda: 1, get_number_of_parallel_subtasks=lambda: 2, get_metrics_group=lambda: None
    )
    feed._reader = Between().create_reader(feed)
    answers = [None, None, []]
    output = SimpleNamespace(collect=lambda record, timestamp=None: None, room=lambda: 10)
    feed.connect(lambda number, mail: answers.pop(0), lambda: None)
    feed.take(output, SimpleNamespace(rows_left=lambda: 9), wait=False)
    assert feed.next_due(0) < 1000, "a barrier is between the two"
    feed.take(output, SimpleNamespace(rows_left=lambda: 9), wait=False)
    assert feed.next_due(0) == 3_600_000


def test_a_reader_with_enough_to_read_does_not_ask_its_enumerator_with_each_poll():
    sent = []
    feed = SplitFeed(NumberSequenceSource(0, 10**6))
    feed._context = SimpleNamespace(
        get_index_of_this_subtask=lambda: 1, get_number_of_parallel_subtasks=lambda: 2, get_metrics_group=lambda: None
    )
    feed._reader = feed._source.create_reader(feed)
    feed._reader.add_splits([feed._source.restore_split(["0", 0, 10**6])])
    feed.connect(lambda number, mail: sent.append(mail) or [], lambda: None)
    output = SimpleNamespace(collect=lambda record, timestamp=None: None, room=lambda: 10)
    for _ in range(100):
        left = [1, 0]
        feed.take(output, SimpleNamespace(rows_left=lambda left=left: left.pop(0) if left else 0), wait=False)
    assert len(sent) < 50
