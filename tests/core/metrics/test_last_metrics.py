"""The file with a job's last metrics."""

import json
import logging

import pytest

from pystate.common.files.home import JobDirectory
from pystate.core.metrics.last_metrics import read_last_metrics, write_last_metrics
from pystate.core.metrics.sample import gauge
from tests.core.metrics.metrics_answer import driver_metrics

DAMAGED = [
    b'{"version": 1, "job": 5, "tasks": []}',
    b'{"version": 1, "job": [], "tasks": [{}]}',
    b'{"version": 1, "job": [[1]], "tasks": []}',
]


@pytest.fixture
def file(tmp_path):
    return JobDirectory(tmp_path).last_metrics


def test_what_was_kept_is_read_as_it_was(file):
    told = driver_metrics()
    told.job.append(gauge("odd", float("inf")))
    write_last_metrics(file, lambda: told)
    kept = read_last_metrics(file)
    assert kept.job == told.job
    first, again = (one.tasks[0].subtasks[0].samples for one in (told, kept))
    assert [one.name for one in again] == [one.name for one in first]
    # one is no number, and so not equal to itself
    assert [one for one in again if one.name != "broken"] == [one for one in first if one.name != "broken"]
    assert "checkpoints" not in json.loads(file.read_bytes())  # they have a file of their own


def test_a_job_ends_whatever_its_metrics_do(file, caplog):
    def broken():
        raise RuntimeError("Spark is gone")

    write_last_metrics(file, broken)
    assert "the last metrics of the job are not kept" in caplog.text
    assert read_last_metrics(file) is None
    file.parent.joinpath("a file").touch()
    write_last_metrics(file.parent / "a file" / "metrics.json", driver_metrics)


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b"5", b"{}", b'{"version": 2}', b"\xff", *DAMAGED])
def test_what_cant_be_read_is_told_and_left_out(file, content, caplog):
    file.write_bytes(content)
    with caplog.at_level(logging.WARNING):
        assert read_last_metrics(file) is None
    assert str(file) in caplog.text
