"""What a job promises about its elements is the least of what source, job and sink promise."""

import pytest

from pystate.common.configuration.configuration import Configuration
from pystate.common.stream_guarantee import EndToEndGuarantee
from pystate.common.time import Time
from pystate.connectors.generated.number_sequence import NumberSequenceSource
from pystate.connectors.hybrid import HybridSource
from pystate.connectors.operators.sink_operator import SinkOperator
from pystate.connectors.operators.source_operator import SourceOperator
from pystate.connectors.sink import DeliveryGuarantee, Sink
from pystate.core.api.functions import SinkFunction
from pystate.core.api.operator_kind import OperatorKind
from pystate.core.api.stream_graph import StreamGraph
from pystate.core.api.transformations import (
    KeyByTransformation,
    OneInputTransformation,
    OwnSourceTransformation,
    SinkKind,
    SinkTransformation,
)
from pystate.core.api.window.assigners import TumblingEventTimeWindows, TumblingProcessingTimeWindows
from pystate.core.api.window.triggers import (
    ContinuousProcessingTimeTrigger,
    CountTrigger,
    EventTimeTrigger,
    ProcessingTimeTrigger,
    PurgingTrigger,
)
from pystate.core.api.window.window_operation import WindowOperation
from pystate.runtime.plan.delivery_guarantees import DeliveryGuarantees
from tests.connectors.folder_sink import FolderSink
from tests.connectors.own_sources import Blocking, Counter
from tests.runtime.plan.programs import mapped, source

EXACTLY, AT_LEAST = EndToEndGuarantee.EXACTLY_ONCE, EndToEndGuarantee.AT_LEAST_ONCE
AT_MOST, NONE = EndToEndGuarantee.AT_MOST_ONCE, EndToEndGuarantee.NONE

CHECKPOINTS = {"execution.checkpointing.interval": "10 s", "execution.checkpointing.dir": "/tmp/checkpoints"}  # noqa: S108
IN_MEMORY = {"execution.checkpointing.interval": "10 s"}
EVERY_EPOCH = {"execution.checkpointing.every-epoch": "true", "execution.checkpointing.dir": "/tmp/checkpoints"}  # noqa: S108
NO_RESTART = {"restart-strategy.type": "none"}
RETAINED = {"execution.checkpointing.externalized-checkpoint-retention": "RETAIN_ON_CANCELLATION"}
RESTARTS_ALONE = {"restart-strategy.type": "fixed-delay"}
NOTHING: dict[str, str] = {}


class PlainSink(Sink):
    """At-least-once, unless it says otherwise."""

    def __init__(self, guarantee=DeliveryGuarantee.AT_LEAST_ONCE):
        self._guarantee = guarantee

    def create_writer(self, context):
        raise NotImplementedError

    @property
    def delivery_guarantee(self):
        return self._guarantee

    @property
    def guarantee_reason(self):
        return "upserts by key" if self._guarantee is DeliveryGuarantee.EXACTLY_ONCE else super().guarantee_reason


class Function(SinkFunction):
    def invoke(self, value, context):
        pass


def own(function):
    return OwnSourceTransformation("own", function=SourceOperator(function))


TWO_PHASE, UPSERT = FolderSink("/nowhere"), PlainSink(DeliveryGuarantee.EXACTLY_ONCE)


def sunk(parent, sink, name="Writer"):
    if isinstance(sink, Sink):
        sink = SinkOperator(sink)
    if isinstance(sink, SinkFunction):
        return SinkTransformation(name, (parent,), kind=SinkKind.FUNCTION, function=sink)
    return SinkTransformation(name, (parent,), kind=sink)


def all_of(roots, options, *, batch=False, supervised=True):
    configuration = Configuration()
    for key, value in options.items():
        configuration.set_string(key, value)
    graph = StreamGraph(roots)
    graph.batch = batch
    return DeliveryGuarantees(graph, graph.assign_uids(auto=True), configuration, supervised=supervised).all()


def of(sink, options, *, batch=False, **found):
    root = source()
    for name, value in found.items():
        setattr(root, name, value)
    sunk(mapped(root), sink)
    (only,) = all_of([root], options, batch=batch)
    return only.guarantee, only.reason


