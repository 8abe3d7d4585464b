"""docs/rest.md against the routes: what it says of each, the request it shows, which is sent, and the answer it shows."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, urlencode

import jsonschema_rs
import pytest

from pystate.common.errors import UsageError
from pystate.common.text.plain_data import entries
from pystate.ops.jobmanager.rest.app import ROUTES
from pystate.ops.jobmanager.rest.document import attributes, heading, messages, with_routes
from pystate.ops.jobmanager.rest.route import RestRoute
from tests.ops.jobmanager.harness import REPOSITORY, eventually
from tests.ops.jobmanager.registration.made_registrations import JOB, proven, registration
from tests.ops.jobmanager.rest.in_process import HOME_TOKEN, InProcess
from tests.runtime.checkpoint.stats.statistics import Statistics
from tests.runtime.checkpoint.stats.tasks import COUNT

PAGE = (REPOSITORY / "docs" / "rest.md").read_text(encoding="utf-8")
SECTIONS = dict(re.findall(r"^### ([A-Z]+ \S+)\n(.*?)(?=^##|\Z)", PAGE, re.MULTILINE | re.DOTALL))
BLOCK = re.compile(r"^```(json|)\n(.*?)\n```$", re.MULTILINE | re.DOTALL)
ENDS_A_JOB = (
    "PATCH /jobs/:jobid",
    "PATCH /jobs/:jobid/rescaling",
    "POST /jobs/:jobid/stop",
    "POST /pystate/jobs/:jobid/replacement",
)
CHECKPOINT = "1"


class Example:
    """The request and the answer that a section shows."""

    def __init__(self, section: str) -> None:
        (_, request), (self.kind, self.answer) = BLOCK.findall(section)
        words = request.split(" ", 2)
        self.method, self.target = words[:2]
        self.body = json.loads(words[2]) if len(words) > 2 else None
        status = re.search(r"^(\d{3}):$", section, re.MULTILINE)
        self.status = int(status[1]) if status else 200


def test_the_page_has_a_section_for_every_route_and_no_other():
    assert sorted(SECTIONS) == sorted(map(heading, ROUTES))


def test_the_page_says_what_follows_from_the_routes():
    assert with_routes(PAGE) == PAGE, "make rest writes it"


def test_a_route_without_a_section_is_named():
    with pytest.raises(UsageError, match="no section for GET /overview"):
        with_routes(PAGE.replace("### GET /overview\n", "### GET /elsewhere\n"))


@pytest.mark.parametrize("kind", sorted(messages(ROUTES), key=lambda kind: kind.__name__))
def test_docstrings_of_messages_name_their_fields_only(kind):
    assert attributes(kind).keys() <= entries(kind).keys() | {"missing_is_default"}


@pytest.mark.parametrize("route", ROUTES, ids=heading)
def test_a_section_says_what_the_route_does_and_shows_an_answer_that_it_gives(route):
    section = SECTIONS[heading(route)]

    assert route.summary in section
    assert ("*Owner.*" in section) is route.owner_only
    assert all(f"`{parameter.name}`" in section for parameter in route.query)
    example = Example(section)
    assert example.status == route.status
    if example.kind == "json":
        assert route.response is not None
        jsonschema_rs.validate(route.response, json.loads(example.answer))
    else:
        assert route.response is None


SNAPSHOT = str(REPOSITORY / "tests" / "fixtures" / "snapshots" / "v0.1.0-format2" / "canonical-hashmap")
OF_A_SNAPSHOT = {"path": SNAPSHOT, "before": SNAPSHOT, "after": SNAPSHOT, "uid": "typed", "state": "value"}


class Server:
    """A job manager with what the page's requests are about, under other names."""

    def __init__(self, folder: Path) -> None:
        self.application = InProcess(folder / "home")
        self._folder = folder
        self.application.home.jobmanager_log.write_text("2026-11-21 22:38:51,657 INFO  a line\n")
        self.job = self.new_job()

    def new_job(self) -> str:
        job = self.application.submit("--write-savepoint", "--savepoint", "0", parallelism=1)
        Statistics().run(int(CHECKPOINT)).write(self.application.home.job(job).checkpoints)
        return job

    def send(self, route: RestRoute, example: Example) -> Any:
        """Send an example's request, with our ids and paths in the place of those of the page."""
        path, _, query = example.target.partition("?")
        shape = re.sub(r"{(\w+)}", r"(?P<\1>[^/]+)", route.path)
        shown = re.fullmatch(shape, path)
        assert shown, f"{path} is no path of {route.path}"
        job = self.new_job() if heading(route) in ENDS_A_JOB else self.job
        ours = {"job_id": job, "taskmanager_id": job, "vertex_id": COUNT.vertex_id, "checkpoint_id": CHECKPOINT}
        if "trigger_id" in shown.groupdict():
            ours["trigger_id"] = self.trigger(route)
        if route.path.endswith("/resubmit"):
            ours["job_id"] = self.stopped_for_good()
        elif "resubmission" in route.path and route.method != "POST":
            self.post(f"/pystate/jobs/{job}/resubmission", {"parallelism": 1})
        target = re.sub(r"{(\w+)}", lambda name: ours.get(name[1], shown[name[1]]), route.path)
        if route.path.startswith("/pystate/savepoints/"):
            query = urlencode({name: OF_A_SNAPSHOT.get(name, value) for name, value in parse_qsl(query)})
        return self.application.client.request(
            example.method,
            target + (f"?{query}" if query else ""),
            json=self.our_body(example.body),
            headers={"Authorization": f"Bearer {HOME_TOKEN}"},
        )

    def our_body(self, body: Any) -> Any:
        if body is None:
            return None
        if "proof" in body:
            asked = {"job_id": JOB, "incarnation": "1"}
            headers = {"Authorization": f"Bearer {HOME_TOKEN}"}
            told = self.application.client.post("/pystate/registrations/challenges", json=asked, headers=headers).json()
            return proven(registration(told["challenge"]), HOME_TOKEN).to_plain()
        ours = {
            "job_file": str(self.application.job_file),
            "working_directory": str(self._folder),
            "python": sys.executable,
            "savepoint_path": SNAPSHOT,
            "target-directory": str(self._folder / "savepoints"),
            "targetDirectory": str(self._folder / "savepoints"),
        }
        return {name: ours.get(name, value) for name, value in body.items()}

    def trigger(self, route: RestRoute) -> str:
        """Begin what the route tells the end of; return its id."""
        if route.path.startswith("/savepoint-disposal"):
            return self.post("/savepoint-disposal", {"savepoint-path": str(self._folder / "none")})
        if "rescaling" in route.path:
            return self.send_own("PATCH", f"/jobs/{self.job}/rescaling?parallelism=1", None)  # it has that already
        kind = "checkpoints" if "checkpoints" in route.path else "savepoints"
        return self.post(f"/jobs/{self.job}/{kind}", {} if kind == "checkpoints" else {"target-directory": "/s"})

    def stopped_for_good(self) -> str:
        job = self.new_job()
        self.post(f"/pystate/jobs/{job}/resubmission", {"parallelism": 1})
        self.application.client.patch(f"/jobs/{job}")
        eventually(lambda: self.application.dispatcher.job(job).driver_is_gone)
        return job

    def post(self, path: str, body: Any) -> str:
        return self.send_own("POST", path, body)

    def send_own(self, method: str, path: str, body: Any) -> str:
        headers = {"Authorization": f"Bearer {HOME_TOKEN}"}
        answer = self.application.client.request(method, path, json=body, headers=headers)
        assert answer.status_code in (200, 202), answer.text
        return str(answer.json().get("request-id"))


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    folder = tmp_path_factory.mktemp("page")
    made = Server(folder)
    yield made
    made.application.close()


@pytest.mark.parametrize("route", ROUTES, ids=heading)
def test_the_request_of_a_section_is_answered_as_it_says(route, server):
    example = Example(SECTIONS[heading(route)])

    answer = server.send(route, example)

    assert answer.status_code == example.status, answer.text
    assert answer.headers["content-type"].startswith("application/json") is (example.kind == "json")
    if route.response is not None:
        jsonschema_rs.validate(route.response, answer.json())
        shown, told = json.loads(example.answer), answer.json()
        assert type(shown) is type(told)
        if isinstance(shown, dict) and "jobs" not in shown and route.path != "/pystate/openapi.json":
            assert set(told) >= set(shown) - optional(route)


def optional(route: RestRoute) -> set[str]:
    """Return the fields of an answer that aren't always there."""
    schema = route.response or {}
    return set(schema.get("properties", {})) - set(schema.get("required", ()))


def test_what_the_rules_show_is_so(server):
    shown = re.search(r"8081(/jobs/0+1)\nHTTP/1.1 (\d+) .*\n(.*)$", PAGE, re.MULTILINE)
    assert shown
    path, code, said = shown.groups()
    answer = server.application.client.get(path)
    assert (answer.status_code, answer.json()) == (int(code), json.loads(said))
