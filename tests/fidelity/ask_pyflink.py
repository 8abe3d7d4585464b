"""Runs some programs in a real PyFlink as one job, and writes what they answer; `asking.py` starts it for a few at a time.

Needs nothing of ours but `answers.py` beside it. Programs share a job: starting Flink's Python workers takes longer than all
they do.
"""

from __future__ import annotations

import importlib.metadata
import json
import os
import sys
from pathlib import Path
from typing import Any

import answers as functions_of_ours
import cloudpickle
from answers import Labelled, Program, answers, load_programs
from pyflink.common import Configuration, Types
from pyflink.datastream import RuntimeExecutionMode, StreamExecutionEnvironment
from pyflink.java_gateway import get_gateway

# the interpreters of thread mode import nothing from beside this file
cloudpickle.register_pickle_by_value(functions_of_ours)


def environment(mode: str, parallelism: int, *, paced: bool) -> StreamExecutionEnvironment:
    """Return where one job is built.

    Flink says how far event time is between any two elements of a paced program, and never among those of another.
    """
    configuration = Configuration()
    settings = {
        "python.executable": sys.executable,
        "python.client.executable": sys.executable,
        "python.fn-execution.bundle.size": "1" if paced else "1000",
        "pipeline.auto-watermark-interval": "10ms" if paced else "1h",
        "taskmanager.memory.network.min": "256mb",
        "taskmanager.memory.network.max": "256mb",
        "taskmanager.memory.managed.size": "512mb",
        "rest.port": "0",
        "restart-strategy.type": "none",
        # in batch mode windows and timers of PyFlink's default mode wait for ever for what their worker doesn't send
        "python.execution-mode": "thread" if mode == "BATCH" else "process",
    }
    for key, value in settings.items():
        configuration.set_string(key, value)
    env = StreamExecutionEnvironment.get_execution_environment(configuration)
    env.set_runtime_mode(RuntimeExecutionMode[mode])
    env.set_parallelism(parallelism)
    return env


def ask(programs: list[Program], mode: str, parallelism: int, *, paced: bool) -> dict[str, dict[str, int]]:
    """Run programs as one job and return what they answer."""
    env = environment(mode, parallelism, paced=paced)
    streams: dict[str, Any] = {}
    for program in programs:
        try:
            streams.update(program.streams(env))
        except Exception as error:  # what can't be built spoils no others
            print(f"{program.name}: {error}"[:1500], flush=True)
    if not streams:
        sys.exit("nothing of it can be built")
    texts = [stream.map(Labelled(label), Types.STRING()) for label, stream in streams.items()]
    transformations = env._j_stream_execution_environment.getTransformations()  # noqa: SLF001
    # `execute()` says to partitioners how many subtasks there are, `execute_and_collect()` doesn't
    get_gateway().jvm.org.apache.flink.python.util.PythonConfigUtil.setPartitionCustomOperatorNumPartitions(transformations)
    with (texts[0].union(*texts[1:]) if texts[1:] else texts[0]).execute_and_collect() as results:
        return answers(list(results), list(streams))


def main() -> None:
    """Run what the command line names: a file for the answers, a mode, a parallelism, `paced` or not, and programs."""
    output, mode, parallelism, paced, *names = sys.argv[1:]
    os.environ["PATH"] = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    programs = {program.name: program for program in load_programs("pyflink", names)}
    found = {
        "answers": ask([programs[name] for name in names], mode, int(parallelism), paced=paced == "paced"),
        "versions": {"apache-flink": importlib.metadata.version("apache-flink"), "python": sys.version.split()[0]},
    }
    Path(output).write_text(json.dumps(found), "utf-8")


if __name__ == "__main__":
    main()
