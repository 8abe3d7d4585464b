from __future__ import annotations

import json
import os
import threading
import time
from pathlib import Path

import pytest

from pystate.common.errors import CorruptSnapshotError
from pystate.runtime.checkpoint.stats import file as stats_file
from pystate.runtime.checkpoint.stats.file import StatisticsFile, pause_after, read_statistics
from tests.ops.jobmanager.harness import eventually
from tests.runtime.checkpoint.stats.statistics import Statistics
from tests.runtime.checkpoint.stats.tasks import COUNT, TOTAL


def now() -> int:
    return 7_000


def kept(path: Path) -> StatisticsFile:
    return StatisticsFile(path, 10, now)


def filled(path: Path, *numbers: int) -> StatisticsFile:
    file = kept(path)
    statistics = Statistics()
    statistics.tracker = file.tracker
    file.tracker.describe_tasks([COUNT, TOTAL])
    statistics.run(*numbers)
    return file


def test_a_change_is_written_and_read_again(tmp_path: Path) -> None:
    path = tmp_path / "checkpoints.json"
    assert read_statistics(path, 10, now) is None
    file = filled(path, 1, 2)

    file.changed()

    eventually(path.exists)
    found = read_statistics(path, 10, now)
    assert found is not None
    assert found.to_rest() == file.tracker.to_rest()
    file.close()
    assert list(tmp_path.iterdir()) == [path]


def test_a_file_that_was_written_before_gives_the_same_answers(tmp_path: Path) -> None:
    kept = Path(__file__).parent / "version_1"
    told = json.loads((kept / "answers.json").read_bytes())

    found = read_statistics(kept / "checkpoints.json", 4, now)

    assert found is not None
    answers = {
        "checkpoints": found.to_rest(),
        "details": [found.details(number) for number in range(1, 7)],
        "subtasks": [found.subtask_details(number, COUNT.vertex_id) for number in range(1, 7)],
    }
    for one in answers["details"]:
        for task in (one or {"tasks": {}})["tasks"].values():
            task.pop("last_subtask", None)  # which is told since
    for name, answer in answers.items():
        # as text: 0 and 0.0 and false are equal
        assert json.dumps(answer, sort_keys=True) == json.dumps(told[name], sort_keys=True)
    before = json.loads((kept / "checkpoints.json").read_bytes())["statistics"]
    for checkpoint in before["checkpoints"]:
        for task in checkpoint["tasks"]:
            task |= dict.fromkeys(("unaligned", "buffered_data"), 0 if task["acknowledged"] else [])  # what is known since
    assert found.to_plain() == before


def test_a_driver_that_takes_over_has_the_last_ones_statistics(tmp_path: Path) -> None:
    path = tmp_path / "checkpoints.json"
    Statistics().run(1, 2).trigger(3, at=2_000_000).trigger(4, at=9_000_000).write(path)
    os.utime(path, (5_000, 5_000))
    said: list[str] = []

    tracker = kept(path).recover(said.append)

    assert [one["status"] for one in tracker.to_rest()["history"]] == ["FAILED", "FAILED", "COMPLETED", "COMPLETED"]
    assert [one["failure_timestamp"] for one in tracker.to_rest()["history"][:2]] == [9_000_000, 5_000_000]
    assert "The driver process that coordinated it is gone." in tracker.to_rest()["history"][0]["failure_message"]
    assert said == []


@pytest.mark.parametrize("damage", ["cut", "bit", "version", "no json", "list", "deep"])
def test_a_damaged_file_begins_anew_with_a_notice(tmp_path: Path, damage: str) -> None:
    path = tmp_path / "checkpoints.json"
    Statistics().run(1, 2).write(path)
    data = path.read_bytes()
    path.write_bytes(
        {
            "cut": data[: len(data) // 2],
            "bit": data.replace(b'"total":2', b'"total":3'),
            "version": data.replace(b'"version":1', b'"version":2'),
            "no json": b"\xff\x00",
            "list": b"[]",
            "deep": b"[" * 100_000,
        }[damage]
    )
    assert path.read_bytes() != data
    said: list[str] = []

    file = kept(path)
    tracker = file.recover(said.append)

    assert tracker.to_rest()["counts"]["total"] == 0
    assert len(said) == 1
    assert said[0].startswith("WARNING: The statistics of the job's checkpoints can't be read: ")
    assert said[0].endswith(f" They start over. ({path})")
    with pytest.raises(CorruptSnapshotError):
        read_statistics(path, 10, now)
    file.changed()
    file.close()
    assert json.loads(path.read_bytes())["version"] == 1


def test_the_last_change_is_written_by_close_however_long_the_pause(tmp_path: Path, monkeypatch) -> None:
    path = tmp_path / "checkpoints.json"
    monkeypatch.setattr(stats_file, "pause_after", lambda _seconds, _size: 3600.0)
    file = filled(path, 1)
    file.changed()
    eventually(path.exists)
    before = path.read_bytes()
    file.tracker.report_restored(1, False, "file:/ckpt/chk-1")
    file.changed()
    time.sleep(0.05)
    assert path.read_bytes() == before, "it is not written as often as it changes"

    file.close()

    found = read_statistics(path, 10, now)
    assert found is not None
    assert found.to_rest()["counts"]["restored"] == 1
    path.unlink()
    file.changed()
    file.close()
    assert not path.exists(), "nothing is written after the end"


def test_what_is_not_worth_a_write_is_written_with_the_next_change_or_by_close(tmp_path: Path) -> None:
    path = tmp_path / "checkpoints.json"
    file = filled(path, 1)
    file.changed(soon=False)
    time.sleep(0.05)
    assert not path.exists()

    file.changed()
    eventually(path.exists)
    file.tracker.report_notified(1)
    file.changed(soon=False)
    file.close()

    found = read_statistics(path, 10, now)
    assert found is not None
    assert "notification_timestamp" in found.to_rest()["history"][0]


def test_nobody_waits_for_the_disk(tmp_path: Path, monkeypatch) -> None:
    slow = threading.Event()
    write = stats_file.write_file_atomically
    monkeypatch.setattr(stats_file, "write_file_atomically", lambda *args: (slow.wait(), write(*args)))
    file = filled(tmp_path / "checkpoints.json", 1)
    for _ in range(100):
        file.changed()
    assert not list(tmp_path.iterdir())
    slow.set()
    file.close()
    assert len(list(tmp_path.iterdir())) == 1


def test_a_disk_that_is_full_is_said_once_and_the_job_goes_on(tmp_path: Path, monkeypatch, capsys) -> None:
    path = tmp_path / "gone" / "checkpoints.json"
    monkeypatch.setattr(stats_file, "_RETRY_SECONDS", 0.0)
    file = filled(path, 1)
    tries: list[None] = []
    write = stats_file.write_file_atomically
    monkeypatch.setattr(stats_file, "write_file_atomically", lambda *args: (tries.append(None), write(*args)))
    file.changed()
    eventually(lambda: len(tries) > 2)  # nobody has to change anything for it to be tried again
    path.parent.mkdir()
    eventually(path.exists)
    file.close()
    assert capsys.readouterr().err.count("WARNING: ") == 1


def test_a_large_file_is_written_rarely() -> None:
    kilo = 1 << 10
    assert pause_after(seconds=0.2, size=64 * kilo) == 0
    assert pause_after(seconds=0.001, size=(64 + 256) * kilo) == 2
    assert pause_after(seconds=0.5, size=65 * kilo) == 10