@pytest.mark.parametrize(
    ("sink", "options", "guarantee", "why"),
    [
        (TWO_PHASE, CHECKPOINTS, EXACTLY, "committed when a checkpoint completes"),
        (TWO_PHASE, {**CHECKPOINTS, **NO_RESTART, **RETAINED}, EXACTLY, "committed when a checkpoint completes"),
        (TWO_PHASE, EVERY_EPOCH, EXACTLY, "committed when a checkpoint completes"),
        (TWO_PHASE, IN_MEMORY, AT_LEAST, "gone if the driver dies"),
        (TWO_PHASE, RESTARTS_ALONE, AT_LEAST, "commits when the job ends, and a restart starts over"),
        (TWO_PHASE, NOTHING, AT_MOST, "there are no checkpoints"),
        (TWO_PHASE, {**CHECKPOINTS, **NO_RESTART}, AT_MOST, "nothing is left to go on from"),
        (UPSERT, CHECKPOINTS, EXACTLY, "upserts by key"),
        (UPSERT, IN_MEMORY, EXACTLY, "upserts by key"),
        (UPSERT, RESTARTS_ALONE, EXACTLY, "upserts by key"),
        (UPSERT, NOTHING, AT_MOST, "isn't restarted"),
        (PlainSink(), CHECKPOINTS, AT_LEAST, "written again after a failure"),
        (PlainSink(), RESTARTS_ALONE, AT_LEAST, "starts over"),
        (PlainSink(DeliveryGuarantee.NONE), CHECKPOINTS, NONE, ""),
        (Function(), CHECKPOINTS, AT_LEAST, "handed to the function again"),
        (SinkKind.PRINT, CHECKPOINTS, AT_LEAST, "printed again"),
        (SinkKind.PRINT, NOTHING, AT_MOST, "what isn't out when it fails never comes"),
        (SinkKind.FOR_EACH_BATCH, CHECKPOINTS, AT_LEAST, "execution.checkpointing.every-epoch = true"),
        (SinkKind.FOR_EACH_BATCH, EVERY_EPOCH, EXACTLY, "takes an epoch once"),
        (SinkKind.FOR_EACH_BATCH, {"execution.checkpointing.every-epoch": "true"}, AT_LEAST, "if the driver dies"),
        (SinkKind.COLLECT, {**CHECKPOINTS, **NO_RESTART, **RETAINED}, AT_LEAST, "handed over at once"),
    ],
)  # fmt: skip
def test_a_source_that_is_read_again_leaves_it_to_job_and_sink(sink, options, guarantee, why):
    found, reason = of(sink, options)
    assert (found, why in reason) == (guarantee, True), reason


def test_epochs_with_barriers_are_no_way_out_where_there_are_no_epochs():
    guarantee, reason = of(SinkKind.FOR_EACH_BATCH, {**CHECKPOINTS, "execution.engine": "real-time"})
    assert (guarantee, "every-epoch" in reason) == (AT_LEAST, False)


@pytest.mark.parametrize(
    ("options", "supervised", "guarantee", "why"),
    [
        (CHECKPOINTS, False, EXACTLY, "until a checkpoint holds them"),
        (CHECKPOINTS, True, AT_MOST, "gone if the driver dies before they are handed over"),
        (IN_MEMORY, False, EXACTLY, "until a checkpoint holds them"),
        (IN_MEMORY, True, AT_LEAST, "the program that is started again gets all"),
        (RESTARTS_ALONE, False, AT_MOST, "fails instead"),
        (RESTARTS_ALONE, True, NONE, "if its driver dies all comes again"),
        (NO_RESTART, True, AT_MOST, "isn't restarted"),
    ],
)
def test_results_for_the_program_die_with_the_driver_where_another_one_goes_on(options, supervised, guarantee, why):
    root = source()
    sunk(mapped(root), SinkKind.COLLECT)
    (found,) = all_of([root], options, supervised=supervised)
    assert (found.guarantee, why in found.reason) == (guarantee, True), found.reason


@pytest.mark.parametrize("sink", [TWO_PHASE, UPSERT, PlainSink(), Function(), SinkKind.PRINT, SinkKind.FOR_EACH_BATCH])
@pytest.mark.parametrize("options", [CHECKPOINTS, EVERY_EPOCH, RESTARTS_ALONE])
def test_what_is_not_read_again_gets_out_once_at_most(sink, options):
    assert of(sink, options, not_replayable="it is gone") == (AT_MOST, "it is gone")


LEFT_FILES = {"not_replayable": "removes files", "gives_some_again": True}


