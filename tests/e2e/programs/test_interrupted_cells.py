"""Cells of a real kernel that are interrupted while their job starts, and results that are collected in them."""

from __future__ import annotations

import importlib.util
import json
import time
from collections.abc import Iterator
from pathlib import Path
from queue import Empty
from typing import Any

import pytest

from tests.waiting import LONGEST_S

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(importlib.util.find_spec("ipykernel") is None, reason="not installed: ipykernel"),
]

HEAD = """
from pystate.common import Types
from pystate.datastream import StreamExecutionEnvironment
env = StreamExecutionEnvironment.get_execution_environment()
env.set_parallelism(1)
"""
NUMBERS = """
rate = env.spark.readStream.format("rate").option("rowsPerSecond", 20).load()
numbers = env.from_data_frame(rate).map(lambda row: row.value, Types.LONG())
sums = numbers.key_by(lambda n: n % 2, Types.LONG()).reduce(lambda a, b: a + b).uid("sums")
"""
SMALL = """
pairs = env.from_collection([("a", 1), ("b", 2), ("a", 3)], Types.TUPLE([Types.STRING(), Types.LONG()]))
counted = pairs.key_by(lambda pair: pair[0], Types.STRING()).reduce(lambda x, y: (x[0], x[1] + y[1])).uid("counted")
counted.execute_and_collect("small", limit=10)
"""
LEFT = "len(env.spark.streams.active), len(env.spark.sparkContext.statusTracker().getActiveJobsIds())"


class Kernel:
    """A kernel of Jupyter, as a notebook talks to it."""

    def __init__(self) -> None:
        from jupyter_client.manager import start_new_kernel

        self._manager, self._client = start_new_kernel(kernel_name="python3")

    def run(self, cell: str, code: str, interrupt_after: float | None = None) -> str:
        """Run a cell, and return the text of its value, or the name of what it raised."""
        session, channel = self._client.session, self._client.shell_channel
        content = {"code": code, "silent": False, "store_history": True, "user_expressions": {}, "allow_stdin": False}
        message = session.msg("execute_request", content, metadata={"cellId": cell})
        channel.send(message)
        begin, shown = time.monotonic(), ""
        while time.monotonic() - begin < LONGEST_S:
            if interrupt_after is not None and time.monotonic() - begin > interrupt_after:
                self._manager.interrupt_kernel()
                interrupt_after = None
            try:
                said: dict[str, Any] = self._client.get_iopub_msg(timeout=0.05)
            except Empty:
                continue
            if said["parent_header"].get("msg_id") != message["header"]["msg_id"]:
                continue
            told = said["content"]
            if said["msg_type"] == "execute_result":
                shown = told["data"]["text/plain"]
            elif said["msg_type"] == "error":
                shown = told["ename"]
            elif said["msg_type"] == "status" and told["execution_state"] == "idle":
                return shown
        message = f"the cell {cell!r} has not ended"
        raise TimeoutError(message)

    def close(self) -> None:
        self._client.stop_channels()
        self._manager.shutdown_kernel(now=False)


@pytest.fixture
def kernel(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Kernel]:
    monkeypatch.setenv("PYSTATE_HOME", str(tmp_path / "home"))
    monkeypatch.chdir(tmp_path)
    made = Kernel()
    yield made
    made.close()


def states(folder: Path) -> dict[str, str]:
    files = [json.loads(path.read_text("utf-8")) for path in (folder / "home" / "jobs").glob("*/status.json")]
    return {one["name"]: one["state"] for one in files}


def test_a_cell_that_is_interrupted_while_its_job_starts_leaves_no_job_and_can_be_run_again(
    kernel: Kernel, tmp_path: Path
) -> None:
    kernel.run("head", HEAD)
    assert kernel.run("endless", f"{NUMBERS}sums.print()\nenv.execute('with spark')", 1) == "KeyboardInterrupt"
    assert set(states(tmp_path).values()) <= {"CANCELED"}, "Spark may not even have started"
    assert kernel.run("spark", "env.spark.range(3).count()") == "3"
    for delay in (0.1, 0.5, 1, 2, 3):
        code = f"{NUMBERS}sums.print()\nenv.execute('after {delay}')"
        assert kernel.run("endless", code, delay) == "KeyboardInterrupt"
        assert states(tmp_path).get(f"after {delay}", "CANCELED") == "CANCELED"
        assert kernel.run("left", LEFT) == "(0, 0)"
    assert kernel.run("small", SMALL) == "[('a', 1), ('b', 2), ('a', 4)]"


def test_results_are_collected_up_to_a_limit_and_an_interrupt_ends_their_job(kernel: Kernel, tmp_path: Path) -> None:
    kernel.run("head", HEAD)
    assert kernel.run("five", f"{NUMBERS}len(sums.execute_and_collect('five', limit=5))") == "5"
    assert states(tmp_path)["five"] == "CANCELED", "the stream has no end"
    kernel.run("numbers", NUMBERS)
    for delay in (0.5, 3, 10):
        code = f"sums.execute_and_collect('{delay}', limit=1_000_000)"
        assert kernel.run("all", code, delay) == "KeyboardInterrupt"
        assert states(tmp_path).get(str(delay), "CANCELED") == "CANCELED"
        assert kernel.run("left", LEFT) == "(0, 0)"
    assert kernel.run("two", "len(sums.execute_and_collect('two', limit=2))") == "2"
    assert kernel.run("small", SMALL) == "[('a', 1), ('b', 2), ('a', 4)]"
