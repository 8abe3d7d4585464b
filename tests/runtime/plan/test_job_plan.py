import pytest

from pystate.common import Types
from pystate.common.errors import JobGraphError
from pystate.core.api.operator_kind import OperatorKind
from pystate.core.api.stream_graph import StreamGraph
from pystate.core.api.transformations import Partitioning, SinkKind, SinkTransformation
from pystate.datastream import CheckpointedFunction, MapFunction, SinkFunction
from pystate.runtime.plan.job_plan import edges_of, vertex_id
from pystate.runtime.plan.task_output import OutputKind, Routing
from tests.runtime.plan.programs import (
    ROWS,
    connected,
    keyed,
    mapped,
    partitioned,
    planned,
    printed,
    process,
    source,
    united,
)


class Remembering(MapFunction, CheckpointedFunction):
    def map(self, value):
        return value

    def snapshot_state(self, context):
        return None

    def initialize_state(self, context):
        return None


class Swallow(SinkFunction):
    def invoke(self, value, context):
        return None


def plan(root, source_type=ROWS, parallelism=2):
    return planned([root], [source_type], parallelism)


def uids_by_level(made):
    return [[task.uid for task in level] for level in made.levels]


def routes(made):
    """Return where each edge leads: (from, to, input, routing)."""
    found = [(source.uid, edge) for source in made.sources if source.chain for edge in source.chain.all_outputs()]
    found += [(task.uid, edge) for task in made.tasks for edge in edges_of(task)]
    return [(uid, edge.target, edge.input_index, edge.routing) for uid, edge in found]


def test_a_keyed_operator_is_a_task_with_what_follows_chained_to_it():
    root = source()
    counted = process(keyed(root, column="word"), uid="count")
    printed(mapped(counted))
    made = plan(root)
    (task,) = made.tasks
    assert (task.uid, task.vertex_id, task.parallelism, task.max_parallelism) == ("count", vertex_id("count"), 2, 128)
    assert task.key.column == "word"
    assert task.key.key_type == Types.STRING()
    assert [operator.name for operator in task.chain.all_operators()] == ["Map"]
    assert [(sink.task_uid, sink.tag) for sink in made.sinks] == [("count", 0)]
    assert made.sources[0].chain is None, "a key that is a column needs no Python before the shuffle"


def test_functions_before_key_by_run_in_one_chain_on_the_source():
    root = source()
    second = mapped(mapped(root, "first"), "second", output_type=Types.STRING())
    printed(process(keyed(second, selector=len)))
    made = plan(root)
    assert [operator.name for operator in made.sources[0].chain.all_operators()] == ["first", "second"]
    (edge,) = made.sources[0].chain.all_outputs()
    assert (edge.kind, edge.target, edge.selector) == (OutputKind.EDGE, made.tasks[0].uid, len)
    assert made.tasks[0].inputs[0].type_info == Types.STRING()


def test_two_keyed_operators_are_two_tasks_joined_by_an_edge():
    root = source()
    first = process(keyed(root, column="word"), uid="first")
    printed(first)
    printed(process(keyed(first, selector=len), uid="second"))
    made = plan(root)
    assert [[task.uid for task in level] for level in made.levels] == [["first"], ["second"]]
    assert {output.kind for output in made.tasks[0].outputs} == {OutputKind.EDGE, OutputKind.PRINT}
    assert [(sink.task_uid, sink.tag) for sink in made.sinks] == [("first", 0), ("second", 0)]


def test_a_stateless_job_is_one_task_without_a_head():
    root = source()
    printed(mapped(root))
    made = plan(root)
    (task,) = made.tasks
    assert task.head is None
    assert task.key is None
    assert task.inputs[0].type_info == ROWS


def test_several_sinks_of_one_task_have_tags_of_their_own():
    root = source()
    counted = process(keyed(root, column="word"), uid="count")
    printed(counted)
    printed(mapped(counted))
    assert sorted(sink.tag for sink in plan(root).sinks) == [0, 1]


