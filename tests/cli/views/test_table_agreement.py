"""What a table shows and what `--json` prints is the same: each column that names a key finds its value there."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import pytest

from pystate.common.text.plain_data import to_plain
from pystate.core.snapshot.storage.snapshot_location import SnapshotLocation
from pystate.ops.catalog.garbage import Orphan, OrphanKind
from pystate.runtime.rest.checkpoint_messages import CheckpointingStatistics
from pystate.runtime.rest.job_detail_messages import RootExceptionInfo
from pystate.runtime.rest.metric_messages import JobMetric
from pystate.runtime.rest.own_job_messages import JobProgress
from pystate_cli.console.json_keys import with_our_keys
from pystate_cli.sampling.job_history import JobSample
from pystate_cli.tables.table_spec import TableSpec, value_at
from pystate_cli.views.failure_list import FAILURES, FailureRow
from pystate_cli.views.job_list import JOBS
from pystate_cli.views.metric_list import METRICS, MetricRow
from pystate_cli.views.restore_fit import OPERATORS as RESTORED_OPERATORS
from pystate_cli.views.restore_fit import SOURCES as RESTORED_SOURCES
from pystate_cli.views.setting_list import SETTINGS, SettingRow
from pystate_cli.views.snapshots.checkpoint_details import OPERATORS, DetailsRow
from pystate_cli.views.snapshots.checkpoint_list import CHECKPOINTS
from pystate_cli.views.snapshots.checkpoint_summary import SUMMARY, SummaryRow
from pystate_cli.views.snapshots.orphan_list import ORPHANS
from pystate_cli.views.snapshots.savepoint_changes import CHANGES, SOURCES, ChangeRow
from pystate_cli.views.snapshots.savepoint_details import STATES, TIMERS, StateRow, TimerRow
from pystate_cli.views.snapshots.savepoint_list import SAVEPOINTS, savepoint_rows
from pystate_cli.views.watch_lines import LOOKS, look_json
from tests.cli.views.test_views import (
    HISTORY,
    NOW,
    STATISTICS,
    checkpoint_row,
    details_answer,
    job,
    read_details,
    statistics,
)
from tests.core.snapshot.snapshots import write_savepoint
from tests.fixtures.all_kinds import write_savepoint as write_windows
from tests.fixtures.windows import windows_operator
from tests.rest_messages import message


def check(spec: TableSpec[Any], pairs: Iterable[tuple[Any, Mapping[str, Any]]]) -> None:
    """Compare the value of each column with what stands in JSON."""
    checked = 0
    for row, entry in pairs:
        told = with_our_keys(entry)
        for column in spec.columns:
            if column.json is not None:
                found = value_at(told, column.json)
                value = column.value(row)
                assert (list(value) if isinstance(value, tuple) else value) == found, (column.name, column.json)
                checked += 1
    assert checked


def test_checkpoints():
    check(CHECKPOINTS, ((checkpoint_row(entry), entry) for entry in HISTORY))


def test_the_summary_of_checkpoints():
    figures = vars(statistics().summary)
    check(SUMMARY, ((SummaryRow(name, one), one.to_plain()) for name, one in figures.items()))


def test_one_checkpoint():
    answer = details_answer()
    details = read_details(answer)
    rows = [DetailsRow(details.row.status, operator) for operator in details.operators]

    check(OPERATORS, zip(rows, answer["tasks"].values(), strict=True))


def test_jobs():
    entry = job("RUNNING")
    check(JOBS, [(entry, entry.to_plain())])


def test_failures():
    ours = {"class": "PystateError", "message": "gone", "where": "here", "hint": None, "attempt": 3}
    entry = {"exceptionName": "PystateError", "stacktrace": "Trace\n gone", "timestamp": NOW, "pystate": ours}
    check(FAILURES, [(FailureRow.of(message(RootExceptionInfo, entry), "0" * 32), entry)])


@pytest.mark.parametrize(("value", "unit"), [(3, None), (1.5, "ms"), (True, "is up"), ("text", None)])
def test_metrics(value: object, unit: str | None):
    entry = {"task": "count", "operator": None, "subtask": 0, "name": "n", "unit": unit, "value": value}
    check(METRICS, [(MetricRow.of(message(JobMetric, entry)), entry)])


def test_settings():
    for row in (
        SettingRow("a.b", "1", True, "file", "/f, line 1", "2", "", ""),
        SettingRow("c", None, False, "d", "", None, "", ""),
    ):
        (told,) = SETTINGS.json([row])
        assert list(told) == ["key", "value", "default", "isSet", "origin", "place"]
        check(SETTINGS, [(row, told)])


def test_a_restore():
    side = {"name": "count", "parallelism": 2, "max-parallelism": 128, "key-type": "STRING"}
    operators = [
        {"uid": "a", "fit": "restored", "snapshot": side, "program": {**side, "parallelism": 3}},
        {"uid": "b", "fit": "new", "snapshot": None, "program": side},
        {"uid": "c", "fit": "left behind", "snapshot": side, "program": None},
    ]
    sources = [{"uid": "s", "fit": "restored", "snapshot": {"position": "at 7"}, "program": {}}]

    check(RESTORED_OPERATORS, ((one, one) for one in operators))
    check(RESTORED_SOURCES, ((one, one) for one in sources))


def test_orphans():
    orphan = Orphan(OrphanKind.UNNAMED, "file:/a", 5)
    (told,) = ORPHANS.json([orphan])

    assert told == {"kind": "UNNAMED", "bytes": 5, "path": "file:/a"}
    check(ORPHANS, [(orphan, told)])


def test_a_look_of_watch():
    known = {"state": "RUNNING", "attempt": 1, "epoch": 7, "backlog": 40, "epoch-durations": [1, 2]}
    progress = message(JobProgress, known)
    latest = {**STATISTICS["latest"], "completed": {"id": 13}}
    checkpoints = message(CheckpointingStatistics, {**STATISTICS, "latest": latest})
    look = JobSample("0" * 32, progress, checkpoints, (), (1.0,), (2.0,), (), (1, 2), 128, None)

    check(LOOKS, [(look, to_plain(look_json(look)))])


def test_savepoints(tmp_path):
    from pystate.core.snapshot.reading.inspection import inspect_operators
    from pystate.ops.catalog.difference import compare
    from pystate.ops.catalog.listing import find_snapshots
    from pystate.ops.catalog.snapshot_summary import read_snapshot
    from pystate.ops.catalog.source_difference import compare_sources
    from pystate.runtime.engines.micro_batch.spark.source_progress import source_progress

    before = write_savepoint(tmp_path, snapshot_id="aaaa11112222", message="one", minutes=1)
    after = write_savepoint(tmp_path, snapshot_id="bbbb11112222", minutes=2, parallelism=3, parent=before.uri)
    snapshots = find_snapshots([str(tmp_path)], checkpoints=False).snapshots
    check(SAVEPOINTS, zip(savepoint_rows(snapshots), (one.to_json() for one in snapshots), strict=True))

    sides, sources = [], []
    for location in (before, after):
        metadata = read_snapshot(location)
        sides.append(inspect_operators(location, metadata))
        assert metadata.source_position is not None
        with location.open(metadata.source_position.files) as archive:
            sources.append(source_progress(metadata.source_position, archive.read()))
    check(STATES, ((StateRow(one, state), state.to_json()) for one in sides[0] for state in one.states))
    timed = SnapshotLocation(write_windows(tmp_path / "timers", [windows_operator(["a", "b"], "hashmap")]))
    (operator,) = inspect_operators(timed, read_snapshot(timed), with_timers=True)
    check(TIMERS, ((TimerRow(operator, one), one.to_json()) for one in operator.timers))
    check(
        CHANGES,
        ((ChangeRow(one, state), state.to_json()) for one in compare(*sides) for state in one.states),
    )
    check(SOURCES, ((source, source.to_json()) for source in compare_sources(*sources)))


SPECS = [
    CHECKPOINTS, SUMMARY, OPERATORS, JOBS, FAILURES, METRICS, SETTINGS, RESTORED_OPERATORS, RESTORED_SOURCES, LOOKS,
    ORPHANS, SAVEPOINTS, STATES, TIMERS, CHANGES, SOURCES,
]  # fmt: skip


@pytest.mark.parametrize("spec", SPECS)
def test_every_column_is_shown_somewhere(spec: TableSpec[Any]):
    names = [column.name for column in spec.columns]

    assert len(set(names)) == len(names)
    assert all(column.heading is not None or column.plain or column.json for column in spec.columns)
    in_pipes = {column.name for column in spec.columns if column.plain is not None}
    assert not spec.plain_order or set(spec.plain_order) >= in_pipes, "a column is missing in the order of a pipe"
