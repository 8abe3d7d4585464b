"""Where a run of the tests keeps its files."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from tests.scratch import choose_temporary_folder


@pytest.fixture(autouse=True)
def own_choice(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", tempfile.tempdir)
    monkeypatch.setenv("TMPDIR", "")
    monkeypatch.delenv("TMPDIR")


def test_this_process_and_those_that_it_starts_use_the_folder(tmp_path: Path) -> None:
    folder = choose_temporary_folder(tmp_path, room=1)

    assert folder is not None and folder.parent == tmp_path
    assert tempfile.gettempdir() == os.environ["TMPDIR"] == str(folder)


def test_what_somebody_has_chosen_stays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TMPDIR", "/elsewhere")

    assert choose_temporary_folder(tmp_path, room=1) is None
    assert os.environ["TMPDIR"] == "/elsewhere"


@pytest.mark.parametrize(("name", "room"), [("nowhere", 1), ("", 1 << 62)])
def test_without_room_in_memory_files_are_where_they_always_are(tmp_path: Path, name: str, room: int) -> None:
    before = tempfile.gettempdir()

    assert choose_temporary_folder(tmp_path / name, room) is None
    assert "TMPDIR" not in os.environ
    assert tempfile.gettempdir() == before


def test_what_a_killed_run_has_left_is_removed_and_nothing_else(tmp_path: Path) -> None:
    with subprocess.Popen(["true"]) as ended:
        pass
    left = [tmp_path / f"pst-{pid}" for pid in (ended.pid, os.getpid())]
    in_use = [tmp_path / f"pst-{os.getppid()}", tmp_path / f"pystate-{ended.pid}"]
    for folder in (*left, *in_use):
        (folder / "deep").mkdir(parents=True)

    folder = choose_temporary_folder(tmp_path, room=1)

    assert folder is not None
    assert sorted(tmp_path.iterdir()) == sorted([*in_use, folder])
    assert list(folder.iterdir()) == []


def test_a_run_ends_quietly_whose_tests_have_used_a_folder_of_multiprocessing(tmp_path: Path) -> None:
    """Python removes that one at its end, and fails where it has gone with the run's own."""
    lines = ("from multiprocessing.util import get_temp_dir", "def test_one():", "    print(get_temp_dir())")
    (tmp_path / "test_one.py").write_text("\n".join(lines))
    command = [sys.executable, "-m", "pytest", "-p", "tests.conftest", "-p", "no:cacheprovider", "-qs", "-c", os.devnull]
    path = os.pathsep.join([str(Path(__file__).parents[1]), *filter(None, sys.path)])

    run = subprocess.run(
        [*command, "--rootdir", str(tmp_path), str(tmp_path)],
        env={**os.environ, "PYTHONPATH": path},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )

    assert (run.returncode, run.stderr) == (0, ""), run.stdout
    assert not Path(run.stdout.splitlines()[0].removesuffix(".")).exists()
