"""What is said of executors that can't run a job; the check itself runs in tests/e2e/clusters/test_standalone_cluster.py."""

from __future__ import annotations

import sys

import pyspark
import pytest

from pystate.common.configuration.configuration import Configuration
from pystate.common.errors import JobExecutionError
from pystate.runtime.spark.applications.executor_check import (
    _check_found,
    _explained,
    _Found,
    _look,
    modules_of_workers,
    reason_of_end,
)

HERE = f"{sys.version_info.major}.{sys.version_info.minor}"
OWN = pyspark.__version__


def test_workers_need_what_the_job_uses():
    assert "rocksdict" not in modules_of_workers(Configuration({}))
    assert "rocksdict" in modules_of_workers(Configuration({"state.backend.type": "rocksdb"}))
    assert "s3fs" in modules_of_workers(Configuration({"execution.checkpointing.dir": "s3://bucket/checkpoints"}))


def test_a_look_at_a_python_tells_what_is_absent_from_what_is_broken(tmp_path, monkeypatch):
    (tmp_path / "broken_thing.py").write_text("import not_there_either")
    monkeypatch.syspath_prepend(str(tmp_path))
    (seen,) = _look(["msgpack", "not_there", "broken_thing"])([0])
    assert seen[1:] == (
        OWN,
        {"not_there": "", "broken_thing": "ModuleNotFoundError(\"No module named 'not_there_either'\")"},
    )


def test_what_the_hosts_lack_is_one_sentence():
    _check_found([_Found("one", OWN, {}), _Found("two", OWN, {})])
    lacking = {"msgpack": "", "rocksdict": "", "pystate.runtime.slot.process": "ModuleNotFoundError('msgpack')"}
    with pytest.raises(JobExecutionError) as caught:
        _check_found([_Found("one", OWN, {}), _Found("two", OWN, lacking), _Found("three", OWN, lacking)])
    assert caught.value.message == "The Python of the executors on three, two lacks msgpack, rocksdict."
    assert "python.archives" in (caught.value.hint or "")
    with pytest.raises(JobExecutionError) as caught:
        _check_found([_Found("one", OWN, {"pyarrow": "ImportError('libarrow.so')"})])
    assert caught.value.message == "The Python of the executors on one can't import pyarrow: ImportError('libarrow.so')."


def test_another_spark_is_one_sentence():
    with pytest.raises(JobExecutionError, match=rf"PySpark on one is 3.5.1, the driver's is {OWN}; both must be the same."):
        _check_found([_Found("one", "3.5.1", {})])


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "Traceback (most recent call last):\n  File worker.py\npyspark.errors.PySparkRuntimeError:"
            " [PYTHON_VERSION_MISMATCH] Python in worker has different version: 3.9 than that in driver: 3.12, PySpark",
            f"The executors on one run Python 3.9, the driver runs {HERE}; both must be the same.",
        ),
        (
            'java.io.IOException: Cannot run program "/opt/python": Exec failed, error: 2\n\tat java.base',
            "There is no Python at /opt/python on one.",
        ),
        (
            "org.apache.spark.api.python.PythonException: Traceback:\n    deep\nValueError: too bad\n\tat org.apache",
            "A first task on one failed: ValueError: too bad",
        ),
        (
            "Traceback (most recent call last):\n  deep\nModuleNotFoundError: No module named 'numpy'\n",
            "The Python of the executors on one lacks numpy.",
        ),
    ],
)
def test_a_python_that_does_not_start_is_one_sentence(text, message):
    error = _explained("one", text)
    assert error.message == message
    assert error.where == "python.executable"


def test_an_executor_that_came_later_is_explained_as_well():
    lost = "Job aborted due to stage failure: Task 1 in stage 2.0 failed 4 times, most recent failure: Lost task 1.3 (TID 9)"
    text = f'{lost} (10.0.0.7 executor 3): java.io.IOException: Cannot run program "/opt/python": error=2\n\tat java.base'
    assert reason_of_end(text) == "There is no Python at /opt/python on 10.0.0.7."
    assert reason_of_end(f"{lost} (10.0.0.7 executor 3): ExecutorLostFailure\nDriver stacktrace:").startswith(lost)
    assert reason_of_end("") == "it does not say why"
