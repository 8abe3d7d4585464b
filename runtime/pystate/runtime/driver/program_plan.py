"""Runs a program up to its execute() and writes the plan of what would run.

Run as `python -m pystate.runtime.driver.program_plan REQUEST ANSWER`, which are JSON files.
It is a separate process, since the program may do anything to it.
"""

from __future__ import annotations

import sys
import traceback
from pathlib import Path
from typing import Any

from pystate.common.configuration.configuration import Configuration
from pystate.common.configuration.file_system_settings import initialize
from pystate.common.configuration.groups.checkpointing_options import StateRecoveryOptions
from pystate.common.configuration.groups.execution_options import CoreOptions, PipelineOptions
from pystate.common.errors import PystateError
from pystate.core.api.json_plan import json_plan
from pystate.core.api.stream_graph import StreamGraph
from pystate.runtime.driver.program.early_check import check_program
from pystate.runtime.driver.program.resolved_execution_mode import in_execution_mode
from pystate.runtime.driver.program.restore_check import check_against
from pystate.runtime.driver.program.submitted_program import (
    GraphExecutor,
    answered,
    program_place,
    program_trace,
    run_to_execute,
)
from pystate.runtime.engines.micro_batch.spark.determinism import non_determinism
from pystate.runtime.engines.micro_batch.spark.source_replay import SourceReplay
from pystate.runtime.execution.restore import load_snapshot
from pystate.runtime.execution.status import failure_dict
from pystate.runtime.plan.delivery_guarantees import DeliveryGuarantees
from pystate.runtime.plan.planner import JobPlanner
from pystate.runtime.spark.sessions.session import create_session


class PlanExecutor(GraphExecutor):
    """An executor that captures the program's plan instead of running it.

    Args:
        configuration: The configuration of file and command line.
        folder: For the log of a Spark session, if the program requests one.
        restores: Whether to report how the program fits the snapshot that it is to start from.
    """

    def __init__(self, configuration: Configuration, folder: Path, *, restores: bool = False) -> None:
        super().__init__(configuration)
        self._folder = folder
        self._restores = restores
        self._session: Any = None
        self.plan: dict[str, Any] | None = None

    def close(self) -> None:
        """End the session, if there is one."""
        if self._session is not None:
            self._session.stop()

    def spark_session(self, configuration: Configuration) -> Any:
        """Return a session; programs may inspect their data with it. No query is started."""
        if self._session is None:
            self._session = create_session(configuration, "pystate info", self._folder / "spark.log")
        return self._session

    def take(self, graph: StreamGraph, configuration: Configuration, job_name: str) -> None:
        """Capture the plan."""
        parallelism = int(configuration.get(CoreOptions.DEFAULT_PARALLELISM))
        auto_uids = bool(configuration.get(PipelineOptions.AUTO_GENERATE_UIDS))
        try:
            in_execution_mode(graph, configuration)
            plan = json_plan(graph, parallelism, auto_uids=auto_uids)
            check_program(graph, configuration)
            self._look_at_sources(graph, configuration)
            self._look_at_plan(graph, parallelism, configuration)
            guarantees = DeliveryGuarantees(graph, graph.assign_uids(auto=auto_uids), configuration).all()
            restore = self._restore(graph, configuration, auto_uids=auto_uids) if self._restores else None
        except PystateError as error:
            self.plan = {"failure": failure_dict(error, traceback.format_exc())}
            return
        self.plan = {
            "name": job_name,
            "parallelism": parallelism,
            "notices": [*graph.notices, *configuration.notices()],
            "plan": plan,
            "guarantees": [one.to_plain() for one in guarantees],
            "restore": restore,
        }

    def _look_at_sources(self, graph: StreamGraph, configuration: Configuration) -> None:
        """Inspect the DataFrames of a program that has requested a session; files and collections can be read again."""
        replay = SourceReplay(configuration)
        for source in graph.live_sources() if self._session is not None else ():
            if source.frame is not None:
                frame = source.frame()
                replay.look(source, frame)
                source.non_deterministic = non_determinism(frame).expressions

    @staticmethod
    def _look_at_plan(graph: StreamGraph, parallelism: int, configuration: Configuration) -> None:
        """Plan the job if the types of all sources are known; Spark infers the types of files only at the start."""
        types = [source.output_type for source in graph.spark_sources()]
        known = [type_info for type_info in types if type_info is not None]
        if len(known) == len(types):
            uids = graph.assign_uids(auto=bool(configuration.get(PipelineOptions.AUTO_GENERATE_UIDS)))
            JobPlanner(graph, uids, parallelism).plan(known)

    @staticmethod
    def _restore(graph: StreamGraph, configuration: Configuration, *, auto_uids: bool) -> dict[str, Any]:
        initialize(configuration)
        snapshot = load_snapshot(str(configuration.get(StateRecoveryOptions.SAVEPOINT_PATH)))
        return check_against(graph, graph.assign_uids(auto=auto_uids), configuration, snapshot).to_json()


def take_plan(job_file: Path, arguments: list[str], executor: PlanExecutor) -> dict[str, Any]:
    """Run the program up to its execute(); return its plan, or `{"failure": ...}`."""
    try:
        run_to_execute(job_file, arguments, executor)
    except PystateError as error:
        return {"failure": failure_dict(error, traceback.format_exc())}
    except BaseException as error:  # whatever the program raises
        failure = failure_dict(error, program_trace(error, job_file))
        return {"failure": {**failure, "where": program_place(error, job_file)}}
    return executor.plan or {}


def answer(request: dict[str, Any], configuration: Configuration, folder: Path) -> dict[str, Any]:
    """Answer one request."""
    executor = PlanExecutor(configuration, folder, restores=request["savepoint_path"] is not None)
    try:
        return take_plan(Path(request["job_file"]), list(request["arguments"]), executor)
    finally:
        executor.close()


if __name__ == "__main__":
    answered(sys.argv[1:], answer)
