"""How long epochs took, as the live views show it."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from pystate.runtime.engines.micro_batch.driver.epoch_metrics import EpochMetrics


def test_the_last_epochs_and_the_one_that_runs():
    now = [10.0]
    context: Any = SimpleNamespace(accumulator=lambda *_: None)
    metrics = EpochMetrics(context, lambda: now[0])
    metrics.sources = type("Sources", (), {"samples": staticmethod(dict)})()  # type: ignore[assignment]
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
