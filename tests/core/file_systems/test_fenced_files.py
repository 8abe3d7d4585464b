from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from pystate.core.file_systems.fenced_files import FencedFiles
from pystate.core.file_systems.places import parse_location
from tests.core.file_systems.conftest import Place


@pytest.fixture
def folder(shared_place: Place) -> tuple[Any, str]:
    fs, path, _ = parse_location(f"{shared_place.uri}/job")
    FencedFiles(fs, path, 1).make_folder()
    return fs, path


def entries(folder: tuple[Any, str]) -> list[str]:
    fs, path = folder
    try:
        return sorted(entry.rpartition("/")[2] for entry in fs.ls(path, detail=False))
    except FileNotFoundError:
        return []


def test_the_last_version_counts_and_is_the_only_one_that_stays(folder):
    files = FencedFiles(*folder, 1)
    for number in range(5):
        files.write("status.json", str(number).encode())
    files.write("secret", b"s")

    other = FencedFiles(*folder, 1)
    assert (other.read("status.json"), other.read("secret")) == (b"4", b"s")
    assert other.names() == ["secret", "status.json"]
    assert len(entries(folder)) == 2

    for number in range(5, 8):
        other.write("status.json", str(number).encode())
    assert (files.read("status.json"), other.read("status.json")) == (b"7", b"7")
    files.write("status.json", b"8")  # driver and job manager write in turn
    assert other.read("status.json") == b"8"


def test_what_is_written_with_a_lower_token_counts_for_nothing_however_late(folder):
    old, new = FencedFiles(*folder, 9), FencedFiles(*folder, 10)
    old.write("status.json", b"old")
    new.write("status.json", b"new")
    for _ in range(3):
        old.write("status.json", b"late")
    FencedFiles(*folder, 8).write("status.json", b"older")

    assert (new.read("status.json"), old.read("status.json")) == (b"new", b"new")


def test_what_is_not_there_is_told_and_deleting_it_is_no_error(folder):
    files = FencedFiles(*folder, 1)
    with pytest.raises(FileNotFoundError):
        files.read("status.json")
    files.delete("status.json")
    files.write("status.json", b"1")
    files.write("status.json.damaged", b"2")
    files.delete("status.json")
    with pytest.raises(FileNotFoundError):
        files.read("status.json")
    assert files.names() == ["status.json.damaged"]
    files.write("status.json", b"3")
    assert files.read("status.json") == b"3"

    files.delete_folder()
    files.delete_folder()
    assert (files.names(), entries(folder)) == ([], [])


def test_of_many_writers_of_one_term_none_is_lost_to_a_reader(folder):
    def write(writer: int) -> None:
        files = FencedFiles(*folder, 1)
        for number in range(5):
            files.write("term.json", f"{writer}-{number}".encode())

    seen = []
    with ThreadPoolExecutor(3) as threads:
        writers = [threads.submit(write, writer) for writer in range(3)]
        while not all(writer.done() for writer in writers):
            try:
                seen.append(FencedFiles(*folder, 1).read("term.json"))
            except FileNotFoundError:
                assert not seen, "a file that was there is gone"
    for writer in writers:
        writer.result()

    assert FencedFiles(*folder, 1).read("term.json").endswith(b"-4")
    assert len(entries(folder)) <= 3


def test_an_entry_of_somebody_else_is_left_alone(folder):
    fs, path = folder
    files = FencedFiles(fs, path, 1)
    files.write("status.json", b"1")
    fs.pipe_file(f"{path}/status.json@7-1", b"no version of ours")

    assert files.names() == ["status.json"]
    assert files.read("status.json") == b"1"
