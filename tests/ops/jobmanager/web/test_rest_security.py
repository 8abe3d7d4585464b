from __future__ import annotations

from pathlib import Path

import pytest
from starlette.datastructures import Headers

from pystate.common.configuration.configuration import Configuration
from pystate.common.errors import ConfigurationError, PystateError
from pystate.common.files.home import PystateHome, read_json
from pystate.ops.jobmanager.rest.app import ROUTES
from pystate.ops.jobmanager.web.rest_security import RestSecurity, is_loopback
from pystate.runtime.rest.job_messages import JobIdsWithStatusOverview
from pystate_cli.client.job_manager import find_job_manager
from pystate_cli.client.rest_client import RestClient
from tests.ops.jobmanager.harness import ManagerThread
from tests.ops.jobmanager.rest.in_process import HOME_TOKEN, InProcess
from tests.servers.certificate import certificate
from tests.waiting import LONGEST_S

__all__ = ["certificate"]

ANY_ADDRESS = "0.0.0.0"  # noqa: S104 - what is to be refused
REST_TOKEN = "the-token-of-the-operators"
ENABLED, CERTIFICATE, KEY, CA = (
    "security.ssl.rest.enabled",
    "pystate.security.ssl.rest.certificate",
    "pystate.security.ssl.rest.key",
    "pystate.security.ssl.rest.ca",
)


