"""A program as it was submitted: its configuration, and how its failures are shown."""

from __future__ import annotations

import contextlib
import importlib
import os
import runpy
import shutil
import sys
import threading
import time
import traceback
from abc import abstractmethod
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

from pystate.common.configuration.configuration import Configuration
from pystate.common.configuration.groups.checkpointing_options import StateRecoveryOptions
from pystate.common.configuration.groups.execution_options import CoreOptions
from pystate.common.errors import JobGraphError, PystateError
from pystate.common.files.home import read_json, write_json
from pystate.common.user_code.spark_object import SparkObject
from pystate.core.api.executor import Executor, register_executor
from pystate.core.api.stream_graph import StreamGraph
from pystate.runtime.spark.workers.python_files import add_python_files

if TYPE_CHECKING:
    from pystate.core.api.collected_results import ResultQueue

_PARENT_INTERVAL_S = 0.5
"""How often a process that answers a command looks whether that is still there."""


class ProgramTaken(BaseException):
    """Ends a program at its execute(); not an `Exception`, so that the program doesn't catch it."""


class GraphExecutor(Executor):
    """An executor that takes the graph of a program's first execute() instead of running it, and ends the program.

    Args:
        configuration: The configuration of file and command line.

    Attributes:
        taken: Whether it has one. Then whatever the program does with `ProgramTaken`, it has got to its execute().
    """

    taken = False

    def __init__(self, configuration: Configuration) -> None:
        self._configuration = configuration

    def base_configuration(self) -> Configuration:
        """Return the configuration of file and command line."""
        return self._configuration.copy()

    def spark_session(self, configuration: Configuration) -> Any:
        """Return what stands for a session."""
        del configuration
        return SparkObject()

    def execute(self, graph: StreamGraph, configuration: Configuration, job_name: str) -> NoReturn:
        """Take the graph, and end the program."""
        if not self.taken:
            self.take(graph, configuration, job_name)
            self.taken = True
        if threading.current_thread() is not threading.main_thread():
            raise SystemExit  # which alone ends a thread silently
        raise ProgramTaken

    def execute_async(
        self, graph: StreamGraph, configuration: Configuration, job_name: str, results: ResultQueue | None = None
    ) -> NoReturn:
        """Take the graph, and end the program."""
        del results
        self.execute(graph, configuration, job_name)

    @abstractmethod
    def take(self, graph: StreamGraph, configuration: Configuration, job_name: str) -> None:
        """Take the graph."""


def run_to_execute(job_file: Path, arguments: list[str], executor: GraphExecutor) -> None:
    """Run a program up to its execute(), at which the executor takes its graph.

    Args:
        job_file: The program.
        arguments: Its arguments.
        executor: Takes the program's graph.

    Raises:
        JobGraphError: The program ends without execute().
        Exception: Whatever the program raises.
    """
    sys.argv = [str(job_file), *arguments]
    register_executor(executor)
    add_python_files(executor.base_configuration())
    sys.path.insert(0, str(job_file.parent))
    try:
        runpy.run_path(str(job_file), run_name="__main__")
    except ProgramTaken:
        return
    except SystemExit as error:
        if executor.taken:
            return
        told = isinstance(error.code, str)  # what Python prints, for an exit code of 1
        how = "" if told else f" with exit code {error.code or 0}"
        why = f": {error.code}" if told else "."
        message = f"{job_file.name} ended{how} before its execute(){why}"
        raise JobGraphError(message, where=str(job_file)) from None
    except Exception:
        if executor.taken:  # the program has made it of what ended it
            return
        raise
    if executor.taken:  # in a thread, or the program has caught what was to end it
        return
    message = f"{job_file.name} never calls execute()."
    raise JobGraphError(message, where=str(job_file), hint='end the program with env.execute("name")')


def answered(words: list[str], answer: Callable[[dict[str, Any], Configuration, Path], dict[str, Any]]) -> NoReturn:
    """Answer a request about a program, and end this process.

    Args:
        words: The JSON files of request and answer. If modules follow, the request isn't there yet: they are imported
            meanwhile, and a line on stdin says that it is there. Their folder is the command's, and goes with it.
        answer: Takes the request, the configuration of the submission, and a folder for files; returns the answer.
    """
    asked, answers = Path(words[0]), Path(words[1])
    threading.Thread(target=_end_with, args=[os.getppid(), asked.parent], daemon=True).start()
    if len(words) > 2:
        for module in words[2:]:
            importlib.import_module(module)
        if not sys.stdin.readline():
            os._exit(0)  # nobody will ask
    request = read_json(asked)
    configuration = submitted_configuration(
        request["configuration"],
        request["parallelism"],
        request["savepoint_path"],
        allow_non_restored_state=request["allow_non_restored_state"],
    )
    write_json(answers, answer(request, configuration, asked.parent), mode=0o600)
    with contextlib.suppress(OSError):
        sys.stdout.flush()
        sys.stderr.flush()
    # a session that the program has asked for, and threads of its own, must not keep the process
    os._exit(0)


def _end_with(parent: int, folder: Path) -> None:
    """End this process when the command that started it is gone, with its files: the program may never end by itself."""
    while os.getppid() == parent:
        time.sleep(_PARENT_INTERVAL_S)
    shutil.rmtree(folder, ignore_errors=True)
    os._exit(1)


def submitted_configuration(
    settings: dict[str, str], parallelism: int | None, savepoint_path: str | None, *, allow_non_restored_state: bool
) -> Configuration:
    """Return the configuration of the submission: file and command line, overridden by the flags of `run`.

    Args:
        settings: File and command line.
        parallelism: The value of `-p`.
        savepoint_path: The value of `-s`.
        allow_non_restored_state: Whether `-n` was given.
    """
    configuration = Configuration(settings)
    if parallelism is not None:
        configuration.set(CoreOptions.DEFAULT_PARALLELISM, parallelism)
    if savepoint_path is not None:
        configuration.set(StateRecoveryOptions.SAVEPOINT_PATH, savepoint_path)
    if allow_non_restored_state:
        configuration.set(StateRecoveryOptions.SAVEPOINT_IGNORE_UNCLAIMED_STATE, True)
    return configuration


def program_trace(error: BaseException, job_file: Path) -> str:
    """Return the stack trace from the program's own first frame on, without the frames that started it."""
    if isinstance(error, PystateError):
        return traceback.format_exc()
    trace = error.__traceback__
    while trace is not None and trace.tb_frame.f_code.co_filename != str(job_file):
        trace = trace.tb_next
    return "".join(traceback.format_exception(type(error), error, trace or error.__traceback__))


def program_place(error: BaseException, job_file: Path) -> str:
    """Return the program's file, with the line that raised, if there is one."""
    lines = [frame.lineno for frame in traceback.extract_tb(error.__traceback__) if frame.filename == str(job_file)]
    return f"{job_file}, line {lines[-1]}" if lines else str(job_file)
