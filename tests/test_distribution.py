"""Which process runs which tests."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.distribution import (
    BROWSER,
    DATABASES,
    KAFKA,
    LONG,
    ROOT,
    SPARK,
    SPARK_AND_FAULTS,
    STORAGE,
    Distribution,
    in_order,
    scope_of,
)


@pytest.mark.parametrize(
    ("file", "text", "scope"),
    [
        ("tests/e2e/test_a.py", "def test_it(spark):\n", SPARK),
        ("tests/e2e/test_a.py", "def test_it(tmp_path, run_job, x):\n", SPARK),
        ("tests/e2e/test_a.py", "def test_it(\n    run_job: Callable[..., Any], tmp_path: Path\n) -> None:\n", SPARK),
        ("tests/e2e/test_a.py", "@pytest.fixture\ndef frame(spark):\n", SPARK),
        ("tests/faults/test_a.py", "def test_it(tmp_path, run_job, x):\n", SPARK_AND_FAULTS),
        ("tests/e2e/test_a.py", "def test_it(kafka, run_job):\n", SPARK_AND_FAULTS),
        ("test_a.py", "def test_it(spark_home, tmp_path):\n    spark = 1\n", "test_a.py"),
        ("test_a.py", "# def test_it(spark)\n", "test_a.py"),
        ("test_a.py", "def test_it(kafka, tmp_path):\n", KAFKA),
        ("test_a.py", "def test_it(kafka_settings):\n", "test_a.py"),
        ("test_a.py", "from tests.core.file_systems.conftest import Place\n", STORAGE),
        ("test_a.py", "from tests.servers.hdfs_cluster import HdfsCluster\n", STORAGE),
        ("test_a.py", "from tests.servers.s3_server import S3Server\n", "test_a.py"),
        ("tests/ops/jobmanager/dashboard/browser/test_a.py", "def test_it(pages):\n", BROWSER),
        ("tests/connectors/sql/test_a.py", "def test_it(url):\n", DATABASES),
    ],
)
def test_files_that_share_something_dear_share_a_scope(tmp_path: Path, file: str, text: str, scope: str) -> None:
    path = tmp_path / file
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    assert scope_of(file, tmp_path) == scope


@pytest.mark.parametrize(
    ("fixture", "scopes"),
    [
        ("spark", {SPARK, SPARK_AND_FAULTS}),
        ("kafka", {KAFKA, SPARK_AND_FAULTS}),
        ("postgres_server", {DATABASES, SPARK, SPARK_AND_FAULTS}),
        ("mariadb_url", {DATABASES}),
        ("logged_in", {BROWSER}),
    ],
)
def test_no_test_with_something_dear_is_missed(request: pytest.FixtureRequest, fixture: str, scopes: set[str]) -> None:
    files = {item.nodeid.split("::")[0] for item in request.session.items if fixture in getattr(item, "fixturenames", ())}
    assert {file for file in files if scope_of(file) not in scopes} == set()


def test_long_files_are_there_and_scopes_of_their_own() -> None:
    assert [file for file in LONG if not (ROOT / file).is_file() or scope_of(file) != file] == []


class _Item:
    def __init__(self, nodeid: str) -> None:
        self.nodeid = nodeid


def test_those_with_a_session_come_first_then_long_files_then_the_others_as_they_came() -> None:
    spark, faults = "tests/e2e/time/test_clock.py", "tests/faults/test_killed_workers.py"
    other = "tests/test_distribution.py::a"
    names = [
        other,
        f"{LONG[1]}::b",
        f"{faults}::b",
        f"{LONG[0]}::c",
        f"{faults}::a",
        f"{spark}::a",
        f"{LONG[1]}::a",
    ]
    items: list[Any] = [_Item(name) for name in names]
    in_order(items)
    expected = [
        f"{spark}::a",
        f"{faults}::b",
        f"{faults}::a",
        f"{LONG[0]}::c",
        f"{LONG[1]}::b",
        f"{LONG[1]}::a",
        other,
    ]
    assert [item.nodeid for item in items] == expected


def test_a_run_of_several_processes_uses_these_scopes() -> None:
    split = Distribution._split_scope
    assert split(None, "tests/faults/test_killed_workers.py::test_it[a::b]") == SPARK_AND_FAULTS  # type: ignore[arg-type]
    assert split(None, "tests/test_distribution.py::test_it") == "tests/test_distribution.py"  # type: ignore[arg-type]
