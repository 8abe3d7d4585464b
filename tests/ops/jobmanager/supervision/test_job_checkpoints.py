"""What drivers have left of their checkpoints: taken apart once, and again when the file is another one."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from pystate.common.errors import ControlError, CorruptSnapshotError
from pystate.ops.jobmanager.supervision import job_checkpoints
from pystate.ops.jobmanager.supervision.job_checkpoints import JobCheckpoints, StatisticsFiles
from tests.runtime.checkpoint.stats.statistics import Statistics


def now() -> int:
    return 7_000


@pytest.fixture
def opened(monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    """Collects the files that are taken apart."""
    found: list[Path] = []
    read = job_checkpoints.read_statistics

    def noted(path: Any, *rest: Any, **more: Any) -> Any:
        found.append(path)
        return read(path, *rest, **more)

    monkeypatch.setattr(job_checkpoints, "read_statistics", noted)
    return found


def test_a_file_is_taken_apart_once_and_again_when_it_has_changed(tmp_path: Path, opened: list[Path]) -> None:
    path, files = tmp_path / "checkpoints.json", StatisticsFiles(now)
    assert files.read(path, driver_is_gone=False).to_rest()["counts"]["total"] == 0
    statistics = Statistics().run(1).trigger(2)
    statistics.write(path)
    for _ in range(3):
        assert files.read(path, driver_is_gone=False).to_rest()["counts"]["in_progress"] == 1
    assert len(opened) == 2

    assert files.read(path, driver_is_gone=True).to_rest()["counts"]["in_progress"] == 0
    statistics.run(3).write(path)
    assert files.read(path, driver_is_gone=True).to_rest()["counts"]["completed"] == 2
    assert len(opened) == 4
    path.unlink()
    assert files.read(path, driver_is_gone=True).to_rest()["counts"]["total"] == 0


def test_a_damaged_file_is_told_each_time(tmp_path: Path) -> None:
    path, files = tmp_path / "checkpoints.json", StatisticsFiles(now)
    path.write_text("{")
    for _ in range(2):
        with pytest.raises(CorruptSnapshotError):
            files.read(path, driver_is_gone=True)


def test_the_last_files_that_were_asked_for_are_kept(
    tmp_path: Path, opened: list[Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(job_checkpoints, "_KEPT_FILES", 2)
    files, paths = StatisticsFiles(now), [tmp_path / name for name in "abc"]
    for path in (*paths[:2], paths[0], paths[2], paths[0]):
        if not path.exists():
            Statistics().run(1).write(path)
        files.read(path, driver_is_gone=True)
    assert opened == paths
    files.read(paths[1], driver_is_gone=True)
    assert opened == [*paths, paths[1]]


@pytest.mark.parametrize("limit", [None, 1, 2, 9])
@pytest.mark.parametrize("before", [None, 1, 3, 9])
@pytest.mark.parametrize("driver", ["none", "of today", "of an earlier version"])
def test_a_part_of_the_history_is_asked_for(tmp_path: Path, limit: int | None, before: int | None, driver: str) -> None:
    path = tmp_path / "checkpoints.json"
    tracker = Statistics().run(1, 2, 3, 4).write(path).tracker

    def call(_op: str, **wanted: Any) -> Any:
        if driver == "none":
            raise ControlError("gone")
        return tracker.to_rest(**wanted) if driver == "of today" else tracker.to_rest()

    gateway: Any = SimpleNamespace(has_no_driver=False, silence=None, call=call)
    directory: Any = SimpleNamespace(checkpoints=path)

    found = JobCheckpoints("a" * 32, directory, gateway, StatisticsFiles(now)).overview(limit, before)

    whole = tracker.to_rest()
    listed = [one for one in whole["history"] if before is None or one["id"] < before][:limit]
    assert found == {**whole, "history": listed}


def test_a_driver_that_is_known_to_be_silent_is_not_waited_for_as_long_as_another(tmp_path: Path) -> None:
    path, asked = tmp_path / "checkpoints.json", []
    Statistics().run(1).write(path)

    def call(op: str, *, timeout: float | None = None, **_: Any) -> Any:
        asked.append(timeout)
        message = "no answer"
        raise ControlError(message)

    gateway: Any = SimpleNamespace(has_no_driver=False, silence=object(), call=call)
    directory: Any = SimpleNamespace(checkpoints=path)
    found = JobCheckpoints("a" * 32, directory, gateway, StatisticsFiles(now)).overview()
    assert found["counts"]["completed"] == 1
    gateway.silence = None
    JobCheckpoints("a" * 32, directory, gateway, StatisticsFiles(now)).overview()
    assert asked[0] is not None and asked[0] < 5
    assert asked[1] is None