def test_an_operator_without_a_sink_runs_all_the_same():
    root = source()
    keyed_stream = keyed(root, column="word")
    counted = process(keyed_stream, uid="count")
    mapped(counted, "dead end")
    printed(counted)
    (task,) = plan(root).tasks
    assert [operator.name for operator in task.chain.all_operators()] == ["dead end"]


def test_uids_come_from_the_place_in_the_graph_and_stay_the_same_for_the_same_program():
    def uids():
        root = source()
        printed(mapped(process(keyed(root, column="word"))))
        graph = StreamGraph([root])
        return list(graph.assign_uids(auto=True).values())

    assert uids() == uids()
    assert len(set(uids())) == 5


def test_a_stateful_operator_without_a_uid_gets_a_warning():
    root = source()
    printed(process(keyed(root, column="word"), name="counter"))
    (warning,) = plan(root).warnings
    assert "'counter'" in warning
    assert "uid" in warning


def refusal(build):
    root = source()
    build(root)
    with pytest.raises(JobGraphError) as refused:
        plan(root)
    return str(refused.value)


def test_shapes_that_can_not_run_are_refused_with_a_reason():
    assert "no sink" in refusal(lambda root: mapped(root))
    assert "the rows have word, n" in refusal(lambda root: printed(process(keyed(root, column="wrod"))))


def test_two_keys_of_one_stream_are_two_tasks_of_one_level():
    root = source()
    printed(process(keyed(root, column="word"), uid="by-word"))
    printed(process(keyed(root, column="n"), uid="by-n"))
    made = plan(root)
    assert [[task.uid for task in level] for level in made.levels] == [["by-word", "by-n"]]
    assert [output.target for output in made.sources[0].chain.all_outputs()] == ["by-word", "by-n"]


def test_what_branches_off_before_a_key_is_a_task_without_one():
    root = source()
    shared = mapped(root, "shared", uid="shared")
    printed(process(keyed(shared, selector=len), uid="counted"))
    printed(mapped(shared, "aside"))
    made = plan(root)
    assert [operator.name for operator in made.sources[0].chain.all_operators()] == ["shared"], "it runs once for both"
    (level,) = made.levels
    assert [(task.uid, task.key is None) for task in level] == [("counted", False), ("shared-sink", True)]
    assert [operator.name for operator in level[1].chain.all_operators()] == ["aside"]


def test_two_steps_on_one_key_are_two_tasks():
    root = source()
    key = keyed(root, column="word")
    printed(process(key, uid="one"))
    printed(process(key, uid="two"))
    assert [task.uid for task in plan(root).tasks] == ["one", "two"]


def test_branches_after_a_keyed_operator_are_the_next_level():
    root = source()
    first = process(keyed(root, column="word"), uid="first")
    printed(process(keyed(first, selector=len), uid="left"))
    printed(process(keyed(first, selector=str), uid="right"))
    made = plan(root)
    assert [[task.uid for task in level] for level in made.levels] == [["first"], ["left", "right"]]


def test_a_uid_used_twice_is_refused():
    root = source()
    printed(mapped(process(keyed(root, column="word"), uid="same"), uid="same"))
    with pytest.raises(JobGraphError, match="used by two operators"):
        StreamGraph([root]).assign_uids(auto=True)


def test_auto_uids_can_be_switched_off():
    root = source()
    printed(process(keyed(root, column="word"), name="counter"))
    with pytest.raises(JobGraphError, match="'counter' keeps state and has no uid"):
        StreamGraph([root]).assign_uids(auto=False)


# -- several sources, unions


