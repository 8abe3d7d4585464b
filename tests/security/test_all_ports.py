"""Whatever a job's processes listen on, Spark's and PySpark's ports included, another user of the machine gets nothing."""

from __future__ import annotations

import os
import signal
import struct
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e.clusters.spark_cluster import ROOT
from tests.engines import MICRO_BATCH, REAL_TIME
from tests.faults.processes import needs_proc
from tests.security.all_ports import given_away, is_refusal, sockets_below
from tests.security.other_user import OtherUser
from tests.security.target import Target
from tests.waiting import wait_until

pytestmark = [needs_proc]

COUNT_WORDS = ROOT / "tests" / "e2e" / "commands" / "count_words.py"
DAEMON = " pyspark.worker"


@pytest.fixture(scope="module")
def other_user() -> OtherUser:
    found = OtherUser.found("/tmp")  # noqa: S108
    if found is None:
        pytest.skip("neither setpriv nor unshare lets us be another user")
    return found


@pytest.fixture
def short_folder() -> Iterator[Path]:
    """A folder for temporary files whose path is short enough for sockets."""
    with tempfile.TemporaryDirectory(prefix="ports-", dir="/tmp", ignore_cleanup_errors=True) as folder:  # noqa: S108
        yield Path(folder)


@pytest.mark.slow
@pytest.mark.parametrize("engine", [MICRO_BATCH, REAL_TIME])
def test_a_plain_program_gives_nothing_away(tmp_path, short_folder, engine, other_user):
    words = tmp_path / "words"
    words.mkdir()
    (words / "1.txt").write_text("hello\n")
    environment = {**os.environ, "PYSTATE_HOME": str(tmp_path / "home"), "PYTHONPATH": str(ROOT / "runtime")}
    (tmp_path / "flink-conf.toml").write_text(f'[execution]\nengine = "{engine}"\n')
    environment["PYSTATE_CONF_DIR"] = str(tmp_path)
    output = tmp_path / "output"
    environment["TMPDIR"] = str(short_folder)
    with output.open("wb") as file:
        job = subprocess.Popen(
            [sys.executable, str(COUNT_WORDS), str(words), "200"], env=environment, stdout=file, stderr=file, umask=0
        )
    try:
        said = _said(job, output, "('hello', 1)")
        assert "spark.authenticate is not true" not in said
        sockets = sockets_below(job.pid)
        assert any("java" in one.name for one in sockets), "or nobody was asked"
        assert any(DAEMON in one.name and isinstance(one.address, str) for one in sockets)
        assert given_away(sockets, other_user) == []
        (words / "2.txt").write_text("hello\n")
        said = _said(job, output, "('hello', 2)")
        assert said.count("('hello', 1)") == 1, "the attempt has gone on through it all"
    finally:
        job.send_signal(signal.SIGKILL)
        job.wait()
    wait_until(lambda: not list(short_folder.glob("pystate-*/.*.sock")))


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_a_job_of_a_job_manager_and_a_spare_driver_give_nothing_away(tmp_path_factory, other_user):
    target = Target(tmp_path_factory.mktemp("installation"), fake=False)
    options = '"jobmanager.spare-drivers" = 1\n"jobmanager.spare-drivers.min-free-memory" = "0 b"\n'
    (target.root / "conf" / "flink-conf.toml").write_text(options)
    try:
        target.start()
        spares = wait_until(lambda: [one for one in sockets_below(target.manager_pid, itself=False) if "java" in one.name])
        assert spares
        assert given_away(sockets_below(target.manager_pid, itself=False), other_user) == []
        assert target.counts_on()
        assert target.state(target.job_id) == "RUNNING"
    finally:
        target.close()


def _said(job: subprocess.Popen[bytes], output: Path, words: str) -> str:
    wait_until(lambda: words in output.read_text() or job.poll() is not None, 240)
    text = output.read_text()
    assert words in text, text[-3000:]
    return text


@pytest.mark.parametrize(
    ("answer", "refuses"),
    [
        (b"", True),
        (b"\x00\x00\x00\x1f#CHALLENGE#{sha256}xxxx", True),
        (struct.pack(">qb", 40, 5) + bytes(31), True),
        (struct.pack(">qb", 40, 1) + bytes(31), False),
        (struct.pack(">qb", 40, 4) + bytes(31), False),
        (struct.pack(">i", 4711), False),
        (b"!xsAuthentication error: unexpected command.\n", True),
        (b"!zspy4j.Py4JException: Unknown command received: GET", True),
        (b"!yv\n", False),
        (b"HTTP/1.1 200 OK\r\n", False),
    ],
    ids=[
        "nothing",
        "a challenge",
        "a failure of Spark's",
        "a chunk",
        "an answer",
        "a worker's pid",
        "py4j's no",
        "py4j knows no such word",
        "py4j's yes",
        "a page",
    ],
)
def test_what_counts_as_a_refusal(answer, refuses):
    assert is_refusal(answer) is refuses
