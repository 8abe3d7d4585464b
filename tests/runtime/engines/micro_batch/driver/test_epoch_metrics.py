"""How long epochs took, as the live views show it."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from pystate.core.metrics.sample import counter, gauge
from pystate.runtime.engines.micro_batch.driver.epoch_metrics import EpochMetrics


def sources(samples: Any) -> Any:
    return SimpleNamespace(samples=lambda: samples, epoch_begun=lambda: None)


def test_a_source_tells_how_far_it_is_as_long_as_its_query_runs():
    context: Any = SimpleNamespace(accumulator=lambda *_: None)
    metrics = EpochMetrics(context)
    counted, read = [counter("numRecordsIn", 1)], [gauge("pendingRecords", 7)]
    metrics.sources = sources({("orders", 0): counted, ("orders", 1): counted})
    metrics.query_started(lambda: {"orders": read, "files": read})
    assert metrics.source_samples() == {("orders", 0): counted + read, ("orders", 1): counted, ("files", 0): read}
    metrics.attempt_over()
    assert metrics.source_samples() == {("orders", 0): counted, ("orders", 1): counted}


def test_the_last_epochs_and_the_one_that_runs():
    now = [10.0]
    context: Any = SimpleNamespace(accumulator=lambda *_: None)
    metrics = EpochMetrics(context, lambda: now[0])
    metrics.sources = sources({})
    assert metrics.epoch_times() == {"epoch_durations": [], "epoch_running": None}

    for epoch in range(150):
        metrics.epoch_begun()
        now[0] += epoch / 1000
        metrics.epoch_finished(epoch)
    told = metrics.epoch_times()
    assert told["epoch_running"] is None
    assert len(told["epoch_durations"]) == 120
    assert abs(told["epoch_durations"][-1] - 149) <= 1

    metrics.epoch_begun()
    now[0] += 0.5
    assert abs(metrics.epoch_times()["epoch_running"] - 500) <= 1
    metrics.attempt_over()
    assert metrics.epoch_times()["epoch_running"] is None