@pytest.mark.parametrize(
    ("sink", "options", "guarantee"),
    [
        (TWO_PHASE, CHECKPOINTS, AT_MOST),
        (TWO_PHASE, IN_MEMORY, NONE),
        (TWO_PHASE, RESTARTS_ALONE, NONE),
        (UPSERT, CHECKPOINTS, AT_MOST),
        (PlainSink(), CHECKPOINTS, NONE),
        (Function(), CHECKPOINTS, NONE),
        (SinkKind.PRINT, CHECKPOINTS, NONE),
        (SinkKind.PRINT, NOTHING, AT_MOST),
        (SinkKind.FOR_EACH_BATCH, CHECKPOINTS, NONE),
        (SinkKind.FOR_EACH_BATCH, EVERY_EPOCH, AT_MOST),
        (SinkKind.COLLECT, CHECKPOINTS, AT_MOST),
    ],
)
def test_files_that_are_not_removed_yet_come_again_to_who_writes_again(sink, options, guarantee):
    found, reason = of(sink, options, **LEFT_FILES)
    assert found is guarantee
    assert reason.endswith("and some of it may come twice") is (guarantee is NONE)


@pytest.mark.parametrize(("sink", "guarantee"), [(TWO_PHASE, AT_MOST), (UPSERT, AT_MOST), (SinkKind.PRINT, NONE)])
def test_where_a_dead_driver_takes_checkpoints_along_a_source_that_begins_at_its_end_loses(sink, guarantee):
    found, reason = of(sink, IN_MEMORY, from_the_end=True)
    assert (found, "reads what is new from then on" in reason) == (guarantee, True)


@pytest.mark.parametrize(("sink", "guarantee"), [(TWO_PHASE, AT_MOST), (UPSERT, AT_MOST), (SinkKind.PRINT, NONE)])
def test_where_a_dead_driver_takes_checkpoints_along_a_source_that_goes_on_at_its_group_loses(sink, guarantee):
    found, reason = of(sink, IN_MEMORY, from_the_group=True)
    assert (found, "goes on at the group's offsets" in reason) == (guarantee, True)
    assert of(TWO_PHASE, CHECKPOINTS, from_the_group=True)[0] is EXACTLY
    assert of(SinkKind.PRINT, RESTARTS_ALONE, from_the_group=True)[0] is AT_LEAST, "nothing moves the group's offsets"


def test_until_the_first_checkpoint_a_source_that_begins_at_its_end_may_lose_and_the_start_says_so():
    assert "until the first checkpoint is complete" in of(TWO_PHASE, CHECKPOINTS, from_the_end=True)[1]
    assert "until the first" not in of(TWO_PHASE, EVERY_EPOCH, from_the_end=True)[1]
    assert "until the first" not in of(TWO_PHASE, CHECKPOINTS)[1]


TUMBLING = TumblingEventTimeWindows.of(Time.seconds(1))
BY_CLOCK = [
    WindowOperation(TumblingProcessingTimeWindows.of(Time.seconds(1)), CountTrigger.of(3)),
    WindowOperation(TUMBLING, ProcessingTimeTrigger.create()),
    WindowOperation(TUMBLING, PurgingTrigger.of(ContinuousProcessingTimeTrigger.of(Time.seconds(1)))),
]


@pytest.mark.parametrize("operation", [*BY_CLOCK, WindowOperation(TUMBLING, EventTimeTrigger.create())])
def test_windows_by_the_clock_make_other_upserts_of_elements_that_come_again(operation):
    root = source()
    windows = OneInputTransformation("minutes", (root,), None, kind=OperatorKind.WINDOW, function=operation)
    sunk(mapped(windows), UPSERT, "upserts")
    sunk(mapped(windows), TWO_PHASE, "two phases")
    sunk(mapped(root), UPSERT, "beside")
    found = {one.sink: one for one in all_of([root], CHECKPOINTS)}
    by_clock = operation in BY_CLOCK
    assert found["upserts"].guarantee is (AT_LEAST if by_clock else EXACTLY)
    assert ("processing-time windows (minutes)" in found["upserts"].reason) is by_clock
    assert found["two phases"].guarantee is found["beside"].guarantee is EXACTLY


class Unordered(NumberSequenceSource):
    unlike_again = "no order"


@pytest.mark.parametrize(
    ("made", "options", "guarantee"),
    [(Unordered, CHECKPOINTS, NONE), (Unordered, RESTARTS_ALONE, AT_LEAST), (NumberSequenceSource, CHECKPOINTS, EXACTLY)],
)
@pytest.mark.parametrize("hybrid", [False, True])
def test_a_source_that_may_go_on_with_other_elements_promises_nothing_after_a_checkpoint(made, options, guarantee, hybrid):
    single = made(0, 9)
    root = own(HybridSource.builder(single).add_source(NumberSequenceSource(0, 9)).build() if hybrid else single)
    sunk(root, TWO_PHASE)
    (found,) = all_of([root], options)
    assert found.guarantee is guarantee