def test_what_follows_a_union_of_sources_runs_in_the_stage_of_each():
    left, right = source("left", ROWS, uid="left"), source("right", ROWS, uid="right")
    both = mapped(united(left, mapped(right, "prepare", output_type=ROWS)), "both", output_type=Types.STRING())
    printed(process(keyed(both, selector=len), uid="count"))
    made = planned([left, right])
    names = [sorted(operator.name for operator in plan.chain.all_operators()) for plan in made.sources]
    assert names == [["both"], ["both", "prepare"]]
    assert uids_by_level(made) == [["count"]]
    assert routes(made) == [("left", "count", 0, Routing.KEY), ("right", "count", 0, Routing.KEY)]


def test_sources_that_are_united_as_they_are_need_no_python_before_the_shuffle():
    left, right = source("left", ROWS), source("right", ROWS)
    printed(process(keyed(united(left, right), column="word"), uid="count"))
    made = planned([left, right])
    assert made.direct_routing is Routing.KEY
    assert [plan.chain for plan in made.sources] == [None, None]


def test_a_source_that_nobody_reads_is_left_out():
    left, unused = source("left", ROWS), source("unused", ROWS)
    printed(left)
    made = planned([left, unused], [ROWS])
    assert [plan.step.name for plan in made.sources] == ["left"]


def test_a_union_of_a_source_and_a_stateful_stream_is_joined_by_a_shuffle():
    root = source(output_type=ROWS, uid="root")
    counted = process(keyed(root, column="word"), uid="first", output_type=ROWS)
    printed(process(keyed(united(root, counted), column="word"), uid="second"))
    made = planned([root])
    assert uids_by_level(made) == [["first"], ["second"]]
    assert routes(made) == [
        ("root", "first", 0, Routing.KEY),
        ("root", "second", 0, Routing.KEY),
        ("first", "second", 0, Routing.KEY),
    ]


def test_steps_without_a_key_after_such_a_union_are_one_task_of_their_own():
    root = source(output_type=ROWS, uid="root")
    counted = process(keyed(root, column="word"), uid="first", output_type=ROWS)
    both = united(root, counted)
    printed(mapped(both, "after", uid="after"))
    printed(both)
    made = planned([root])
    assert uids_by_level(made) == [["first"], ["after"]]
    assert [operator.name for operator in made.task("after").chain.all_operators()] == ["after"]
    assert [sink.task_uid for sink in made.sinks] == ["after", "after"]
    assert ("first", "after", 0, Routing.FORWARD) in routes(made)


def test_a_union_within_one_task_stays_there():
    root = source(output_type=ROWS)
    counted = process(keyed(root, column="word"), uid="count", output_type=ROWS)
    printed(mapped(united(mapped(counted, "a", output_type=ROWS), mapped(counted, "b", output_type=ROWS), counted), "after"))
    made = planned([root])
    assert uids_by_level(made) == [["count"]]
    a, b, after = made.tasks[0].chain.children
    assert a.children[0] is b.children[0] is after, "one operator after three streams"
    assert len(made.tasks[0].outputs) == 1


def test_a_stream_united_with_itself_sends_each_element_twice():
    root = source(output_type=ROWS, uid="root")
    printed(process(keyed(united(root, root), selector=str), uid="count"))
    made = planned([root])
    assert routes(made) == [("root", "count", 0, Routing.KEY)] * 2
    assert len({edge.tag for edge in made.source_edges()}) == 2


def test_unions_of_unions_are_one_union():
    roots = [source(name, ROWS, uid=name) for name in "abc"]
    printed(process(keyed(united(united(*roots[:2]), roots[2]), selector=str), uid="count"))
    made = planned(roots)
    assert [edge[0] for edge in routes(made)] == ["a", "b", "c"]


def test_streams_of_different_types_are_not_united():
    left, right = source("left", ROWS), source("right", Types.STRING())
    printed(united(left, right))
    with pytest.raises(JobGraphError, match="'left' has ROW<word STRING, n LONG>, 'right' has STRING"):
        planned([left, right])


def test_the_type_of_rows_reaches_through_filters_and_unions():
    root = source()
    kept = mapped(root, "kept")
    kept.kind, kept.function = OperatorKind.FILTER, bool
    printed(process(keyed(united(kept, root), column="word"), uid="count"))
    made = planned([root])
    assert made.task("count").inputs[0].type_info == ROWS


