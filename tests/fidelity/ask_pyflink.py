"""Runs the programs in a real PyFlink and writes what it answers; needs nothing of ours but `answers.py` beside it.

Programs of one mode, parallelism and pace share jobs: starting Flink's Python workers takes longer than all they do. A job
doesn't have too many of them, and each has a process and a JVM of its own: threads that jobs leave behind, thousands of
them, would bring the machine to a stand. Modes and parallelisms that are not asked for stay in the file as they are.
"""

from __future__ import annotations

import argparse
import datetime
import importlib.metadata
import json
import multiprocessing
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


SUBTASKS = 12
"""The programs of a job times its parallelism, at most."""


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
    texts = [stream.map(Labelled(label), Types.STRING()) for label, stream in streams.items()]
    transformations = env._j_stream_execution_environment.getTransformations()  # noqa: SLF001
    # `execute()` says to partitioners how many subtasks there are, `execute_and_collect()` doesn't
    get_gateway().jvm.org.apache.flink.python.util.PythonConfigUtil.setPartitionCustomOperatorNumPartitions(transformations)
    with (texts[0].union(*texts[1:]) if texts[1:] else texts[0]).execute_and_collect() as results:
        return answers(list(results), list(streams))


def ask_in_parts(programs: list[Program], mode: str, parallelism: int, *, paced: bool) -> dict[str, dict[str, int]]:
    """Run programs as one job, and as two where that fails, so that one that PyFlink can't run is alone at last."""
    print(f"{mode} at {parallelism}: {len(programs)} programs, {programs[0].name} ...", flush=True)
    try:
        return ask(programs, mode, parallelism, paced=paced)
    except Exception as error:
        if len(programs) == 1:
            print(f"{programs[0].name}: {str(error)[-3000:]}", flush=True)
            return {}
    half = len(programs) // 2
    parts = (programs[:half], programs[half:])
    return {label: answer for part in parts for label, answer in ask_in_parts(part, mode, parallelism, paced=paced).items()}


def ask_in_a_process(programs: list[Program], mode: str, parallelism: int, *, paced: bool) -> dict[str, dict[str, int]]:
    """Run programs in another process, which takes its JVM with it when it ends."""
    context = multiprocessing.get_context("fork")  # no JVM runs here
    receiver, sender = context.Pipe(duplex=False)

    def run() -> None:
        sender.send(ask_in_parts(programs, mode, parallelism, paced=paced))

    process = context.Process(target=run)
    process.start()
    sender.close()
    try:
        found: dict[str, dict[str, int]] = receiver.recv()
    except EOFError:
        found = {}
    process.join()
    if process.exitcode:
        print(f"{programs[0].name} ...: the process ended with {process.exitcode}", flush=True)
    return found


def write(path: Path, found: dict[str, Any]) -> None:
    """Write what is known by now."""
    recorded = {
        "answers": found,
        "date": datetime.datetime.now(datetime.timezone.utc).date().isoformat(),
        "versions": {"apache-flink": importlib.metadata.version("apache-flink"), "python": sys.version.split()[0]},
    }
    path.write_text(json.dumps(recorded, indent=1, sort_keys=True) + "\n", "utf-8")


def main() -> None:
    """Run what the command line names."""
    parser = argparse.ArgumentParser()
    parser.add_argument("output", type=Path)
    parser.add_argument("--only", action="append", default=[], help="programs whose names have this in them")
    parser.add_argument("--mode", action="append", choices=["STREAMING", "BATCH"])
    parser.add_argument("--parallelism", action="append", type=int)
    options = parser.parse_args()
    os.environ["PATH"] = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    programs = load_programs("pyflink", options.only or [""])
    found: dict[str, Any] = json.loads(options.output.read_text("utf-8"))["answers"] if options.output.exists() else {}
    for mode in options.mode or ["STREAMING", "BATCH"]:
        for parallelism in options.parallelism or [1, 2]:
            fitting = [one for one in programs if parallelism in one.parallelisms and (one.batch or mode == "STREAMING")]
            for paced in (False, True):
                if not paced and not options.only:
                    found.pop(f"{mode} {parallelism}", None)
                chosen = [one for one in fitting if one.paced == paced]
                largest = SUBTASKS // parallelism
                for group in [chosen[first : first + largest] for first in range(0, len(chosen), largest)]:
                    answered = ask_in_a_process(group, mode, parallelism, paced=paced)
                    found.setdefault(f"{mode} {parallelism}", {}).update(answered)
                    write(options.output, found)


if __name__ == "__main__":
    main()
