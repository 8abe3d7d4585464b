"""Which edges carry time, and whose watermarks each input waits for."""

import pytest

from pystate.common import Duration, Types, WatermarkStrategy
from pystate.common.errors import JobGraphError
from pystate.core.api.operator_kind import OperatorKind
from pystate.core.api.stream_graph import StreamGraph
from pystate.core.api.transformations import TimestampsTransformation
from pystate.datastream import KeyedProcessFunction
from pystate.runtime.engines.micro_batch.spark.level import levels_of
from pystate.runtime.plan.plan_nodes import plan_nodes
from pystate.runtime.plan.planner import JobPlanner
from pystate.runtime.plan.task_output import Routing
from tests.runtime.plan.programs import connected, keyed, mapped, planned, printed, process, source, united

BOUNDED = WatermarkStrategy.for_bounded_out_of_orderness(Duration.of_seconds(5))
PAIRS = Types.TUPLE([Types.STRING(), Types.LONG()])


def timed(parent, strategy=BOUNDED, uid=None, parallelism=None):
    step = TimestampsTransformation(
        "times", (parent,), uid=uid, parallelism=parallelism, kind=OperatorKind.ASSIGN_TIMESTAMPS
    )
    step.function = strategy
    return step


def words(number=0):
    return source(f"words {number}", output_type=PAIRS, uid=f"words{number}")


def by_word(parent, uid, **options):
    return process(keyed(parent, selector=len, key_type=Types.LONG()), uid=uid, **options)


def shapes(plan):
    """Return what a plan says of ways and rows."""
    edges = [*plan.source_edges(), *(output for task in plan.tasks for output in task.outputs)]
    ways = [(edge.target, edge.routing, edge.timestamped, edge.schema()) for edge in edges]
    ports = [(port.routing, port.task.uid) for level in levels_of(plan) for port in level.ports]
    return plan_nodes(plan), ways, ports, plan.direct_routing, [task.inputs for task in plan.tasks]


def program(with_times):
    root = words()
    start = timed(root, uid="times") if with_times else root
    printed(mapped(by_word(start, "count"), uid="last"))
    printed(mapped(start, uid="shown"))
    return root


def plain_map(root):
    printed(mapped(keyed(root, selector=len), uid="m"))
    return root


def test_a_job_in_which_nobody_asks_for_time_is_planned_as_if_there_were_none():
    first, second = words(), words()
    plain_map(first)
    plain_map(timed(second))
    assert shapes(planned([first])) == shapes(planned([second]))


def test_a_job_without_times_has_no_column_and_no_watermarks():
    nodes, ways, ports, _, inputs = shapes(planned([program(with_times=False)]))
    assert not any(timestamped for _, _, timestamped, _ in ways)
    assert Routing.WATERMARK not in {routing for routing, _ in ports}
    assert not any(read.channels for reads in inputs for read in reads)
    assert "times" not in str(nodes)


def test_only_the_edges_between_a_strategy_and_who_asks_for_time_carry_it():
    root = words()
    late = by_word(timed(mapped(by_word(root, "early"), uid="m"), uid="times"), "late")
    printed(mapped(keyed(late, selector=len), uid="last"))
    plan = planned([root])
    edges = {output.target: output for task in plan.tasks for output in task.outputs if output.target}
    (into_early,) = plan.source_edges()
    assert not into_early.timestamped
    assert edges["late"].timestamped
    assert edges["late"].assigners == {"times"}
    assert not edges["last"].timestamped
    assert plan.task("late").inputs[0].channels == {"early/0/0": None, "early/0/1": None}
    _, second, third = levels_of(plan)
    assert [port.routing for port in second.ports] == [Routing.KEY, Routing.WATERMARK]
    assert [port.frame_index for port in second.ports] == [0, 1]
    assert third.is_single


def test_a_strategy_after_a_source_runs_in_its_stage_and_is_one_channel():
    root = words()
    printed(by_word(timed(root, BOUNDED.with_idleness(Duration.of_seconds(9)), uid="times"), "count"))
    plan = planned([root])
    (edge,) = plan.source_edges()
    assert [node.operator.uid for node in plan.sources[0].chain.nodes()] == ["times"]
    assert (edge.timestamped, edge.assigners) == (True, {"times"})
    assert plan.task("count").inputs[0].channels == {"words0/0": 9_000}


def test_an_input_waits_for_all_streams_that_are_united_in_it_also_those_without_times():
    first, second = words(1), words(2)
    printed(by_word(united(timed(first), second), "count"))
    plan = planned([first, second])
    assert set(plan.task("count").inputs[0].channels) == {"words1/0", "words2/0"}
    assert all(edge.timestamped for edge in plan.source_edges())
    assert [edge.assigners for edge in plan.source_edges()][1] == {None}