# -- edges over several levels


def test_a_task_stands_after_the_last_of_its_inputs():
    root = source(output_type=ROWS, uid="root")
    first = process(keyed(root, column="word"), uid="first", output_type=ROWS)
    second = process(keyed(first, column="word"), uid="second", output_type=ROWS)
    third = united(root, first, second)
    printed(process(keyed(third, column="n"), uid="third"))
    assert uids_by_level(planned([root])) == [["first"], ["second"], ["third"]]


# -- two inputs


def test_connected_streams_are_a_task_of_two_inputs():
    root, other = source("root", ROWS, uid="root"), source("other", Types.STRING(), uid="other")
    first = process(keyed(root, column="word"), uid="first", output_type=ROWS)
    joined = connected(keyed(first, column="word"), keyed(other, selector=str, key_type=Types.STRING()), uid="joined")
    printed(joined)
    made = planned([root, other])
    task = made.task("joined")
    assert uids_by_level(made) == [["first"], ["joined"]]
    assert task.head.kind is OperatorKind.KEYED_CO_PROCESS
    assert [(read.type_info, read.key.key_type, read.broadcast) for read in task.inputs] == [
        (ROWS, Types.STRING(), False),
        (Types.STRING(), Types.STRING(), False),
    ]
    assert ("first", "joined", 0, Routing.KEY) in routes(made)
    assert ("other", "joined", 1, Routing.KEY) in routes(made)


def test_keys_of_different_types_do_not_meet():
    left, right = source("left", ROWS), source("right", ROWS)
    printed(connected(keyed(left, column="word"), keyed(right, column="n")))
    with pytest.raises(JobGraphError, match="the first has STRING, the second LONG"):
        planned([left, right])


def test_a_broadcast_input_is_marked_and_sent_to_every_subtask():
    data, rules = source("data", ROWS, uid="data"), source("rules", ROWS, uid="rules")
    printed(connected(data, partitioned(united(rules, data), Partitioning.BROADCAST), uid="match"))
    made = planned([data, rules])
    assert [read.broadcast for read in made.task("match").inputs] == [False, True]
    assert ("rules", "match", 1, Routing.BROADCAST) in routes(made)
    assert ("data", "match", 0, Routing.FORWARD) in routes(made)


def test_a_stream_of_which_only_a_part_is_broadcast_is_no_broadcast_input():
    left, right = source("left", ROWS, uid="left"), source("right", ROWS, uid="right")
    printed(united(left, partitioned(right, Partitioning.BROADCAST)))
    made = planned([left, right])
    assert not made.tasks[0].inputs[0].broadcast
    assert [routing for *_, routing in routes(made)] == [Routing.FORWARD, Routing.BROADCAST]


# -- slots and the source's stage


def test_a_function_that_takes_part_in_checkpoints_never_runs_after_the_source():
    root = source(output_type=ROWS, uid="root")
    remembered = mapped(mapped(root, "plain"), "remembering", uid="remembering", function=Remembering())
    printed(process(keyed(remembered, selector=str), uid="count"))
    made = planned([root])
    assert uids_by_level(made) == [["root-sink"], ["count"]]
    assert [operator.uid for operator in made.task("root-sink").chain.all_operators()][1] == "remembering"


def test_a_sink_function_is_the_end_of_a_chain():
    root = source(output_type=ROWS)
    counted = process(keyed(root, column="word"), uid="count")
    SinkTransformation("Sink", (counted,), uid="swallow", kind=SinkKind.FUNCTION, function=Swallow())
    made = planned([root])
    (node,) = made.tasks[0].chain.children
    assert (node.operator.uid, node.operator.kind, node.children, node.outputs) == ("swallow", OperatorKind.SINK, [], [])
    assert made.sinks == []


