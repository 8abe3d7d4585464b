"""The smallest files of a job's folder: their shapes, which other versions know, and what is no such file."""

from __future__ import annotations

import json
import stat
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from pystate.common.errors import PystateError
from pystate.common.files.home import read_json, write_json
from pystate.runtime.job_folder.content import DamagedFileError, FileContent
from pystate.runtime.job_folder.resubmission_file import Resubmission
from pystate.runtime.job_folder.small_files import (
    CheckpointIdsFile,
    DriverAddressFile,
    DriverProcessFile,
    DriverTermFile,
    EmbeddedProgramFile,
    EnvironmentFile,
    EpochNumbersFile,
    ReplicaFile,
    SessionFile,
)

SHAPES: list[tuple[FileContent, Any]] = [
    (EpochNumbersFile(999), {"reserved": 999}),
    (CheckpointIdsFile(7), {"next": 7}),
    (DriverTermFile("ab", 3), {"driver": "ab", "pid": 3}),
    (DriverTermFile(None, 3, 9), {"driver": None, "pid": 3, "leader": 9}),
    (DriverTermFile("ab", 3, started="88"), {"driver": "ab", "pid": 3, "started": "88"}),
    (
        DriverAddressFile(3, "127.0.0.1", 80, "88", 2, "0.2.0"),
        {"pid": 3, "started": "88", "host": "127.0.0.1", "port": 80, "protocol": 2, "pystate_version": "0.2.0"},
    ),
    (DriverProcessFile(3), {"pid": 3, "started": None, "spare": None}),
    (
        EmbeddedProgramFile(3, "vm", "boot/pid", "88", "/jobs/count.py", "ab" * 16),
        {
            "version": 1,
            "pid": 3,
            "host": "vm",
            "machine": "boot/pid",
            "started": "88",
            "program": "/jobs/count.py",
            "log_job": "ab" * 16,
        },
    ),
    (ReplicaFile("s3://bucket/x"), {"version": 1, "uri": "s3://bucket/x"}),
    (EnvironmentFile({"A": "b"}), {"A": "b"}),
    (SessionFile({"parallelism.default": "2"}), {"version": 1, "configuration": {"parallelism.default": "2"}}),
]
CLASSES = sorted({type(content) for content, _ in SHAPES}, key=lambda kind: kind.__name__)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "file.json"


@pytest.mark.parametrize(("content", "plain"), SHAPES, ids=lambda one: type(one).__name__)
def test_a_file_has_the_shape_that_other_versions_know(file, content, plain):
    content.write_to(file)
    assert read_json(file) == plain
    assert type(content).read_from(file) == content
    assert stat.S_IMODE(file.stat().st_mode) == 0o600


@pytest.mark.parametrize("kind", CLASSES)
def test_a_file_that_is_not_there_has_no_content(file, kind):
    assert kind.read_from(file) is None


@pytest.mark.parametrize("kind", CLASSES)
@pytest.mark.parametrize("damaged", [b"{", b"[]", b"\xff", b"[" * 100_000, b'{"pid": "3", "next": -1, "A": 1}'])
def test_a_damaged_file_is_an_error_that_names_it(file, kind, damaged):
    file.write_bytes(damaged)
    with pytest.raises(DamagedFileError, match=f"^{kind.title} is damaged: ") as caught:
        kind.read_from(file)
    assert caught.value.where == str(file)


def test_what_an_older_version_has_written_is_read(file):
    file.write_text(json.dumps({"pid": 3, "host": "h", "port": 1}))
    assert DriverAddressFile.read_from(file) == DriverAddressFile(3, "h", 1)
    file.write_text(json.dumps({"driver": "ab", "pid": 3}))
    assert DriverTermFile.read_from(file).leader is None


def test_a_newer_version_is_refused(file):
    write_json(file, {"version": 2, "uri": "s3://bucket/x"})
    with pytest.raises(PystateError, match="has version 2; this version of pystate knows 1") as caught:
        ReplicaFile.read_from(file)
    assert not isinstance(caught.value, DamagedFileError)


def test_what_a_job_is_started_again_with_has_a_version(file):
    kept = Resubmission({"A": "b"}, 2, "ab" * 16)
    kept.write_to(file)
    plain = {"version": 1, "environment": {"A": "b"}, "parallelism": 2, "successor": "ab" * 16}
    assert read_json(file) == {**plain, "keepers": []}
    write_json(file, plain)  # as it was written before several could keep it
    assert Resubmission.read_from(file) == kept
    write_json(file, {**read_json(file), "version": 2})
    with pytest.raises(PystateError, match="The kept submission has version 2; this version of pystate knows 1"):
        Resubmission.read_from(file)


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells containers apart")
def test_whether_a_program_of_another_container_of_this_machine_runs_is_not_known_here():
    own = EmbeddedProgramFile.of_this_process("ab" * 16)
    assert own.runs()
    boot, _, namespace = own.machine.partition("/")
    assert replace(own, machine=f"{boot}/pid:[1]").runs() is None
    assert replace(own, machine=f"another-boot/{namespace}", started="88").runs() is False, "the machine was started anew"
