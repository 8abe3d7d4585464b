from __future__ import annotations

import re
from typing import Any

import jsonschema_rs
import pytest

from pystate.ops.jobmanager.rest.app import ROUTES
from pystate.ops.jobmanager.rest.openapi import openapi_document
from pystate.ops.jobmanager.rest.parameters import number
from pystate.ops.jobmanager.rest.route import RestRoute
from pystate.ops.jobmanager.rest.schemas import TEXT, record
from pystate.runtime.rest.message import RestMessage

DOCUMENT = openapi_document(ROUTES)
OPERATIONS = [(path, method, found) for path, verbs in DOCUMENT["paths"].items() for method, found in verbs.items()]


def schemas_of(operation: dict[str, Any]) -> list[dict[str, Any]]:
    contents = [answer["content"] for answer in operation["responses"].values()]
    contents += [operation["requestBody"]["content"]] if "requestBody" in operation else []
    found = [kind["schema"] for content in contents for kind in content.values()]
    return [*found, *(parameter["schema"] for parameter in operation["parameters"])]


def test_the_document_describes_every_route_at_every_path_and_nothing_else():
    described = {(method.upper(), path) for path, method, _ in OPERATIONS}

    assert described == {(route.method, path) for route in ROUTES for path in route.paths}
    assert len({operation["operationId"] for _, _, operation in OPERATIONS}) == len(OPERATIONS)
    assert {"/overview", "/v1/overview", "/pystate/openapi.json"} <= set(DOCUMENT["paths"])
    assert "/v1/pystate/openapi.json" not in DOCUMENT["paths"]


def test_every_schema_of_the_document_is_one():
    for path, method, operation in OPERATIONS:
        for schema in schemas_of(operation):
            assert jsonschema_rs.meta.is_valid(schema), f"{method} {path}: {schema}"
    assert jsonschema_rs.meta.is_valid(DOCUMENT["components"]["schemas"]["Errors"])


def test_every_placeholder_of_a_path_is_a_parameter_of_it():
    for path, _, operation in OPERATIONS:
        named = [parameter["name"] for parameter in operation["parameters"] if parameter["in"] == "path"]
        assert named == re.findall(r"{(\w+)}", path)
        assert all(parameter["required"] for parameter in operation["parameters"] if parameter["in"] == "path")


class Painted(RestMessage):
    colour: str


def test_an_operation_is_described_with_all_that_can_come_of_it():
    route = RestRoute(
        "POST",
        "/jobs/{job_id}/paint",
        lambda _request: {},
        "Paint a job.",
        Painted,
        status=202,
        query=(number("coats", "How many.", 2, low=1),),
        body=(),
        asks_driver=True,
        refusals=(409,),
    )

    operation = openapi_document([route])["paths"]["/v1/jobs/{job_id}/paint"]["post"]

    assert operation["operationId"] == "post_v1_jobs_job_id_paint"
    assert [parameter["name"] for parameter in operation["parameters"]] == ["job_id", "coats"]
    assert operation["parameters"][1]["schema"] == {"type": "integer", "minimum": 1, "maximum": 10**18 - 1, "default": 2}
    assert sorted(operation["responses"]) == [*("202", "400", "401", "403", "404", "408", "409", "413", "414", "431", "503")]
    assert operation["responses"]["202"]["content"]["application/json"]["schema"] == record({"colour": TEXT})
    assert operation["security"] == [{"token": []}, {}]


def test_it_is_served_to_everybody(served):
    assert served.get("/pystate/openapi.json", token=None) == DOCUMENT


@pytest.mark.parametrize("route", [route for route in ROUTES if route.is_public], ids=lambda route: route.path)
def test_nothing_but_the_document_is_public(route):
    assert route.path == "/pystate/openapi.json"
