from __future__ import annotations

import jsonschema_rs

from pystate.core.api.transformations import Partitioning
from pystate.ops.jobmanager.rest.schemas import schema_of
from pystate.runtime.plan.job_plan import vertex_id
from pystate.runtime.plan.plan_nodes import plan_nodes
from pystate.runtime.rest.job_detail_messages import JobPlan
from tests.runtime.plan.programs import ROWS, keyed, mapped, partitioned, planned, printed, process, source


def nodes_of(root, parallelism=2):
    nodes = plan_nodes(planned([root], [ROWS], parallelism))
    jsonschema_rs.validate(schema_of(JobPlan), {"jid": "0" * 32, "name": "job", "type": "STREAMING", "nodes": nodes})
    return nodes


def inputs_of(node):
    return [(one["id"], one["ship_strategy"]) for one in node.get("inputs", [])]


def test_the_plan_of_a_count_has_flinks_nodes_the_last_first():
    root = source("words")
    counted = process(keyed(root, column="word"), uid="count", name="count")
    printed(mapped(counted, "dup"))

    task, origin = nodes_of(root)

    assert task["id"] == vertex_id("count")
    assert task["description"] == "count<br/>+- dup<br/>   +- Sink: Print<br/>"
    assert inputs_of(task) == [(origin["id"], "HASH")]
    assert task["inputs"][0] == {"id": origin["id"], "num": 0, "exchange": "pipelined_bounded", "ship_strategy": "HASH"}
    assert (origin["description"], origin["parallelism"], inputs_of(origin)) == ("Source: words<br/>", 2, [])


def test_what_runs_on_a_source_stands_in_its_node():
    root = source("words")
    printed(process(keyed(mapped(root, "to-kv"), selector=len), uid="count", name="count"))

    task, origin = nodes_of(root)

    assert origin["description"] == "Source: words<br/>+- to-kv<br/>"
    assert inputs_of(task) == [(origin["id"], "HASH")]


def test_branches_are_drawn_and_names_can_not_be_markup():
    root = source()
    counted = process(keyed(root, column="word"), uid="count", name="a<b>")
    printed(mapped(counted, "one"))
    printed(counted)

    assert nodes_of(root)[0]["description"] == "a&lt;b&gt;<br/>:- one<br/>:  +- Sink: Print<br/>+- Sink: Print<br/>"


def test_each_way_to_a_task_has_flinks_name():
    root = source()
    first = process(keyed(root, column="word"), uid="first", name="first")
    printed(mapped(partitioned(first, Partitioning.REBALANCE), "second", uid="second"))

    second, task, _ = nodes_of(root)

    assert inputs_of(second) == [(task["id"], "REBALANCE")]
    assert second["description"] == "second<br/>+- Sink: Print<br/>"
