"""What somebody wants to run, as it comes in and as it stands in a job's folder."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

from pystate.common.errors import PystateError, UsageError
from pystate.common.files.home import JobDirectory, PystateHome, new_job_id, read_json, write_json
from pystate.runtime.job_folder.content import DamagedFileError
from pystate.runtime.job_folder.submission import Submission, SubmissionFile, environment_from_json


@pytest.fixture
def submission(tmp_path: Path) -> dict[str, Any]:
    (tmp_path / "job.py").write_text("")
    return {"job_file": str(tmp_path / "job.py"), "working_directory": str(tmp_path), "python": sys.executable}


@pytest.fixture
def directory(tmp_path: Path) -> JobDirectory:
    directory = PystateHome(tmp_path).job(new_job_id())
    directory.path.mkdir(parents=True)
    return directory


def test_a_submission_has_defaults(submission):
    read = Submission.from_json(submission)

    assert (read.arguments, read.parallelism, read.attached, read.configuration) == ([], None, False, {})


@pytest.mark.parametrize(
    ("field", "value", "message"),
    [
        ("job_file", None, "'job_file' .* a text"),
        ("job_file", "/nowhere/job.py", "The job file does not exist: /nowhere/job.py"),
        ("job_file", "job.py", "The job file does not exist: job.py"),
        ("working_directory", "/nowhere", "The working directory does not exist"),
        ("python", "/nowhere/python", "The Python interpreter does not exist"),
        ("arguments", "x", "'arguments' .* a list of at most 4096 texts"),
        ("arguments", ["a\0b"], "'arguments' .* a list of at most 4096 texts"),
        ("parallelism", 0, "'parallelism' .* from 1 to 32768"),
        ("parallelism", True, "'parallelism' .* from 1 to 32768"),
        ("parallelism", "2", "'parallelism' .* from 1 to 32768"),
        ("configuration", {"a": 1}, "'configuration' .* an object of at most 4096 texts"),
        ("attached", "yes", "'attached' .* true or false"),
        ("savepoint_path", 7, "'savepoint_path' .* a text"),
    ],
)
def test_a_wrong_field_of_a_submission_is_named(submission, field, value, message):
    with pytest.raises(UsageError, match=message):
        Submission.from_json({**submission, field: value})


def test_the_environment_must_be_texts():
    assert environment_from_json({"environment": {"A": "b"}}) == {"A": "b"}
    with pytest.raises(UsageError, match="'environment'"):
        environment_from_json({"environment": {"A": None}})


ASKED = Submission("/j/count.py", ["a"], "/j", 2, None, False, {"k": "v"}, attached=True, python="/p", job_name="count")
PLAIN = {
    "job_file": "/j/count.py",
    "arguments": ["a"],
    "working_directory": "/j",
    "parallelism": 2,
    "savepoint_path": None,
    "allow_non_restored_state": False,
    "configuration": {"k": "v"},
    "attached": True,
    "python": "/p",
    "job_name": "count",
    "job_id": "ab" * 16,
    "submitted_at": 7,
}


def test_a_submission_has_the_shape_that_other_versions_know(directory):
    written = SubmissionFile.of(ASKED, "ab" * 16, 7)
    written.write_to(directory.submission)

    assert read_json(directory.submission) == {"version": 1, **PLAIN}
    assert SubmissionFile.read(directory) == written
    assert directory.submission.stat().st_mode & 0o777 == 0o600


def test_a_submission_without_a_version_is_of_the_first_one(directory):
    write_json(directory.submission, PLAIN)
    assert SubmissionFile.read(directory) == SubmissionFile.of(ASKED, "ab" * 16, 7)


def test_a_submission_of_another_version_is_refused(directory):
    write_json(directory.submission, {**PLAIN, "version": 2})
    with pytest.raises(PystateError, match="The submission has version 2; this version of pystate knows 1") as caught:
        SubmissionFile.read(directory)
    assert not isinstance(caught.value, DamagedFileError)


def test_what_this_version_knows_nothing_of_goes_along_with_a_submission(directory):
    write_json(directory.submission, {**PLAIN, "colour": "blue"})
    again = SubmissionFile.of(SubmissionFile.read(directory), "cd" * 16, 8)
    again.write_to(directory.submission)
    assert read_json(directory.submission) == {
        **PLAIN,
        "version": 1,
        "colour": "blue",
        "job_id": "cd" * 16,
        "submitted_at": 8,
    }


@pytest.mark.parametrize(
    ("damage", "words"),
    [
        (b"{", "Expecting"),
        (b"[]", "not a map|a map"),
        (b"\xff", "decode"),
        (b"{}", "'job_file' is missing"),
        (b'{"version": null}', "no version"),
    ],
)
def test_a_damaged_submission_is_an_error_that_names_the_file(directory, damage, words):
    directory.submission.write_bytes(damage)
    with pytest.raises(DamagedFileError, match=f"^The submission is damaged: .*({words})") as caught:
        SubmissionFile.read(directory)
    assert caught.value.where == str(directory.submission)


@pytest.mark.parametrize(("field", "value"), [("configuration", {"a": 1}), ("arguments", "x"), ("parallelism", "2")])
def test_a_wrong_field_in_the_file_is_named(directory, field, value):
    write_json(directory.submission, {**PLAIN, field: value})
    with pytest.raises(DamagedFileError, match=f"'{field}'"):
        SubmissionFile.read(directory)


def test_a_submission_that_is_gone_is_an_error_that_names_the_file(directory):
    with pytest.raises(DamagedFileError, match="The submission is gone") as caught:
        SubmissionFile.read(directory)
    assert caught.value.where == str(directory.submission)


def test_a_job_is_called_after_its_file_until_its_program_says_better():
    assert ASKED.initial_name == "count"
    assert Submission("/j/words.py", [], "/j", None, None, False, {}, attached=False, python="/p").initial_name == "words"
