"""A program that runs its jobs itself, as a notebook does: an interrupted cell, the next one, and an end without a word."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from pystate.common.files.home import PystateHome
from pystate.ops.jobmanager.dispatcher import Dispatcher
from pystate.ops.jobmanager.drivers.driver_process import DriverLauncher

PROGRAM = """
import json, os, pathlib, signal, threading, time
from pystate.datastream import StreamExecutionEnvironment

home = pathlib.Path(os.environ["PYSTATE_HOME"])

def say(**facts):
    print(json.dumps(facts), flush=True)

def endless(env):
    rate = env.spark.readStream.format("rate").option("rowsPerSecond", 20).load()
    env.from_data_frame(rate).key_by("value").map(lambda row: row.value).print()

def completed():
    return list((home / "checkpoints").glob("*/chk-*/_metadata"))

def interrupt():
    while not completed():
        time.sleep(0.1)
    os.kill(os.getpid(), signal.SIGINT)

def states():
    return {json.loads(path.read_text())["name"]: json.loads(path.read_text())["state"]
            for path in (home / "jobs").glob("*/status.json")}

env = StreamExecutionEnvironment.get_execution_environment()
env.set_parallelism(1)
env.enable_checkpointing(500)
endless(env)
application = env.spark.sparkContext.applicationId
threading.Thread(target=interrupt, daemon=True).start()
try:
    env.execute("interrupted")
except KeyboardInterrupt:
    say(raised="KeyboardInterrupt", queries=len(env.spark.streams.active), left=len(completed()), **states())

env = StreamExecutionEnvironment.get_execution_environment()
env.set_parallelism(1)
env.from_collection([1, 2, 3]).key_by(lambda n: n).map(lambda n: n).print()
env.execute("again")
say(same_session=env.spark.sparkContext.applicationId == application, **states())

env = StreamExecutionEnvironment.get_execution_environment()
env.set_parallelism(1)
env.enable_checkpointing(500)
endless(env)
env.execute_async("left")
while not completed():
    time.sleep(0.1)
say(**states())
os._exit(3)
"""


@pytest.mark.slow
def test_an_interrupted_cell_is_cancelled_and_can_be_run_again_and_a_program_that_leaves_is_noticed(tmp_path: Path):
    program = tmp_path / "cells.py"
    program.write_text(PROGRAM)
    environment = {**os.environ, "PYSTATE_HOME": str(tmp_path / "home")}
    ended = subprocess.run(
        [sys.executable, str(program)], env=environment, cwd=tmp_path, capture_output=True, text=True, check=False
    )

    assert ended.returncode == 3, ended.stderr
    interrupted, again, left = (json.loads(line) for line in ended.stdout.splitlines() if line.startswith("{"))
    assert interrupted == {"raised": "KeyboardInterrupt", "queries": 0, "left": 0, "interrupted": "CANCELED"}
    assert again == {"same_session": True, "interrupted": "CANCELED", "again": "FINISHED"}
    assert left["left"] == "RUNNING"

    home = PystateHome(tmp_path / "home")
    dispatcher = Dispatcher(home, DriverLauncher(home))
    states = {job.record.name: job.state().value for job in dispatcher.jobs()}
    assert states == {"interrupted": "CANCELED", "again": "FINISHED", "left": "FAILED"}
    (job,) = (job for job in dispatcher.jobs() if job.record.name == "left")
    assert job.checkpoints.overview()["counts"]["completed"] > 0
    assert job.read_output("log", 0, 1 << 16)[1]
