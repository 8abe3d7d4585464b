"""Looks for errors of a program without Spark: runs it up to its execute(), and checks all that needs no Spark.

Run as `python -m pystate.runtime.driver.program_check REQUEST ANSWER`, which are JSON files. It is a separate process, in
which an object stands for Spark's session.
"""

from __future__ import annotations

import contextlib
import sys
import time
import traceback
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NoReturn

from pystate.common.configuration.configuration import Configuration
from pystate.common.configuration.execution_target import local_threads
from pystate.common.configuration.file_system_settings import initialize
from pystate.common.configuration.groups.checkpointing_options import StateRecoveryOptions
from pystate.common.configuration.groups.execution_options import CoreOptions, PipelineOptions
from pystate.common.configuration.groups.pystate_options import SparkOptions
from pystate.common.configuration.state_settings import StateSettings
from pystate.common.errors import JobGraphError, PystateError
from pystate.common.program_finding import ProgramFinding, Severity
from pystate.common.type_rules import WrongValueError, conform_to
from pystate.common.user_code.spark_object import NeedsSparkError
from pystate.common.user_code.taken import refusals_collected
from pystate.common.user_code.user_errors import error_sentence
from pystate.common.user_code.user_frames import user_frame
from pystate.core.api.stream_graph import StreamGraph
from pystate.core.api.transformations import element_type
from pystate.core.snapshot.reading.snapshot_reader import SnapshotReader
from pystate.core.state.base.loader import check_state_backend
from pystate.core.state.base.state_schema import StateSchema, resolve_migration
from pystate.runtime.checkpoint.settings.checkpoint_notices import checkpoint_notices
from pystate.runtime.checkpoint.settings.checkpoint_settings import CheckpointSettings
from pystate.runtime.driver.program.after_execute import what_follows
from pystate.runtime.driver.program.code_fingerprint import own_files
from pystate.runtime.driver.program.early_check import program_refusals
from pystate.runtime.driver.program.resolved_execution_mode import in_execution_mode
from pystate.runtime.driver.program.restore_check import RestoreCheck, check_against
from pystate.runtime.driver.program.state_declarations import StateDeclaration, WrongDeclaration, declarations
from pystate.runtime.driver.program.submitted_program import GraphExecutor, answered, program_trace, run_to_execute
from pystate.runtime.driver.program.without_spark import without_spark
from pystate.runtime.driver.program.wrong_functions import wrong_functions
from pystate.runtime.execution.restore import load_snapshot
from pystate.runtime.job_folder.restart_strategies import restart_warnings
from pystate.runtime.plan.delivery_guarantees import DeliveryGuarantees
from pystate.runtime.plan.missing_watermarks import missing_watermarks
from pystate.runtime.plan.planner import JobPlanner

_NO_ARGUMENTS = "the program's own arguments follow its name: pystate check job.py ARGUMENTS"
_SPARK_FOLLOWS = "pystate info starts Spark where the program asks for it, and looks at all of the program"


