"""docs/rest.md against the routes."""

from __future__ import annotations

import json
import re

import jsonschema_rs
import pytest

from pystate.jobmanager.rest.app import ROUTES
from pystate.jobmanager.rest.route import RestRoute
from tests.jobmanager.harness import REPOSITORY

PAGE = (REPOSITORY / "docs" / "rest.md").read_text(encoding="utf-8")
SECTIONS = dict(re.findall(r"^### ([A-Z]+ \S+)\n(.*?)(?=^##|\Z)", PAGE, re.MULTILINE | re.DOTALL))


def heading(route: RestRoute) -> str:
    return f"{route.method} " + re.sub(r"{(\w+)}", lambda found: ":" + found[1].replace("_", ""), route.path)


def test_the_page_has_a_section_for_every_route_and_no_other():
    assert sorted(SECTIONS) == sorted(map(heading, ROUTES))


@pytest.mark.parametrize("route", ROUTES, ids=heading)
def test_a_section_says_what_the_route_does_and_shows_an_answer_that_it_gives(route):
    section = SECTIONS[heading(route)]

    assert route.summary in section
    assert ("*Owner.*" in section) is route.owner_only
    assert all(f"`{parameter.name}`" in section for parameter in route.query)
    answers = re.findall(r"^```json\n(.*?)\n```$", section, re.MULTILINE | re.DOTALL)
    for answer in answers:
        jsonschema_rs.validate(route.response, json.loads(answer))
    if route.path.startswith(("/jobs", "/savepoint-disposal")) and "metrics" not in route.path:
        assert answers
