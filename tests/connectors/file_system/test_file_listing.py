from __future__ import annotations

import os
from dataclasses import replace

import fsspec
import pytest

from pystate.common.errors import ExternalSystemError, JobGraphError
from pystate.connectors.file_system import file_listing
from pystate.connectors.file_system.file_listing import canonical_uri, found_files, uri_of_spark


@pytest.fixture
def tree(tmp_path):
    for at, name in enumerate(
        ["b/2.txt", "a/1.txt", "b/x.csv", "b/_no.txt", "b/.no", "b/n._COPYING_", "b/_a=1", "b/deep/3.txt"]
    ):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(name)
        os.utime(path, (1000 + at, 1000 + at))
    return tmp_path


def names(tree, *paths):
    root = canonical_uri(f"file:{tree}/")
    found = found_files(tuple(f"{tree}/{path}" if path else str(tree) for path in paths))
    assert all(file.uri.startswith(root) for file in found)
    return [file.uri.removeprefix(root) for file in found]


@pytest.mark.parametrize(
    ("paths", "found"),
    [
        ([""], ["b/2.txt", "a/1.txt", "b/x.csv", "b/deep/3.txt"]),
        (["b"], ["b/2.txt", "b/x.csv", "b/deep/3.txt"]),
        (["b/"], ["b/2.txt", "b/x.csv", "b/deep/3.txt"]),
        (["b/2.txt", "b", "a"], ["b/2.txt", "a/1.txt", "b/x.csv", "b/deep/3.txt"]),
        (["*/*.txt"], ["b/2.txt", "a/1.txt"]),
        (["*"], ["b/2.txt", "a/1.txt", "b/x.csv", "b/deep/3.txt"]),
        (["{a,b}/[0-9].txt"], ["b/2.txt", "a/1.txt"]),
        (["{a/1,b/2}.{txt,csv}"], ["b/2.txt", "a/1.txt"]),
        (["b/[^2x].*"], []),
        (["b/?.csv"], ["b/x.csv"]),
        (["b/\\x.csv"], ["b/x.csv"]),
        (["b/\\?.csv"], []),
        (["?/deep"], ["b/deep/3.txt"]),
        (["nothing/*"], []),
        (["b/.no"], ["b/.no"]),
        (["b/_no.txt", "b/_*"], ["b/_no.txt", "b/_a=1"]),
    ],
)
def test_what_paths_and_patterns_name(tree, paths, found):
    assert names(tree, *paths) == found


def test_a_path_that_leads_nowhere_is_refused(tree):
    with pytest.raises(ExternalSystemError, match="Path does not exist"):
        names(tree, "gone")


def test_a_folder_that_stands_for_a_value_of_a_column_is_refused(tree):
    (tree / "a" / "day=1").mkdir()
    with pytest.raises(JobGraphError, match=r"a/day=1 stands for values of the column 'day'"):
        found_files((str(tree),), columns=("n", "day"))
    assert names(tree, "a") == ["a/1.txt"]


def test_a_path_that_is_there_as_it_is_written_is_no_pattern(tree):
    (tree / "[b]").mkdir()
    (tree / "[b]" / "q").write_text("q")
    assert names(tree, "[b]") == ["[b]/q"]


def test_files_that_are_known_are_left_out_without_a_look_at_them(tree, monkeypatch):
    known = {file.uri for file in found_files((str(tree),))}
    (tree / "new").write_text("new")
    monkeypatch.setattr(file_listing, "_on_disk", count_looks(file_listing._on_disk, looks := []))
    assert [file.uri.rsplit("/", 1)[-1] for file in found_files((str(tree),), known)] == ["new"]
    assert looks == ["new"]


def count_looks(on_disk, looks):
    def listed(path):
        def counted(child):
            return replace(child, modified_ms=lambda: looks.append(child.name) or child.modified_ms())

        return [counted(child) for child in on_disk(path)]

    return listed


def test_links_in_a_circle_end(tree):
    (tree / "a" / "to-b").symlink_to("../b")
    (tree / "b" / "to-a").symlink_to("../a")
    (tree / "b" / "deep" / "to-root").symlink_to(tree)
    assert "b/to-a/1.txt" in names(tree, "")


@pytest.mark.parametrize("pattern", ["{a", "[a"])
def test_an_open_pattern_is_refused(tree, pattern):
    with pytest.raises(JobGraphError, match="isn't closed"):
        names(tree, pattern)


def test_files_come_in_the_order_they_were_written(tree):
    os.utime(tree / "b" / "2.txt", (5000, 5000))
    assert names(tree, "b", "a") == ["a/1.txt", "b/x.csv", "b/deep/3.txt", "b/2.txt"]


def test_other_file_systems_are_listed_too():
    fs = fsspec.filesystem("memory")
    fs.pipe("/listed/a.txt", b"a")
    fs.pipe("/listed/b/c.txt", b"c")
    try:
        for paths in (("memory://listed",), ("memory://listed/*.txt", "memory://listed/*/c.*")):
            assert [file.uri for file in found_files(paths)] == ["memory://listed/a.txt", "memory://listed/b/c.txt"]
    finally:
        fs.rm("/listed", recursive=True)


@pytest.mark.parametrize(
    ("spark", "ours"),
    [
        ("file:///tmp/a%20b%2520%C3%A4.txt", "file:/tmp/a b%20ä.txt"),
        ("s3a://bucket/x", "s3://bucket/x"),
        ("hdfs://host:8020/x", "hdfs://host:8020/x"),
    ],
)
def test_one_name_for_what_spark_calls_otherwise(spark, ours):
    assert uri_of_spark(spark) == ours