def test_a_stateful_function_without_a_uid_gets_a_warning_wherever_it_stands():
    root = source(output_type=ROWS)
    printed(mapped(root, "remembering", function=Remembering()))
    (warning,) = planned([root]).warnings
    assert "'remembering'" in warning


# -- parallelism


def test_steps_share_a_task_only_at_the_same_parallelism():
    root = source(output_type=ROWS)
    counted = process(keyed(root, column="word"), uid="count", parallelism=4)
    printed(mapped(mapped(counted, "same", parallelism=4), "other", uid="other"), parallelism=1)
    made = planned([root])
    assert uids_by_level(made)[:2] == [["count"], ["other"]]
    assert [task.parallelism for task in made.tasks] == [4, 2, 1]
    assert made.width == 4
    assert [len(made.hosted_by(slot)) for slot in range(4)] == [3, 2, 1, 1]
    assert [routing for *_, routing in routes(made)] == [Routing.REBALANCE, Routing.FORWARD], "all go to the only subtask"
    assert [operator.name for operator in made.task("count").chain.all_operators()] == ["same"]


def test_a_step_with_its_own_parallelism_leaves_the_stage_of_the_source():
    root = source(output_type=ROWS, uid="root")
    printed(process(keyed(mapped(root, "narrow", uid="narrow", parallelism=1), selector=str), uid="count"))
    made = planned([root])
    assert uids_by_level(made) == [["narrow"], ["count"]]
    assert [task.parallelism for task in made.tasks] == [1, 2]


def test_max_parallelism_is_the_steps_else_the_jobs_else_derived():
    root = source(output_type=ROWS)
    first = process(keyed(root, column="word"), uid="first", output_type=ROWS, max_parallelism=64)
    printed(process(keyed(first, column="word"), uid="second", parallelism=200), parallelism=200)

    def maxima(**job):
        made = planned([root], [ROWS], **job)
        return [task.max_parallelism for task in made.tasks], made.explicit_max_parallelism

    assert maxima() == ([64, 512], {"first": 64})
    assert maxima(max_parallelism=256) == ([64, 256], {"first": 64, "second": 256})


@pytest.mark.parametrize(
    ("partitioning", "routing"),
    [
        (Partitioning.REBALANCE, Routing.REBALANCE),
        (Partitioning.SHUFFLE, Routing.SHUFFLE),
        (Partitioning.GLOBAL, Routing.GLOBAL),
        (Partitioning.BROADCAST, Routing.BROADCAST),
    ],
)
def test_a_partitioning_begins_a_new_task_and_says_where_elements_go(partitioning, routing):
    root = source(output_type=ROWS)
    counted = process(keyed(root, column="word"), uid="count", output_type=ROWS)
    printed(partitioned(partitioned(counted, Partitioning.REBALANCE), partitioning))
    made = planned([root])
    assert len(made.levels) == 2
    assert routes(made)[0][3] is routing, "the last one counts"


def test_forward_keeps_steps_together_and_is_refused_between_different_parallelisms():
    root = source(output_type=ROWS)
    counted = process(keyed(root, column="word"), uid="count", output_type=ROWS)
    printed(mapped(partitioned(counted, Partitioning.FORWARD), "after"))
    assert uids_by_level(planned([root])) == [["count"]]
    printed(mapped(partitioned(counted, Partitioning.FORWARD), "wide", parallelism=3))
    with pytest.raises(JobGraphError, match="'KeyedProcess' has 2, 'wide' 3"):
        planned([root])


def test_uids_of_shapes_with_several_parents_are_different_and_stay_the_same():
    def uids():
        left, right = source("left", ROWS), source("right", ROWS)
        both = united(left, right, left)
        printed(connected(keyed(both, column="word"), keyed(united(left, right), column="word")))
        printed(both)
        return list(StreamGraph([left, right]).assign_uids(auto=True).values())

    assert uids() == uids()
    assert len(set(uids())) == 9
