"""What a job on the micro-batch engine tells at its start of what epochs mean for it."""

from __future__ import annotations

from types import SimpleNamespace
from unittest.mock import MagicMock

import pytest

from pystate.common import Configuration
from pystate.common.files.home import JobDirectory
from pystate.runtime.engines.micro_batch.driver.micro_batch_job_engine import MicroBatchJobEngine
from tests.runtime.engines.real_time.driver.jobs import graph_of
from tests.runtime.engines.real_time.driver.programs import alarms


@pytest.mark.parametrize("batch", [False, True])
def test_timers_that_fire_at_the_ends_of_epochs_are_told(tmp_path, batch):
    job = SimpleNamespace(
        configuration=Configuration(),
        directory=JobDirectory(tmp_path),
        term=SimpleNamespace(check=lambda: None),
        coordinator=MagicMock(),
    )
    engine = MicroBatchJobEngine(job, SimpleNamespace(sparkContext=MagicMock()))
    graph = graph_of(alarms, {})
    graph.batch = batch
    engine.adapt(graph, graph.assign_uids(auto=True))
    assert len([notice for notice in engine.notices() if "has timers (on_timer)" in notice]) == (0 if batch else 1)
