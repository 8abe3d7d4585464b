"""Secret settings reach the JVM, and no command line."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from pystate.common.errors import ConfigurationError
from pystate.common.files.home import PystateHome, new_job_id
from pystate.runtime.spark.sessions.secret_settings import secret_settings, secrets_by_file
from tests.faults.processes import needs_proc

ARGUMENTS = "PYSPARK_SUBMIT_ARGS"
WORD = "hunter2-of-the-test"


@pytest.fixture(autouse=True)
def without_arguments(monkeypatch):
    monkeypatch.delenv(ARGUMENTS, raising=False)


def test_secret_are_those_that_are_hidden_elsewhere():
    secrets = {"spark.authenticate.secret": "a", "spark.hadoop.fs.s3a.secret.key": "b", "spark.ssl.keyPassword": "c"}
    assert secret_settings({**secrets, "spark.master": "local", "spark.ui.enabled": "false"}) == secrets


def test_the_file_is_private_and_there_only_meanwhile(tmp_path):
    mask = os.umask(0)
    try:
        with secrets_by_file({"spark.a.secret": "x"}, tmp_path):
            (path,) = tmp_path.iterdir()
            assert path.stat().st_mode & 0o777 == 0o600
            assert os.environ[ARGUMENTS] == f"--properties-file {path} --load-spark-defaults pyspark-shell"
            assert path.read_text() == "spark.a.secret=x\n"
    finally:
        os.umask(mask)
    assert not list(tmp_path.iterdir())
    assert ARGUMENTS not in os.environ


def test_the_file_goes_when_the_jvm_does_not_start(tmp_path):
    def start() -> None:
        with secrets_by_file({"spark.a.secret": "x"}, tmp_path):
            message = "no Java"
            raise OSError(message)

    with pytest.raises(OSError, match="no Java"):
        start()
    assert not list(tmp_path.iterdir())
    assert ARGUMENTS not in os.environ


def test_a_file_that_a_killed_driver_left_is_swept_at_the_next_start(tmp_path):
    script = (
        "import os, signal, sys; from pathlib import Path\n"
        "from pystate.runtime.spark.sessions.secret_settings import secrets_by_file\n"
        "with secrets_by_file({'spark.a.secret': 'x'}, Path(sys.argv[1])): os.kill(os.getpid(), signal.SIGKILL)"
    )
    subprocess.run([sys.executable, "-c", script, str(tmp_path)], check=False)
    assert [path.name for path in tmp_path.iterdir()] == ["spark-secrets.conf"]
    with secrets_by_file({}, tmp_path):
        assert not list(tmp_path.iterdir())


def test_a_home_is_swept_of_what_nobody_starts_any_more(tmp_path):
    home = PystateHome(tmp_path)
    old, new = home.job(new_job_id()), home.job(new_job_id())
    for job in (old, new):
        job.path.mkdir(parents=True)
        job.spark_secrets.write_text("spark.a.secret=x\n")
    hour_ago = time.time() - 3600
    os.utime(old.spark_secrets, (hour_ago, hour_ago))
    home.remove_old_secrets()
    assert not old.spark_secrets.exists()
    assert new.spark_secrets.exists()


@pytest.mark.parametrize("given", ["--properties-file {}", "--properties-file={}"])
def test_the_users_own_arguments_and_file_go_along(given, tmp_path, monkeypatch):
    own = tmp_path / "own.conf"
    own.write_text("spark.own 1")
    folder = tmp_path / "job"
    folder.mkdir()
    monkeypatch.setenv(ARGUMENTS, f"{given.format(own)} --verbose pyspark-shell")
    with secrets_by_file({"spark.a.secret": "x"}, folder):
        (path,) = folder.iterdir()
        assert os.environ[ARGUMENTS] == f"--properties-file {path} --verbose pyspark-shell"
        assert path.read_text() == "spark.own 1\nspark.a.secret=x\n"
    assert os.environ[ARGUMENTS] == f"{given.format(own)} --verbose pyspark-shell"


def test_a_value_that_spark_would_cut_is_refused(tmp_path):
    with pytest.raises(ConfigurationError, match=r"spark\.a\.secret begins or ends with a blank"):
        secrets_by_file({"spark.a.secret": "x "}, tmp_path).__enter__()
    assert not list(tmp_path.iterdir())


RUN = """
import json, os, sys
from pathlib import Path
from pystate.common.configuration.configuration import Configuration
from pystate.runtime.spark.sessions.session import create_session

def seen(word):
    found = []
    for name in filter(str.isdigit, os.listdir("/proc")):
        for kind in ("cmdline", "environ"):
            try:
                data = Path("/proc", name, kind).read_bytes()
            except OSError:
                continue
            if word in data:
                found.append([kind, data.replace(b"\\0", b" ")[:200].decode(errors="replace")])
    return found

def in_a_task(_):
    return seen(bytes.fromhex(hexed))

options = json.loads(sys.stdin.read())
hexed = options.pop("word").encode().hex()
folder = Path(sys.argv[1])
session = create_session(Configuration(options), "secrets", folder / "spark.log")
conf = session.sparkContext.getConf()
held = {key: conf.get(key) for key in options}
found = seen(bytes.fromhex(hexed)) + session.sparkContext.parallelize([0], 1).flatMap(in_a_task).collect()
session.stop()
print(json.dumps({"held": held, "found": found}))
"""


@pytest.mark.slow
@needs_proc
@pytest.mark.timeout(180)
def test_no_process_of_a_job_shows_a_secret(tmp_path):
    events = tmp_path / "events"
    events.mkdir()
    options = {
        "pystate.spark.master": "local[2]",
        "spark.hadoop.fs.s3a.secret.key": f"{WORD} with = : # ! \\ \u00fc and 'quotes\"",
        "spark.authenticate": "true",
        "spark.authenticate.secret": f"{WORD}-2",
        "spark.hadoop.fs.s3a.access-key": f"{WORD}-3",  # Spark's own pattern does not know Flink's words
        "spark.eventLog.enabled": "true",
        "spark.eventLog.dir": events.as_uri(),
        "spark.eventLog.compress": "false",
    }
    done = subprocess.run(
        [sys.executable, "-c", RUN, str(tmp_path)],
        input=json.dumps({**options, "word": WORD}),
        capture_output=True,
        text=True,
        check=True,
    )
    report = json.loads(done.stdout)
    del options["pystate.spark.master"]
    assert report["held"].items() >= options.items()
    assert report["found"] == []
    written = [path for path in tmp_path.rglob("*") if path.is_file() and WORD.encode() in path.read_bytes()]
    assert written == []
    assert any(events.rglob("*")), "no event log to look into"
    assert not Path(tmp_path, "spark-secrets.conf").exists()