def bearer(token: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {token}"}


@pytest.fixture
def token_file(tmp_path: Path) -> Path:
    path = tmp_path / "rest-token"
    path.touch(mode=0o600)
    path.write_text(f"{REST_TOKEN}\n")
    return path


@pytest.mark.parametrize(
    ("token", "owner_only", "shown", "allowed"),
    [
        (None, False, {}, True),
        (None, True, {}, False),
        (None, True, bearer(HOME_TOKEN), True),
        (None, True, bearer(REST_TOKEN), False),
        (None, True, {"Authorization": f"Basic {HOME_TOKEN}"}, False),
        (None, True, {"Authorization": "Bearer"}, False),
        (REST_TOKEN, False, {}, False),
        (REST_TOKEN, False, bearer("wrong"), False),
        (REST_TOKEN, False, bearer("\xe4"), False),
        (REST_TOKEN, False, bearer(REST_TOKEN), True),
        (REST_TOKEN, True, bearer(REST_TOKEN), True),
        (REST_TOKEN, True, bearer(HOME_TOKEN), True),
    ],
)
def test_who_is_let_in(token, owner_only, shown, allowed):
    headers = Headers(raw=[(name.lower().encode(), value.encode("latin-1")) for name, value in shown.items()])

    assert RestSecurity(HOME_TOKEN, token).allows(headers, owner_only=owner_only) is allowed


def test_with_a_token_configured_everything_but_the_description_needs_it(tmp_path):
    application = InProcess(tmp_path / "home", RestSecurity(HOME_TOKEN, REST_TOKEN))

    for method, path in (("GET", "/jobs"), ("GET", "/v1/config"), ("POST", "/savepoint-disposal"), ("DELETE", "/cluster")):
        answer = application.client.request(method, path)
        assert (answer.status_code, answer.headers["www-authenticate"]) == (401, "Bearer")
        assert answer.json() == {"errors": ["This job manager asks for a token."]}
    assert application.get("/jobs", REST_TOKEN) == application.get("/jobs", HOME_TOKEN) == {"jobs": []}
    assert application.client.get("/pystate/openapi.json").status_code == 200


def test_without_one_only_what_reads_output_or_runs_code_does(served):
    assert served.get("/jobs", token=None) == {"jobs": []}
    for method, path in (("DELETE", "/cluster"), ("GET", "/jobmanager/log"), ("POST", "/pystate/jobs")):
        assert served.client.request(method, path).status_code == 401


PLACES = [
    ("/jobs/{}/savepoints", {"target-directory": "/s"}),
    ("/v1/jobs/{}/savepoints", {"target-directory": "file:/s", "cancel-job": True}),
    ("/jobs/{}/stop", {"targetDirectory": "s3://bucket/s"}),
    ("/savepoint-disposal", {"savepoint-path": "/s/savepoint-123456-0123456789ab"}),
    ("/savepoint-disposal", {"savepoint-path": ["/s"]}),
]


@pytest.mark.parametrize(("path", "body"), PLACES)
def test_who_names_a_place_proves_the_token_of_the_home(served, path, body):
    target = path.format("0" * 31 + "1")
    for headers in ({}, bearer("wrong"), {"pystate-client": "1"}):
        answer = served.client.post(target, json=body, headers=headers)
        assert (answer.status_code, answer.headers["www-authenticate"]) == (401, "Bearer")
        assert "needs the token of the job manager's home" in answer.json()["errors"][0]
        assert "pystate.rest.allow-unauthenticated = true" in answer.json()["errors"][0]
    assert served.client.post(target, json=body, headers=bearer(HOME_TOKEN)).status_code != 401


def test_every_field_of_every_route_that_names_a_place_is_guarded(tmp_path):
    named = {(route.path, field.name) for route in ROUTES for field in route.body or () if field.names_place}
    assert named == {
        ("/jobs/{job_id}/savepoints", "target-directory"),
        ("/jobs/{job_id}/stop", "targetDirectory"),
        ("/savepoint-disposal", "savepoint-path"),
        ("/pystate/jobs/{job_id}/resubmit", "savepoint_path"),
        ("/pystate/jobs/{job_id}/fork", "savepoint_path"),
        ("/pystate/jobs/{job_id}/replacement", "savepoint_path"),
    }
    # a text in a body names a place, chooses a word, or is for the owner alone
    harmless = {"triggerId", "message", "formatType", "checkpointType", "cancel-job", "drain"}
    open_fields = {field.name for route in ROUTES if not route.owner_only for field in route.body or ()}
    assert open_fields - {name for _, name in named} == harmless


def test_triggers_that_name_no_place_need_no_token(served):
    job = served.submit()
    for target, body in (("savepoints", {}), ("savepoints", {"target-directory": None}), ("stop", {"targetDirectory": ""})):
        assert served.client.post(f"/jobs/{job}/{target}", json=body).status_code in (202, 400)
    assert served.client.post(f"/jobs/{job}/checkpoints", json={}).status_code == 202
    assert served.client.patch(f"/jobs/{job}").status_code == 202


def test_the_owner_may_let_everybody_name_places_as_in_flink(tmp_path, caplog):
    security = RestSecurity(HOME_TOKEN, allow_unauthenticated=True)
    application = InProcess(tmp_path / "home", security)
    for path, body in PLACES[:4]:
        assert application.client.post(path.format("0" * 31 + "1"), json=body).status_code in (200, 202)
    assert application.client.get("/jobmanager/log").status_code == 401
    assert "delete savepoints" in security.warning
    assert RestSecurity(HOME_TOKEN).warning is None
    both = RestSecurity(HOME_TOKEN, REST_TOKEN, allow_unauthenticated=True)
    assert both.warning is None
    assert not both.allows_places(Headers({}))
    with caplog.at_level("WARNING", logger="pystate.ops.jobmanager.server"):
        manager = ManagerThread(tmp_path / "other")
        manager.start(Configuration({"pystate.rest.allow-unauthenticated": "true"}))
        manager.stop()
    assert security.warning in caplog.text


ODD_PLACES = [
    "simplecache::file:///tmp/s",
    "filecache::s3://bucket/s",
    "zip://x::file:///tmp/s",
    "gs://bucket/a::file:///tmp/s",
    "/tmp/s\nINFO forged",
    "/tmp/\x1b[2Js",
    "file:/tmp/s\r",
    "/tmp/s\x85",
    "/tmp/s\u2028x",
    "relative:s",
    "http://192.0.2.1/s",
    "FTP://192.0.2.1/s",
]


@pytest.mark.parametrize("place", ODD_PLACES)
@pytest.mark.parametrize(("path", "field"), [(path, next(iter(body))) for path, body in PLACES[::2]])
def test_chains_and_control_characters_are_no_places(served, path, field, place):
    answer = served.client.post(path.format("0" * 31 + "1"), json={field: place}, headers=bearer(HOME_TOKEN))
    assert answer.status_code == 400
    assert len(answer.json()["errors"]) == 1


@pytest.mark.parametrize("address", [ANY_ADDRESS, "::", "192.0.2.7"])
def test_other_machines_are_not_let_in_without_a_token(address):
    with pytest.raises(ConfigurationError, match="could cancel jobs") as caught:
        RestSecurity(HOME_TOKEN).check_address(address)
    assert "pystate.rest.token-file" in caught.value.hint

    RestSecurity(HOME_TOKEN, REST_TOKEN).check_address(address)
    RestSecurity(HOME_TOKEN, allow_unauthenticated=True).check_address(address)


@pytest.mark.parametrize(
    ("address", "loopback"), [("127.0.0.1", True), ("::1", True), ("localhost", True), (ANY_ADDRESS, False)]
)
def test_loopback_addresses_need_none(address, loopback):
    assert is_loopback(address) is loopback


def test_a_job_manager_does_not_start_where_anybody_could_ask(tmp_path):
    from pystate.ops.jobmanager.server import job_manager

    with pytest.raises(ConfigurationError), job_manager(PystateHome(tmp_path / "home"), ANY_ADDRESS, 0):
        pytest.fail("it serves")
    with pytest.raises(ConfigurationError, match="token can't be read"):
        RestSecurity.of(Configuration({"pystate.rest.token-file": str(tmp_path / "none")}), HOME_TOKEN)


@pytest.mark.parametrize("text", ["short", "two words that are long", "", "x" * 20 + "\n\nsecond line"])
def test_a_token_file_holds_one_long_word(token_file, text):
    token_file.write_text(text)

    with pytest.raises(ConfigurationError, match="one word of at least 16"):
        RestSecurity.of(Configuration({"pystate.rest.token-file": str(token_file)}), HOME_TOKEN)


def test_a_token_that_others_can_read_is_refused(token_file):
    token_file.chmod(0o640)

    with pytest.raises(ConfigurationError, match="can be read by others") as caught:
        RestSecurity.of(Configuration({"pystate.rest.token-file": str(token_file)}), HOME_TOKEN)
    assert caught.value.hint == f"chmod 600 {token_file}"
    assert REST_TOKEN not in str(caught.value)


def test_tls_needs_a_certificate_and_its_key(certificate, tmp_path):
    pem, key = certificate
    for values, message in (
        ({}, "TLS needs a certificate"),
        ({CERTIFICATE: pem}, "TLS needs a certificate"),
        ({CERTIFICATE: pem, KEY: pem}, "can't be used"),
        ({CERTIFICATE: str(tmp_path / "none"), KEY: key}, "can't be used"),
    ):
        with pytest.raises(ConfigurationError, match=message):
            RestSecurity.of(Configuration({ENABLED: "true", **values}), HOME_TOKEN)


def test_commands_speak_tls_and_show_the_token(tmp_path, certificate, token_file):
    pem, key = certificate
    options = {ENABLED: "true", CERTIFICATE: pem, KEY: key, CA: pem, "pystate.rest.token-file": str(token_file)}
    manager = ManagerThread(tmp_path / "home")
    try:
        manager.start(Configuration(options))
        address = f"127.0.0.1:{manager.port}"
        assert read_json(manager.home.jobmanager)["scheme"] == "https"
        # found by the home: the home's token does, and the root is known from there
        assert find_job_manager(manager.home, None, 10).get("/jobs", JobIdsWithStatusOverview).jobs == []
        # found by its address: the options say what to show
        elsewhere = PystateHome(tmp_path / "elsewhere")
        assert (
            find_job_manager(elsewhere, address, 10, Configuration(options)).get("/jobs", JobIdsWithStatusOverview).jobs
            == []
        )
        with pytest.raises(PystateError, match="asks for a token") as caught:
            find_job_manager(elsewhere, address, 10, Configuration({ENABLED: "true", CA: pem}))
        assert "pystate.rest.token-file" in caught.value.hint
        with pytest.raises(PystateError, match="CERTIFICATE_VERIFY_FAILED"):
            find_job_manager(elsewhere, address, 10, Configuration({ENABLED: "true"}))
        with pytest.raises(PystateError, match="No job manager answers"):
            RestClient("127.0.0.1", manager.port, timeout=LONGEST_S).get("/jobs", JobIdsWithStatusOverview)
    finally:
        manager.stop()
