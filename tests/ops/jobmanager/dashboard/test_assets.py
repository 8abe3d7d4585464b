"""The files of the dashboard: whole, from nowhere else, as vendored, and in both languages."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
import tomli
from starlette.testclient import TestClient

import pystate.ops.jobmanager.dashboard as dashboard
from pystate.common import errors
from pystate.common.errors import PystateError
from pystate.common.stream_guarantee import EndToEndGuarantee
from pystate.ops.catalog.difference import Change
from pystate.ops.jobmanager.dashboard.assets import CONTENT_SECURITY_POLICY, assets
from pystate.runtime.checkpoint.failure_reason import CheckpointFailureReason
from tests.ops.jobmanager.rest.in_process import InProcess

ASSETS = Path(dashboard.__file__).parent / "assets"
SCRIPTS = sorted((ASSETS / "app").rglob("*.js"))
VENDORED = tomli.loads((ASSETS / "vendor" / "libraries.toml").read_text("utf-8"))["library"]
WORDS = re.compile(r'\bt\("((?:[^"\\]|\\.)*)"')
CHINESE, KINDS = (
    dict(re.findall(r'^  "((?:[^"\\]|\\.)*)": "((?:[^"\\]|\\.)*)",$', words, re.M))
    for words in (ASSETS / "app" / "words-zh.js").read_text("utf-8").split("export const KINDS")
)


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TestClient]:
    application = InProcess(tmp_path_factory.mktemp("assets") / "home")
    yield TestClient(application.app, base_url="http://127.0.0.1:8081")
    application.close()


def test_the_first_page_is_served_with_a_strict_policy(browser: TestClient) -> None:
    answer = browser.get("/")

    assert answer.headers["content-type"] == "text/html; charset=utf-8"
    assert answer.headers["content-security-policy"] == CONTENT_SECURITY_POLICY
    assert "unsafe" not in CONTENT_SECURITY_POLICY
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert answer.headers["x-frame-options"] == "DENY"


def test_every_file_is_served_packed_and_asked_for_again_only_when_changed(browser: TestClient) -> None:
    for name in assets():
        answer = browser.get(f"/ui/{name}")
        assert answer.status_code == 200
        assert answer.content == (ASSETS / name).read_bytes()
        again = browser.get(f"/ui/{name}", headers={"if-none-match": answer.headers["etag"]})
        assert (again.status_code, again.content) == (304, b"")


@pytest.mark.parametrize("name", ["", "nothing.js", "../assets.py", "..%2fassets.py", "/etc/passwd", "app"])
def test_nothing_else_is_served(browser: TestClient, name: str) -> None:
    assert browser.get(f"/ui/{name}").status_code == 404


def test_pages_and_scripts_name_no_other_machine() -> None:
    own = [path for path in ASSETS.rglob("*") if path.is_file() and "vendor" not in path.parts]
    for path in own:
        for address in re.findall(r"https?://[^\s\"'`<)]+", path.read_text("utf-8")):
            assert address == "http://www.w3.org/2000/svg", f"{path.name}: {address}"
    page = (ASSETS / "index.html").read_text("utf-8")
    assert not re.search(r"<script(?![^>]*src=)", page)
    assert not re.search(r"\son\w+=|style=", page)


def test_imports_are_files_that_are_there() -> None:
    for script in SCRIPTS:
        for name in re.findall(r'from "(\.[^"]+)"', script.read_text("utf-8")):
            assert (script.parent / name).resolve().is_file(), f"{script.name}: {name}"


def test_the_page_names_every_module_so_that_none_is_asked_for_only_when_another_has_come() -> None:
    modules = {path.relative_to(ASSETS).as_posix() for path in (*SCRIPTS, *(ASSETS / "vendor").glob("*.mjs"))}
    page = (ASSETS / "index.html").read_text("utf-8")
    assert set(re.findall(r'<link rel="modulepreload" href="ui/([^"]+)">', page)) == modules - {"app/main.js"}


@pytest.mark.parametrize("library", VENDORED, ids=lambda library: library["name"])
def test_a_vendored_library_is_the_named_version_with_its_licence(library: dict[str, object]) -> None:
    folder = ASSETS / "vendor"
    files = library["files"]
    assert isinstance(files, dict)
    for name, checksum in files.items():
        assert hashlib.sha256((folder / name).read_bytes()).hexdigest() == checksum
    assert (folder / str(library["licence-file"])).is_file()
    assert library["licence"] in ("MIT", "Apache-2.0")


def test_no_other_file_is_vendored() -> None:
    named = {name for library in VENDORED for name in (*library["files"], library["licence-file"])}
    assert {path.name for path in (ASSETS / "vendor").iterdir()} == named | {"libraries.toml"}


def test_every_text_has_chinese_words_with_the_same_names() -> None:
    used = {text for script in SCRIPTS for text in WORDS.findall(script.read_text("utf-8"))}
    assert used - CHINESE.keys() == set()
    assert CHINESE.keys() - used == set()
    for english, chinese in CHINESE.items():
        assert set(re.findall(r"{\w+}", english)) == set(re.findall(r"{\w+}", chinese)), english


def test_what_errors_and_reasons_are_is_said_in_chinese_by_their_names() -> None:
    named = {reason.name for reason in CheckpointFailureReason} | {one.value for one in EndToEndGuarantee}
    named |= {one.value for one in Change}
    named |= {name for name, one in vars(errors).items() if isinstance(one, type) and issubclass(one, PystateError)}
    assert named - KINDS.keys() == {"PystateError"}  # whose name says nothing
