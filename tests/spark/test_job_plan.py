import pytest

from pystate.api.job_graph import (
    KeyByTransformation,
    OneInputTransformation,
    OperatorKind,
    SinkKind,
    SinkTransformation,
    SourceTransformation,
    StreamGraph,
)
from pystate.common import Types
from pystate.common.errors import JobGraphError
from pystate.datastream import KeyedProcessFunction
from pystate.slot.output import OutputKind
from pystate.spark.job_plan import JobPlanner, vertex_id

ROWS = Types.ROW_NAMED(["word", "n"], [Types.STRING(), Types.LONG()])


class Nothing(KeyedProcessFunction):
    def process_element(self, value, ctx):
        return None


def source():
    return SourceTransformation("source")


def mapped(parent, name="Map", uid=None, output_type=None):
    return OneInputTransformation(name, (parent,), output_type, uid=uid, kind=OperatorKind.MAP, function=str)


def keyed(parent, **key):
    return KeyByTransformation("KeyBy", (parent,), parent.output_type, **key)


def process(parent, uid=None, name="KeyedProcess"):
    return OneInputTransformation(name, (parent,), uid=uid, kind=OperatorKind.PROCESS, function=Nothing(), keyed=True)


def printed(parent):
    return SinkTransformation("Print", (parent,), kind=SinkKind.PRINT)


def plan(root, source_type=ROWS, parallelism=2):
    graph = StreamGraph([root])
    return JobPlanner(graph, graph.assign_uids(auto=True), parallelism, {}, 128).plan(source_type)


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
    assert made.source.chain is None, "a key that is a column needs no Python in front of the shuffle"


def test_functions_in_front_of_key_by_run_in_one_chain_on_the_source():
    root = source()
    second = mapped(mapped(root, "first"), "second", output_type=Types.STRING())
    printed(process(keyed(second, selector=len)))
    made = plan(root)
    assert [operator.name for operator in made.source.chain.all_operators()] == ["first", "second"]
    (edge,) = made.source.chain.all_outputs()
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
    assert [output.target for output in made.source.chain.all_outputs()] == ["by-word", "by-n"]


def test_what_branches_off_in_front_of_a_key_is_a_task_without_one():
    root = source()
    shared = mapped(root, "shared", uid="shared")
    printed(process(keyed(shared, selector=len), uid="counted"))
    printed(mapped(shared, "aside"))
    made = plan(root)
    assert [operator.name for operator in made.source.chain.all_operators()] == ["shared"], "it runs once for both"
    (level,) = made.levels
    assert [(task.uid, task.key is None) for task in level] == [("counted", False), ("shared-sink", True)]
    assert [operator.name for operator in level[1].chain.all_operators()] == ["aside"]


def test_two_steps_on_one_key_are_two_tasks():
    root = source()
    key = keyed(root, column="word")
    printed(process(key, uid="one"))
    printed(process(key, uid="two"))
    assert [task.uid for task in plan(root).tasks] == ["one", "two"]


def test_branches_behind_a_keyed_operator_are_the_next_level():
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
