from __future__ import annotations

import pytest

from pystate.common.configuration.configuration import Configuration
from pystate.common.configuration.groups.checkpointing_options import StateRecoveryOptions
from pystate.common.configuration.groups.execution_options import ExecutionOptions, RuntimeExecutionMode
from pystate.common.configuration.groups.restart_strategy_options import RestartStrategyType
from pystate.common.configuration.state_settings import is_checkpointing_enabled
from pystate.common.errors import JobGraphError
from pystate.core.api.stream_graph import StreamGraph
from pystate.datastream import StreamExecutionEnvironment
from pystate.runtime.driver.program.resolved_execution_mode import in_execution_mode
from pystate.runtime.job_folder.restart_strategies import restart_strategy
from tests.runtime.plan.programs import printed, source

MODE = ExecutionOptions.RUNTIME_MODE


def graph(*bounded):
    sources = [source(f"source {index}", bounded=end) for index, end in enumerate(bounded)]
    for one in sources:
        printed(one)
    return StreamGraph(sources)


def options(mode=None):
    configuration = Configuration({"execution.checkpointing.interval": "10 s"})
    return configuration if mode is None else configuration.set(MODE, mode)


@pytest.mark.parametrize(
    ("mode", "bounded", "batch"),
    [
        (None, [True], False),
        (RuntimeExecutionMode.STREAMING, [True], False),
        (RuntimeExecutionMode.AUTOMATIC, [True, True], True),
        (RuntimeExecutionMode.AUTOMATIC, [True, False], False),
        (RuntimeExecutionMode.BATCH, [True, True], True),
    ],
)
def test_the_mode_follows_from_what_is_asked_for_and_from_the_sources_ends(mode, bounded, batch):
    program, asked = graph(*bounded), options(mode)

    decided = in_execution_mode(program, asked)

    assert program.batch is batch
    assert decided.get(MODE) is (RuntimeExecutionMode.BATCH if batch else RuntimeExecutionMode.STREAMING)
    assert is_checkpointing_enabled(decided) is not batch
    assert restart_strategy(decided).kind is (RestartStrategyType.NONE if batch else RestartStrategyType.EXPONENTIAL_DELAY)
    assert is_checkpointing_enabled(asked)


def test_a_source_without_an_end_is_refused_in_batch_mode_with_flinks_sentence():
    with pytest.raises(JobGraphError, match="Detected an UNBOUNDED source with the 'execution.runtime-mode' set to 'BATCH'"):
        in_execution_mode(graph(True, False), options(RuntimeExecutionMode.BATCH))


def test_a_source_that_nobody_reads_counts_for_nothing():
    program = graph(True)
    program.sources.append(source("unread", bounded=False))

    in_execution_mode(program, options(RuntimeExecutionMode.BATCH))

    assert program.batch


def test_a_savepoint_to_start_from_is_refused_in_batch_mode():
    asked = options(RuntimeExecutionMode.BATCH).set(StateRecoveryOptions.SAVEPOINT_PATH, "/savepoint")
    with pytest.raises(JobGraphError, match="no savepoint"):
        in_execution_mode(graph(True), asked)


def test_a_program_sets_its_mode():
    environment = StreamExecutionEnvironment.get_execution_environment()

    environment.set_runtime_mode(RuntimeExecutionMode.BATCH)

    assert environment.get_configuration().get(MODE) is RuntimeExecutionMode.BATCH
