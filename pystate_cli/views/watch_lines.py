"""`pystate watch` for programs: a line per sample in a pipe, one sample as JSON."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pystate.common.time import current_time_ms
from pystate_cli.console.formats import known_epoch
from pystate_cli.sampling.job_history import JobSample
from pystate_cli.tables.column import Column
from pystate_cli.tables.kinds import INSTANT, NUMBER, TEXT, WATERMARK
from pystate_cli.tables.table_spec import TableSpec


def _epoch(look: JobSample) -> int | None:
    return known_epoch(look.progress.epoch)


def _last(values: Sequence[float | None]) -> int | None:
    value = values[-1] if values else None
    return None if value is None else round(value)


def _last_checkpoint(look: JobSample) -> int | None:
    completed = look.statistics.latest.completed
    return None if completed is None else completed.id


LOOKS: TableSpec[JobSample] = TableSpec(
    (
        Column("time", lambda _: current_time_ms(), INSTANT, plain="time", width=29),
        Column("state", lambda look: look.progress.state.value, TEXT, plain="state", width=12, json="progress.state"),
        Column(
            "attempt", lambda look: look.progress.attempt, NUMBER,
            plain="attempt", width=7, json="progress.attempt",
        ),
        Column(
            "epoch", lambda look: known_epoch(look.progress.epoch), NUMBER, plain="epoch", width=8, json="progress.epoch"
        ),
        Column("epoch_ms", lambda look: _last(look.epochs), NUMBER, plain="epoch_ms", width=8),
        Column("rows_in", lambda look: _last(look.rate_in), NUMBER, plain="rows_in_s", width=10),
        Column("rows_out", lambda look: _last(look.rate_out), NUMBER, plain="rows_out_s", width=10),
        Column("backlog", lambda look: look.progress.backlog, NUMBER, plain="backlog", width=10, json="progress.backlog"),
        Column(
            "checkpoint", _last_checkpoint, NUMBER,
            plain="checkpoint", width=10, json="checkpoints.latest.completed.id",
        ),
        Column("watermark", lambda look: look.progress.watermark, WATERMARK, plain="watermark", json="progress.watermark"),
    )
)  # fmt: skip


def look_json(look: JobSample) -> dict[str, Any]:
    """Return a sample for `--json`: more than a line has, but no rates, which need two samples."""
    return {
        "job_id": look.job_id,
        "progress": look.progress,
        "operators": [
            {
                "name": operator.name,
                "parallelism": operator.parallelism,
                "status": operator.status,
                "rows_in": operator.rows_in,
                "rows_out": operator.rows_out,
            }
            for operator in look.operators
        ],
        "max_parallelism": look.max_parallelism,
        "checkpoints": {"counts": look.statistics.counts, "latest": look.statistics.latest},
    }