class CheckExecutor(GraphExecutor):
    """An executor that looks at the program's graph instead of running it.

    Args:
        configuration: The configuration of file and command line.

    Attributes:
        findings: What is wrong with the program.
        guarantees: What the job would promise, as plain data.
        restore: How the program fits its savepoint; None if there is none.
        name: The job's name; None as long as there is no job.
    """

    def __init__(self, configuration: Configuration) -> None:
        super().__init__(configuration)
        self.findings: list[ProgramFinding] = []
        self.guarantees: list[dict[str, Any]] = []
        self.restore: RestoreCheck | None = None
        self.name: str | None = None

    def __reduce_ex__(self, protocol: Any) -> NoReturn:
        """Refuse to be pickled, as what runs jobs does: a function that refers to the environment can't be sent."""
        message = "it runs the program's jobs, in the driver alone"
        raise TypeError(message)

    def take(self, graph: StreamGraph, configuration: Configuration, job_name: str) -> None:
        """Look at the graph."""
        self.name = job_name
        follows = what_follows()
        if follows is not None:
            self._note("program", "What follows the program's execute() is not looked at.", follows)
        with self._finding("configuration"):
            configuration = in_execution_mode(graph, configuration)
        uids, refusals = graph.uids_and_refusals(auto=bool(configuration.get(PipelineOptions.AUTO_GENERATE_UIDS)))
        self.findings += [ProgramFinding.of(refusal, "uid") for refusal in refusals]
        self.findings += [ProgramFinding.of(refusal, "graph") for refusal in program_refusals(graph, configuration)]
        self.findings += _undefined_names(graph)
        self.findings += _wrong_elements(graph)
        for wrong in wrong_functions(graph):
            is_sure = wrong.fails and not (wrong.in_slots and _has_slots_elsewhere(configuration))
            severity = Severity.ERROR if is_sure else Severity.WARNING
            self.findings.append(ProgramFinding.of(wrong.error, "function", wrong.place, severity))
        states = self._states(graph, uids)
        self._look_at_configuration(configuration)
        if not refusals:  # what follows goes by uids
            with self._finding("graph"):
                guarantees = DeliveryGuarantees(graph, uids, configuration).all()
                self.guarantees = [one.to_plain() for one in guarantees]
            with self._finding("savepoint"):
                self._look_at_savepoint(graph, uids, configuration, states)
            self._plan(graph, uids, configuration)
            for one in missing_watermarks(graph):
                error = JobGraphError(one.message, hint=one.hint)
                self.findings.append(ProgramFinding.of(error, "graph", one.step.place, Severity.WARNING))
        for notice in [*graph.notices, *configuration.notices()]:
            self._warn("configuration", notice)

    def _states(self, graph: StreamGraph, uids: Mapping[int, str]) -> dict[str, list[StateDeclaration]]:
        found: dict[str, list[StateDeclaration]] = {}
        for step in graph.transformations():
            uid = uids[id(step)]
            for one in declarations(step, uid):
                if isinstance(one, WrongDeclaration):
                    severity = Severity.ERROR if one.fails else Severity.WARNING
                    self.findings.append(ProgramFinding.of(one.error, "state", one.place, severity))
                else:
                    found.setdefault(uid, []).append(one)
        return found

    def _look_at_configuration(self, configuration: Configuration) -> None:
        with self._finding("configuration"):
            CheckpointSettings.of(configuration, "check")
        with self._finding("configuration"):
            state = StateSettings.of(configuration)
            check_state_backend(state.backend)
            for notice in [*state.notices, *checkpoint_notices(configuration)]:
                self._warn("configuration", notice)
        with self._finding("configuration"):
            for notice in restart_warnings(configuration):
                self._warn("configuration", notice)

    def _plan(self, graph: StreamGraph, uids: dict[int, str], configuration: Configuration) -> None:
        """Plan the job, where the types of all sources are known; Spark alone knows those of DataFrames."""
        sources = graph.spark_sources()
        for source in sources:
            if source.output_type is None and source.frame is None and source.in_slots is not None:
                with contextlib.suppress(JobGraphError):  # of Parquet without a declared type
                    _, source.output_type = source.in_slots(None)
        known = [source.output_type for source in sources if source.output_type is not None]
        unknown = [source for source in sources if source.output_type is None]
        for source in unknown:
            message = (
                f"The columns of {source.name!r} are known to Spark alone: steps that depend on them are not looked at."
            )
            self._note("types", message, source.place)
        if unknown:
            return
        with self._finding("graph"):
            parallelism = int(configuration.get(CoreOptions.DEFAULT_PARALLELISM))
            most = int(configuration.get(PipelineOptions.MAX_PARALLELISM))
            plan = JobPlanner(graph, uids, parallelism, most if most > 0 else None)
            for warning in plan.plan(known).warnings:
                self._warn("graph", warning)

    def _look_at_savepoint(
        self,
        graph: StreamGraph,
        uids: Mapping[int, str],
        configuration: Configuration,
        states: Mapping[str, list[StateDeclaration]],
    ) -> None:
        path = configuration.get(StateRecoveryOptions.SAVEPOINT_PATH)
        if path is None:
            return
        initialize(configuration)
        self.restore = check_against(graph, uids, configuration, load_snapshot(path))
        steps = {uid: step for step in graph.transformations() if (uid := uids[id(step)])}
        for one in (*self.restore.operators, *self.restore.sources):
            if one.problem is not None:
                place = steps[one.uid].place if one.uid in steps else None
                error = JobGraphError(one.problem, where=f"uid {one.uid}", hint=one.hint)
                self.findings.append(ProgramFinding.of(error, "savepoint", place))
        reader = SnapshotReader(path)
        kept = {operator.uid for operator in reader.metadata.operators if operator.has_keyed_state}
        for uid in kept & states.keys():
            self.findings += _misfits(reader, uid, states[uid])

    @contextlib.contextmanager
    def _finding(self, check: str) -> Iterator[None]:
        try:
            yield
        except PystateError as error:
            self.findings.append(ProgramFinding.of(error, check))

    def _warn(self, check: str, message: str) -> None:
        self.findings.append(ProgramFinding(Severity.WARNING, check, message))

    def _note(self, check: str, message: str, place: str | None, hint: str | None = None) -> None:
        self.findings.append(ProgramFinding.of(JobGraphError(message, hint=hint), check, place, Severity.NOTE))