def test_a_second_input_without_times_has_no_channels():
    first, second = words(1), words(2)
    joined = connected(
        keyed(timed(first), selector=len, key_type=Types.LONG()), keyed(second, selector=len, key_type=Types.LONG()), "both"
    )
    printed(joined)
    reads = planned([first, second]).task("both").inputs
    assert [read.timestamped for read in reads] == [True, False]
    assert [set(read.channels) for read in reads] == [{"words1/0"}, set()]


def test_watermarks_pass_levels_as_other_rows_do():
    root = words()
    times = timed(root)
    printed(by_word(united(by_word(times, "first", output_type=PAIRS), times), "second"))
    first, second = levels_of(planned([root]))
    assert [port.routing for port in first.passing] == [Routing.KEY, Routing.WATERMARK]
    assert [port.routing for port in second.ports] == [Routing.KEY, Routing.WATERMARK]


def test_a_strategy_of_a_source_stands_after_it_whoever_is_added_later():
    root = source("words", output_type=PAIRS, uid="words", watermark_strategy=BOUNDED)
    printed(by_word(root, "count"))
    StreamGraph([root])
    printed(by_word(root, "again"))
    graph = StreamGraph([root])
    plan = JobPlanner(graph, graph.assign_uids(auto=True), 2).plan([PAIRS])
    assert all(edge.timestamped for edge in plan.source_edges())
    assert len(plan.sources[0].chain.all_operators()) == 1
    assert {task.uid for task in plan.tasks} == {"count", "again"}


def test_a_strategy_of_a_source_leaves_generated_uids_as_they_were():
    def uids(strategy):
        root = source("words", output_type=PAIRS, watermark_strategy=strategy)
        joined = by_word(united(mapped(root), by_word(root, None)), None)
        printed(mapped(joined))
        printed(by_word(root, None))
        printed(root)
        return {task.uid: [operator.uid for operator in task.operators] for task in planned([root]).tasks}

    assert uids(BOUNDED) == uids(None)
    assert len(uids(BOUNDED)) == 4


def test_a_strategy_of_a_source_has_the_sources_parallelism():
    root = source("words", output_type=PAIRS, watermark_strategy=BOUNDED)
    root.parallelism = 1
    printed(by_word(root, "count"))
    (step,) = [step for step in StreamGraph([root]).transformations() if isinstance(step, TimestampsTransformation)]
    assert step.parallelism == 1


def test_a_strategy_after_that_of_a_source_has_a_generated_uid_of_its_own():
    root = source("words", output_type=PAIRS, watermark_strategy=BOUNDED)
    printed(by_word(timed(timed(root)), "count"))
    uids = StreamGraph([root]).assign_uids(auto=True)
    assert len(set(uids.values())) == len(uids)
    assert {task.uid for task in planned([root]).tasks} == {"count"}


class Alarm(KeyedProcessFunction):
    def process_element(self, value, ctx):
        return None

    def on_timer(self, timestamp, ctx):
        return None


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: WatermarkStrategy.for_bounded_out_of_orderness(5), "takes a Duration of 0 ms or more, not 5"),
        (lambda: BOUNDED.with_idleness(Duration.of_millis(0)), "takes a Duration of 1 ms or more"),
        (lambda: BOUNDED.with_timestamp_assigner(len), "takes a TimestampAssigner, not <built-in function len>"),
    ],
)
def test_a_strategy_of_wrong_parts_is_refused(make, message):
    with pytest.raises(JobGraphError, match=message):
        make()


def test_alignment_is_accepted_with_a_notice(caplog):
    assert BOUNDED.with_watermark_alignment("group", Duration.of_seconds(1)) == BOUNDED
    assert "with_watermark_alignment('group') has no effect" in caplog.text


@pytest.mark.parametrize("strategy", [BOUNDED, BOUNDED.with_idleness(Duration.of_seconds(1))])
@pytest.mark.parametrize("others_end", [True, False])
def test_a_bounded_source_whose_end_nobody_tells_of_is_named_where_event_time_may_wait_for_it(strategy, others_end):
    ends, collection, live = words(1), words(2), words(3)
    ends.bounded = collection.bounded = True
    collection.collection, live.bounded = [("a", 1)], others_end
    streams = [timed(root, strategy, uid=f"times {root.name}") for root in (ends, collection, live)]
    printed(by_word(united(*streams), "count"))
    found = [warning for warning in planned([ends, collection, live]).warnings if "Event time waits for" in warning]
    waits = strategy is BOUNDED and not others_end
    assert len(found) == waits
    assert not waits or "'words 1'" in found[0]
