"""Room that is kept for one file, so that it can be written on a full disk."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from pystate.common.files.job_files import Reserve, replace_file


def test_a_file_is_replaced_where_the_room_is_when_there_is_no_other(tmp_path: Path, no_new_files):
    file, reserve = tmp_path / "record.json", Reserve(tmp_path / "reserve", 100)
    reserve.replace(file, b"old", mode=0o600)
    assert reserve.path.stat().st_size == 100

    no_new_files()
    reserve.replace(file, b"the new content", mode=0o640)

    assert (file.read_bytes(), file.stat().st_mode & 0o777) == (b"the new content", 0o640)
    assert os.listdir(tmp_path) == ["record.json"]
    with pytest.raises(OSError, match="No space left"):
        reserve.replace(file, b"once more", mode=0o600)
    assert file.read_bytes() == b"the new content"


def test_what_is_larger_than_the_room_is_refused_and_the_old_content_stays(tmp_path: Path, no_new_files):
    file, reserve = tmp_path / "record.json", Reserve(tmp_path / "reserve", 4)
    reserve.replace(file, b"old", mode=0o600)

    no_new_files()
    with pytest.raises(OSError, match="No space left"):
        reserve.replace(file, b"larger than that", mode=0o600)

    assert file.read_bytes() == b"old"
    assert sorted(os.listdir(tmp_path)) == ["record.json", "reserve"]


def test_the_room_is_taken_again_as_soon_as_there_is_some(tmp_path: Path, no_new_files, monkeypatch):
    file, reserve = tmp_path / "record.json", Reserve(tmp_path / "reserve", 100)
    reserve.replace(file, b"old", mode=0o600)
    no_new_files()
    reserve.replace(file, b"new", mode=0o600)
    monkeypatch.undo()

    reserve.replace(file, b"newer", mode=0o600)

    assert reserve.path.stat().st_size == 100


def test_another_error_does_not_use_the_room_up(tmp_path: Path):
    reserve = Reserve(tmp_path / "reserve", 100)
    reserve.ensure()

    with pytest.raises(FileNotFoundError):
        reserve.replace(tmp_path / "none" / "record.json", b"new", mode=0o600)

    assert reserve.path.exists()
    replace_file(tmp_path / "other", b"x", mode=0o600)
