"""What `make dist` builds: what is in a wheel, and that its bytes are those of the commit alone."""

from __future__ import annotations

import re
import subprocess
import sys
import tarfile
import zipfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

import pystate
from release.build import build
from tests.ops.jobmanager.harness import REPOSITORY

EPOCH = 1_700_000_000
ASSETS = REPOSITORY / "runtime" / "pystate" / "ops" / "jobmanager" / "dashboard" / "assets"


@pytest.fixture(scope="module")
def built(tmp_path_factory) -> tuple[Path, Path]:
    return build(REPOSITORY, tmp_path_factory.mktemp("dist"), EPOCH)


def test_the_wheel_has_all_of_pystate_and_nothing_else(built):
    names = set(zipfile.ZipFile(built[1]).namelist())
    modules = {
        str(file.relative_to(root))
        for root, package in (
            (REPOSITORY / "runtime", "pystate"),
            (REPOSITORY, "pystate_cli"),
            (REPOSITORY, "pystate_operator"),
        )
        for file in (root / package).rglob("*.py")
    }
    runtime = REPOSITORY / "runtime"
    assets = {str(file.relative_to(runtime)) for file in ASSETS.rglob("*") if file.is_file()}
    info = {name for name in names if name.startswith(f"pystate_spark-{pystate.__version__}.dist-info/")}
    assert len(assets) > 30
    assert names - info == modules | assets | {"pystate/py.typed", "pystate/commit.txt"}


def test_nothing_is_left_in_the_tree_that_names_the_entry_points_of_that_commit(built):
    assert list(REPOSITORY.glob("*.egg-info")) == []


def test_its_metadata_has_our_name_and_version(built):
    wheel = zipfile.ZipFile(built[1])
    metadata = wheel.read(f"pystate_spark-{pystate.__version__}.dist-info/METADATA").decode()
    assert re.findall(r"(?m)^(?:Name|Version): (.+)$", metadata) == ["pystate-spark", pystate.__version__]
    assert re.fullmatch(r"[0-9a-f]{40}(-modified)?\n", wheel.read("pystate/commit.txt").decode())


def test_the_wheel_writes_the_template_of_the_settings(built, tmp_path):
    file = tmp_path / "flink-conf.toml"
    program = "import runpy, sys; sys.path.insert(0, sys.argv[1]); sys.argv = ['', sys.argv[2]]; "
    program += "runpy.run_module('pystate.common.configuration.conf_template', run_name='__main__')"
    subprocess.run([sys.executable, "-c", program, str(built[1]), str(file)], check=True, cwd=tmp_path)
    assert file.read_text("utf-8") == (REPOSITORY / "conf" / "flink-conf.toml").read_text("utf-8")


def test_the_source_archive_has_no_tests_and_builds_the_wheel_without_history(built):
    with tarfile.open(built[0]) as archive:
        inner = {name.partition("/")[2] for name in archive.getnames()}
    assert {
        "pyproject.toml",
        "setup.py",
        "LICENSE",
        "CHANGELOG.md",
        "conf/flink-conf.toml",
        "runtime/pystate/commit.txt",
    } <= inner
    assert not [name for name in inner if name.startswith(("tests", "docs", "benchmarks", "build"))]


@pytest.mark.slow
def test_other_builds_have_the_same_bytes_also_two_at_the_same_time(built, tmp_path):
    with ThreadPoolExecutor() as threads:
        others = list(threads.map(lambda name: build(REPOSITORY, tmp_path / name, EPOCH), ("one", "two")))
    for again in others:
        assert [file.read_bytes() for file in again] == [file.read_bytes() for file in built]