def _has_slots_elsewhere(configuration: Configuration) -> bool:
    master = configuration.get(SparkOptions.MASTER)
    return master is not None and local_threads(master) is None


def _undefined_names(graph: StreamGraph) -> Iterator[ProgramFinding]:
    for step in graph.transformations():
        for name, function in sorted({found for taken in step.taken.values() for found in taken.names_never_defined()}):
            message = f"The function of {step.name!r} refers to {name!r} in {function}, which the program never defines."
            error = JobGraphError(message, hint="mend the name, or import it before the function is handed over")
            yield ProgramFinding.of(error, "function", step.place)


def _wrong_elements(graph: StreamGraph) -> Iterator[ProgramFinding]:
    for source in graph.live_sources():
        type_info = element_type(source.output_type)
        if source.collection is None or type_info is None:
            continue
        conform = conform_to(type_info)
        for position, element in enumerate(source.collection):
            try:
                conform(element)
            except WrongValueError as error:
                wrong = JobGraphError(f"from_collection(): element {position}: {error.message}", hint=error.hint)
                yield ProgramFinding.of(wrong, "types", source.place)
                break


def _misfits(reader: SnapshotReader, uid: str, declared: list[StateDeclaration]) -> Iterator[ProgramFinding]:
    """Yield the states that an operator declares otherwise than the snapshot has them, in the words of the slots."""
    written = {state.name: state for state in reader.described_states(uid)}
    for one in declared:
        state = written.get(one.descriptor.name)
        for part in () if state is None else state.parts:
            try:
                resolve_migration(part, StateSchema.of(one.descriptor), int(time.time() * 1000))
            except PystateError as error:
                error.where = error.where or f"uid {uid}"
                yield ProgramFinding.of(error, "savepoint", one.place)
                break


def check(job_file: Path, arguments: list[str], executor: CheckExecutor) -> dict[str, Any]:
    """Run a program up to its execute(), and return what was found."""
    trouble: ProgramFinding | None = None
    with refusals_collected() as refusals:
        try:
            run_to_execute(job_file, arguments, executor)
        except NeedsSparkError as error:
            place = _place(error, job_file)
            message = "The program asks Spark for a value here: what follows is not looked at."
            told = JobGraphError(message, hint=_SPARK_FOLLOWS)
            trouble = ProgramFinding.of(told, "program", place, Severity.NOTE)
        except PystateError as error:
            trouble = ProgramFinding.of(error, "program", _place(error, job_file))
        except BaseException as error:  # whatever the program raises
            hint = _NO_ARGUMENTS if _misses_an_argument(error, arguments) else None
            told = JobGraphError(error_sentence(error), hint=hint)
            trouble = ProgramFinding.of(told, "program", _place(error, job_file))
    findings = [ProgramFinding.of(refusal, "function", place) for place, refusal in refusals]
    findings += [*executor.findings, *([] if trouble is None else [trouble])]
    return {
        "name": executor.name,
        "findings": [one.to_plain() for one in dict.fromkeys(findings)],
        "guarantees": executor.guarantees,
        "restore": None if executor.restore is None else executor.restore.to_json(),
        "modules": [str(file) for file in own_files(job_file)],
    }


def _place(error: BaseException, job_file: Path) -> str | None:
    frame = user_frame(program_trace(error, job_file))
    return None if not frame else frame[0]


def _misses_an_argument(error: BaseException, arguments: list[str]) -> bool:
    frames = traceback.extract_tb(error.__traceback__)
    return isinstance(error, IndexError) and not arguments and bool(frames) and "argv" in (frames[-1].line or "")


def answer(request: dict[str, Any], configuration: Configuration, folder: Path) -> dict[str, Any]:
    """Answer one request."""
    del folder
    with without_spark():
        return check(Path(request["job_file"]), list(request["arguments"]), CheckExecutor(configuration))


if __name__ == "__main__":
    answered(sys.argv[1:], answer)
