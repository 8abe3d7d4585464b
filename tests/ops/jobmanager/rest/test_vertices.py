from __future__ import annotations

import jsonschema_rs
import pytest

from pystate.ops.jobmanager.rest import vertices
from pystate.ops.jobmanager.rest.schemas import schema_of
from pystate.runtime.rest.job_detail_messages import JobPlan, JobVertexDetails, JobVertexDetailsInfo
from tests.ops.jobmanager.rest.test_messages import JOB, VERTEX, status

METRICS = {"read-records": 20, "write-records": 10}


def test_a_vertex_has_flinks_counters_and_says_which_of_them_are_known():
    made = vertices.vertex({**VERTEX, "metrics": METRICS}, status(), now=5000).to_plain()

    jsonschema_rs.validate(schema_of(JobVertexDetails), made)
    assert made["metrics"] == {
        "read-bytes": 0,
        "read-bytes-complete": False,
        "write-bytes": 0,
        "write-bytes-complete": False,
        "read-records": 20,
        "read-records-complete": True,
        "write-records": 10,
        "write-records-complete": True,
        "accumulated-backpressured-time": 0,
        "accumulated-idle-time": 0,
        "accumulated-busy-time": "NaN",
    }
    assert (made["start-time"], made["duration"], made["uid"]) == (1900, 3100, "count")


def test_a_vertex_is_shown_subtask_by_subtask():
    made = vertices.vertex_details(JOB, status(attempt=2), VERTEX["id"], now=5000)

    assert made is not None
    jsonschema_rs.validate(schema_of(JobVertexDetailsInfo), made.to_plain())
    assert [one.subtask for one in made.subtasks] == [0, 1, 2]
    assert {(one.status, one.attempt, one.taskmanager_id) for one in made.subtasks} == {("RUNNING", 2, JOB)}
    assert vertices.vertex_details(JOB, status(), "e" * 32, now=5000) is None


def test_the_plan_is_what_the_driver_has_told():
    edge = {"id": "8e" * 16, "num": 0, "exchange": "pipelined_bounded", "ship_strategy": "HASH"}
    node = {"id": "9f" * 16, "description": "count<br/>", "parallelism": 2, "uid": "count", "inputs": [edge]}
    flinks = {"operator": "", "operator_strategy": "", "optimizer_properties": {}}

    assert vertices.plan(JOB, status(plan=[node])).to_plain()["nodes"] == [{**node, **flinks}]


@pytest.mark.parametrize("told", [{}, {"plan": []}])
def test_the_plan_of_an_older_driver_has_the_vertices_without_inputs(told):
    made = vertices.plan(JOB, status(**told)).to_plain()

    jsonschema_rs.validate(schema_of(JobPlan), made)
    assert [(node["id"], node["description"]) for node in made["nodes"]] == [(VERTEX["id"], "count -> print")]