class Repeating(NumberSequenceSource):
    comes_again = "nobody has acknowledged it"


@pytest.mark.parametrize("hybrid", [False, True])
def test_what_a_source_gives_again_is_counted_twice_whatever_the_sink_is(hybrid):
    single = Repeating(0, 9)
    root = own(HybridSource.builder(single).add_source(NumberSequenceSource(0, 9)).build() if hybrid else single)
    sunk(root, TWO_PHASE)
    (found,) = all_of([root], CHECKPOINTS)
    assert (found.guarantee, found.reason) == (AT_LEAST, "nobody has acknowledged it")


def test_a_sink_that_promises_nothing_keeps_no_promise_of_others():
    assert of(PlainSink(DeliveryGuarantee.NONE), CHECKPOINTS, not_replayable="it is gone")[0] is NONE


def test_without_checkpoints_a_source_that_begins_at_its_end_reads_nothing_twice():
    assert of(SinkKind.PRINT, RESTARTS_ALONE, from_the_end=True)[0] is AT_MOST
    assert of(TWO_PHASE, CHECKPOINTS, from_the_end=True)[0] is EXACTLY


def test_rows_that_come_out_otherwise_are_other_rows_to_upserts_and_epochs_and_none_to_transactions():
    other = {"non_deterministic": ("rand()",)}
    assert of(UPSERT, CHECKPOINTS, **other) == (
        AT_LEAST, "upserts by key, but rand() of the source makes another element when it is read again"
    )  # fmt: skip
    assert of(SinkKind.FOR_EACH_BATCH, EVERY_EPOCH, **other)[0] is AT_LEAST
    assert of(TWO_PHASE, CHECKPOINTS, **other)[0] is EXACTLY


def test_a_batch_job_takes_no_checkpoints():
    restarts = {**CHECKPOINTS, "restart-strategy.type": "fixed-delay"}
    guarantee, reason = of(TWO_PHASE, restarts, batch=True)
    assert (guarantee, "it commits when the job ends" in reason) == (AT_LEAST, True)


def test_each_source_is_told_of_with_each_sink_that_it_reaches():
    first, second = source("first"), source("second")
    second.not_replayable = "it is gone"
    joined = mapped(first)
    sunk(KeyByTransformation("KeyBy", (joined,), None, column="word"), SinkKind.PRINT, "Print")
    both = sunk(joined, TWO_PHASE)
    both.parents = (joined, second)
    second.children.append(both)
    assert [(one.source, one.sink, one.guarantee) for one in all_of([first, second], CHECKPOINTS)] == [
        ("first", "Print", AT_LEAST),
        ("first", "FolderSink", EXACTLY),
        ("second", "FolderSink", AT_MOST),
    ]


@pytest.mark.parametrize(("function", "expected"), [(Counter(3), EXACTLY), (Blocking(), NONE)])
def test_a_source_function_is_as_good_as_what_it_keeps(function, expected):
    source = own(function)
    sunk(source, TWO_PHASE)
    (found,) = DeliveryGuarantees(
        StreamGraph([source]), StreamGraph([source]).assign_uids(auto=True), Configuration(CHECKPOINTS)
    ).all()
    assert found.guarantee is expected
    assert ("keeps no position" in found.reason) is (expected is NONE)


@pytest.mark.parametrize("sink", [TWO_PHASE, UPSERT])
def test_state_that_may_count_twice_makes_no_result_exactly_once(sink):
    mode = {**CHECKPOINTS, "execution.checkpointing.mode": "AT_LEAST_ONCE"}
    real_time = {"execution.engine": "real-time"}
    guarantee, reason = of(sink, {**mode, **real_time})
    assert guarantee is AT_LEAST
    assert reason.startswith("execution.checkpointing.mode = AT_LEAST_ONCE: ")
    assert of(sink, mode)[0] is EXACTLY, "on micro-batch the mode has no effect"
    assert of(sink, {**CHECKPOINTS, **real_time})[0] is EXACTLY


def test_results_that_are_held_back_are_none_at_most_once_where_state_may_count_twice():
    mode = {**CHECKPOINTS, "execution.checkpointing.mode": "AT_LEAST_ONCE", "execution.engine": "real-time"}
    assert of(SinkKind.COLLECT, CHECKPOINTS)[0] is AT_MOST
    assert of(SinkKind.COLLECT, mode)[0] is NONE
