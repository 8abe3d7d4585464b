"""Saves are noticed, however an editor makes them."""

from __future__ import annotations

import os

import pytest

from pystate_cli.dev.file_watch import FileWatch


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def program(tmp_path):
    path = tmp_path / "job.py"
    path.write_text("1")
    return path


@pytest.fixture
def looks(program, clock):
    """Take some looks, a settling time apart; return how many of them tell of a save."""
    watch = FileWatch(program, clock)

    def looks(count: int = 4) -> int:
        told = 0
        for _ in range(count):
            clock.now += 0.06
            told += watch.saved()
        return told

    looks.watch = watch
    return looks


def test_nothing_is_told_where_nothing_is_saved(looks):
    assert looks() == 0


def test_a_file_that_is_written_in_place_is_told_once(looks, program):
    program.write_text("22")
    assert looks() == 1
    assert looks() == 0


def test_a_file_that_another_one_replaces_is_told_once(looks, program):
    before = program.stat()
    other = program.with_name("job.py~")
    other.write_text("2")
    os.utime(other, ns=(before.st_atime_ns, before.st_mtime_ns))
    other.rename(program)
    assert looks() == 1


def test_two_saves_before_it_settles_are_told_once(looks, program, clock):
    program.write_text("22")
    assert looks(1) == 0
    program.write_text("333")
    assert looks(1) == 0, "it has just changed again"
    assert looks() == 1


def test_a_program_that_is_gone_for_a_moment_is_told_when_it_is_back(looks, program):
    program.unlink()
    assert looks() == 0
    program.write_text("22")
    assert looks() == 1


def test_a_save_during_the_work_for_another_one_is_told_afterwards(looks, program):
    program.write_text("22")
    assert looks() == 1
    program.write_text("333")
    assert looks(3) == 1


def test_modules_beside_the_program_are_watched_also_new_ones(looks, program):
    module = program.with_name("rules.py")
    module.write_text("1")
    assert looks() == 1
    module.write_text("22")
    assert looks() == 1
    module.unlink()
    assert looks() == 1
    program.with_name("notes.txt").write_text("not Python")
    assert looks() == 0


def test_modules_in_packages_are_watched_once_they_are_known(looks, program):
    module = program.parent / "package" / "rules.py"
    module.parent.mkdir()
    module.write_text("1")
    assert looks() == 0
    looks.watch.watch([module])
    assert looks() == 0, "it counts as taken"
    module.write_text("22")
    assert looks() == 1
    assert module in looks.watch.files


def test_a_save_that_is_not_taken_yet_is_not_lost_by_watching_more(looks, program, tmp_path):
    program.write_text("22")
    other = tmp_path / "elsewhere"
    other.mkdir()
    looks.watch.watch([other])
    assert looks() == 1
