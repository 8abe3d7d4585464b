"""Sessions that no job can run in are refused in words; what a job needs of workers is taken back with the last one."""

from __future__ import annotations

import sys
from types import SimpleNamespace

import pyspark
import pytest

from pystate.common.errors import ConfigurationError
from pystate.runtime.spark.sessions.present_session import check_version, is_present, present_session
from pystate.runtime.spark.workers.workers_of_present_session import WorkersOfPresentSession, check_python


class Context:
    def __init__(self, python="python3", jvm=True):
        self.pythonExec = python
        self._python_includes = ["given.zip"]
        self._jsc = object() if jvm else None


def session(version=pyspark.__version__, *, jvm=True):
    return SimpleNamespace(version=version, sparkContext=Context(jvm=jvm))


class OfConnect:
    """A session of Spark Connect, as far as it is looked at: the package needs gRPC, which isn't here."""

    __module__ = "pyspark.sql.connect.session"

    @staticmethod
    def getActiveSession():
        return OfConnect()


def test_a_session_of_spark_connect_is_found_and_refused(monkeypatch):
    monkeypatch.setitem(sys.modules, "pyspark.sql.connect.session", SimpleNamespace(SparkSession=OfConnect))
    monkeypatch.setattr(pyspark.SparkContext, "_active_spark_context", None)
    found = present_session()
    assert isinstance(found, OfConnect)
    assert is_present(found)
    with pytest.raises(ConfigurationError, match="Spark Connect can't run jobs: it has no SparkContext"):
        check_version(found)


@pytest.mark.parametrize(
    ("found", "message"),
    [
        (session(jvm=False), "The Spark session has been stopped"),
        (session("3.5.1"), rf"The session's Spark is 3\.5\.1, PySpark is {pyspark.__version__}; both must be the same"),
    ],
)
def test_a_session_that_is_stopped_or_of_another_version_is_refused(found, message):
    with pytest.raises(ConfigurationError, match=message):
        check_version(found)


def test_a_session_of_the_same_version_is_taken():
    check_version(session(".".join([*pyspark.__version__.split(".")[:2], "99"])))


def test_another_python_of_the_workers_is_refused_in_words(tmp_path):
    python = tmp_path / "python"
    python.write_text("#!/bin/sh\necho 3.7\n")
    python.chmod(0o755)
    with pytest.raises(ConfigurationError, match=rf"run Python 3\.7 \({python}\), the program runs") as caught:
        check_python(Context(str(python)))
    assert f'os.environ["PYSPARK_PYTHON"] = "{sys.executable}"' in str(caught.value)
    with pytest.raises(ConfigurationError, match="There is no Python at /nowhere/python"):
        check_python(Context("/nowhere/python"))


def test_the_python_of_the_program_is_taken_and_where_nobody_has_chosen_one_jobs_bring_it():
    check_python(Context(sys.executable))
    check_python(Context())
    check_python(Context(sys._base_executable))


def test_what_workers_are_told_is_taken_back_with_the_last_job(monkeypatch, tmp_path):
    context = Context()
    monkeypatch.setattr(sys, "path", [str(tmp_path / "program"), str(tmp_path / "packages")])
    first = WorkersOfPresentSession(context)
    added = [str(tmp_path / "packages"), str(tmp_path / "program")]
    assert (context.pythonExec, context._python_includes) == (sys.executable, ["given.zip", *added])
    monkeypatch.setattr(sys, "path", [str(tmp_path / "late"), *sys.path])
    second = WorkersOfPresentSession(context)
    first.job_ended()
    assert context.pythonExec == sys.executable
    assert context._python_includes == ["given.zip", *added, str(tmp_path / "late")]
    second.job_ended()
    second.job_ended()
    assert (context.pythonExec, context._python_includes) == ("python3", ["given.zip"])


def test_a_python_that_somebody_has_chosen_stays(monkeypatch):
    context = Context("/opt/python")
    job = WorkersOfPresentSession(context)
    assert context.pythonExec == "/opt/python"
    job.job_ended()
    assert context.pythonExec == "/opt/python"
