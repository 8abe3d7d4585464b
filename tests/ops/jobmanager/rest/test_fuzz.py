"""All routes asked with what the OpenAPI document allows, and with what it doesn't."""

from __future__ import annotations

import contextlib
import zlib
from collections import Counter
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis.errors import Unsatisfiable
from starlette.types import Receive, Scope, Send

from pystate.common.errors import SnapshotError
from pystate.common.job_status import JobStatus
from pystate.ops.jobmanager.disposal import savepoint_disposal
from pystate.ops.jobmanager.rest.app import ROUTES
from pystate.ops.jobmanager.rest.openapi import openapi_document
from tests.ops.jobmanager.rest.in_process import HOME_TOKEN, InProcess
from tests.runtime.checkpoint.stats.statistics import Statistics
from tests.runtime.checkpoint.stats.tasks import COUNT

if TYPE_CHECKING:
    import schemathesis  # takes half a second, which one process of a run has to spend

KNOWN: dict[str, list[Any]] = {"vertex_id": [COUNT.vertex_id, "a" * 32], "checkpoint_id": [1, 2, 3], "job_id": []}
QUERIED = {"state": "counts", "key": "a"}
"""A state of the job, and one of its keys."""

SERVED: list[InProcess] = []
RUNNING: list[str] = []
"""The job that runs, if nothing may have changed it so far."""
NEEDS_MORE = {
    "POST /pystate/registrations",
    "POST /pystate/jobs",
    "GET /savepoint-disposal/{trigger_id}",
    "GET /jobs/{job_id}/savepoints/{trigger_id}",
    "GET /jobs/{job_id}/checkpoints/{trigger_id}",
    "GET /jobs/{job_id}/rescaling/{trigger_id}",
    "GET /pystate/jobs/{job_id}/resubmission",
    "POST /pystate/jobs/{job_id}/fork",
    "POST /pystate/jobs/{job_id}/resubmission",
    "POST /pystate/jobs/{job_id}/replacement",
    "POST /pystate/jobs/{job_id}/resubmit",
    "GET /jobmanager/log",
    "GET /jobmanager/logs/{log_name}",
    *(
        f"GET /pystate/savepoints/{what}"
        for what in ("inspection", "sources", "key-groups", "keys", "comparison", "verification", "rows")
    ),
}
"""What succeeds only with something that can't be made up."""


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[InProcess]:
    application = InProcess(tmp_path_factory.mktemp("fuzz") / "home")
    KNOWN["ended"] = [application.submit("--fail", "0", state="FAILED")]
    SERVED.append(application)
    yield application
    application.close()


async def ask_served(scope: Scope, receive: Receive, send: Send) -> None:
    """The application, which the operations must know before it is there."""
    await SERVED[0].app(scope, receive, send)


@pytest.fixture
def jobs(served: InProcess, label: str) -> Iterator[None]:
    """One that runs, and one that doesn't; a new one after requests that may change it, which end it in their time."""
    if not RUNNING:
        RUNNING.append(served.submit("--epochs", "10", configuration={"execution.checkpointing.savepoint-dir": "/tmp/s"}))
        Statistics().run(1, 2).trigger(3).acknowledge(3, "count", 1).write(served.home.job(RUNNING[0]).checkpoints)
        KNOWN["job_id"] = KNOWN["taskmanager_id"] = [*RUNNING * 9, *KNOWN["ended"]]
    assert served.dispatcher.job(RUNNING[0]).state() is JobStatus.RUNNING
    yield
    if not label.startswith("GET "):
        RUNNING.clear()


def with_ids_of_ours(case: schemathesis.Case) -> None:
    """Let most ids name something: those made up at random name nothing."""
    for name, value in case.path_parameters.items():
        known, number = KNOWN.get(name), zlib.crc32(str(value).encode("utf-8", "surrogatepass"))
        if known and number % 8:
            case.path_parameters[name] = known[number // 8 % len(known)]
    if "state" in case.query and zlib.crc32(str(case.query).encode("utf-8", "surrogatepass")) % 8:
        case.query.update(QUERIED)
    if isinstance(case.body, dict) and "reads" in case.body and zlib.crc32(repr(case.body).encode()) % 2:
        case.body = {**case.body, "reads": [QUERIED]}


LABELS = [
    f"{method.upper()} {path}"
    for path, methods in openapi_document(ROUTES)["paths"].items()
    for method in methods
    if not path.startswith("/v1/")
]
"""The operations; those below /v1 are the same ones."""


@cache
def described() -> dict[str, schemathesis.APIOperation]:
    """Return the operations by name."""
    import schemathesis

    schema = schemathesis.openapi.from_dict(openapi_document(ROUTES)).exclude(path_regex="^/v1/")
    schema.app = ask_served

    return {found.label: found for found in (result.ok() for result in schema.get_all_operations())}


@pytest.fixture(autouse=True)
def no_file_systems(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is made up as a savepoint's place may be one of the network."""

    def resolve(path: str) -> Any:
        message = "There is no savepoint."
        raise SnapshotError(message, where=path)

    monkeypatch.setattr(savepoint_disposal, "resolve_snapshot", resolve)


def test_each_operation_is_asked() -> None:
    assert set(LABELS) == set(described())


@pytest.mark.parametrize("mode", ["positive", "negative"])
@pytest.mark.parametrize("label", LABELS)
@pytest.mark.usefixtures("jobs")
def test_every_answer_is_one_that_the_document_describes(label: str, mode: str) -> None:
    from schemathesis import GenerationMode
    from schemathesis.checks import not_a_server_error
    from schemathesis.specs.openapi.checks import negative_data_rejection, positive_data_acceptance

    operation = described()[label]
    headers = {"Authorization": f"Bearer {HOME_TOKEN}", "Host": "127.0.0.1"}
    statuses: Counter[int] = Counter()

    @given(case=operation.as_strategy(generation_mode=GenerationMode(mode)))
    @settings(max_examples=6, deadline=None, suppress_health_check=list(HealthCheck), derandomize=True, database=None)
    def ask(case: schemathesis.Case) -> None:
        if mode == "positive":
            with_ids_of_ours(case)
        else:  # what is wrong in them doesn't arrive: they are put right
            case.headers = {**(case.headers or {}), **headers}
        answer = case.call(headers=headers)
        statuses[answer.status_code] += 1
        assert answer.status_code < 500 or answer.status_code == 503, answer.text
        too_long = [negative_data_rejection] if answer.status_code in {413, 414} else []  # refusals this check doesn't know
        case.validate_response(answer, excluded_checks=[not_a_server_error, positive_data_acceptance, *too_long])

    with contextlib.suppress(Unsatisfiable):  # there is nothing wrong that a request without parameters could have
        ask()
    assert 403 not in statuses
    if mode == "positive":
        assert 401 not in statuses
        assert label in NEEDS_MORE or min(statuses) < 300, statuses


def test_a_driver_that_can_not_be_reached_is_503(tmp_path: Path) -> None:
    application = InProcess(tmp_path / "home")
    try:
        job = application.submit("--listen-after", "60", state=None)
        for method, path in (("POST", "savepoints"), ("POST", "stop"), ("POST", "checkpoints")):
            answer = application.client.request(method, f"/jobs/{job}/{path}", json={})
            assert (answer.status_code, list(answer.json())) == (503, ["errors"])
    finally:
        application.close()
