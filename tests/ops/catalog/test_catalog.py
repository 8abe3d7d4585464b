"""Finding snapshots: lists, ids, the tree of versions."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from pystate.common.errors import RestoreError, SnapshotError, UsageError
from pystate.core.file_systems.file_stores import LocalStore
from pystate.core.snapshot.storage.snapshot_location import SnapshotLocation, snapshot_id_of
from pystate.ops.catalog.listing import find_snapshots
from pystate.ops.catalog.snapshot_lookup import locate, may_be_id
from pystate.ops.catalog.snapshot_summary import SnapshotSummary, read_snapshot
from pystate.ops.catalog.tree import JobNode, Node, SnapshotNode, version_forest
from tests.core.snapshot.snapshots import V0, V1, write_checkpoint, write_savepoint


def ids(directory: Path | str, *, checkpoints: bool = False) -> list[str | None]:
    return [one.snapshot_id for one in find_snapshots([str(directory)], checkpoints=checkpoints).snapshots]


def test_savepoints_are_listed_the_newest_first_wherever_they_stand_below(tmp_path: Path) -> None:
    write_savepoint(tmp_path, snapshot_id="a" * 12, minutes=1)
    write_savepoint(tmp_path / "nightly" / "november", snapshot_id="b" * 12, minutes=3)
    write_savepoint(tmp_path, snapshot_id="c" * 12, minutes=2)
    write_checkpoint(tmp_path, 7, minutes=9)

    assert ids(tmp_path) == ["b" * 12, "c" * 12, "a" * 12]
    assert ids(tmp_path, checkpoints=True) == ["83f146-chk-7", "b" * 12, "c" * 12, "a" * 12]
    assert ids(tmp_path / "nightly" / "november" / f"savepoint-83f146-{'b' * 12}") == ["b" * 12]


def test_a_list_reads_nothing_but_metadata(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_savepoint(tmp_path)
    opened = []
    original = LocalStore.open
    monkeypatch.setattr(LocalStore, "open", lambda store, path: opened.append(path) or original(store, path))

    find_snapshots([str(tmp_path)], checkpoints=True)

    assert [os.path.basename(path) for path in opened] == ["_metadata"]


def test_what_a_snapshot_says_of_itself(tmp_path: Path) -> None:
    location = write_savepoint(tmp_path, message="before the upgrade", parent="file:/a/savepoint-83f146-0000000000aa")

    (one,) = find_snapshots([str(tmp_path)], checkpoints=False).snapshots

    assert one.to_json() == {
        "id": "0123456789ab",
        "kind": "savepoint",
        "path": location.uri,
        "timestamp": 1_795_176_000_000,
        "job-id": V0,
        "job-name": "word count",
        "checkpoint-id": 3,
        "epoch": 7,
        "parent-id": "0000000000aa",
        "parent-path": "file:/a/savepoint-83f146-0000000000aa",
        "size": read_snapshot(location).state_size,
        "format": "CANONICAL",
        "parallelism": 2,
        "max-parallelism": 16,
        "message": "before the upgrade",
        "code-fingerprint": "c0de" * 16,
        "operators": ["count"],
    }


def test_damaged_ones_are_listed_as_such_beside_the_others(tmp_path: Path) -> None:
    write_savepoint(tmp_path, snapshot_id="a" * 12)
    broken = write_savepoint(tmp_path, snapshot_id="b" * 12)
    metadata = Path(broken.uri.removeprefix("file:")) / "_metadata"
    metadata.write_bytes(metadata.read_bytes()[:-1])
    (tmp_path / f"savepoint-83f146-{'c' * 12}").mkdir()
    (tmp_path / V1 / "chk-4").mkdir(parents=True)  # a checkpoint that is being written

    catalog = find_snapshots([str(tmp_path), str(tmp_path)], checkpoints=True)

    assert [one.snapshot_id for one in catalog.snapshots] == ["a" * 12]
    assert [(one.uri[-3:], one.problem.split(":")[0]) for one in catalog.damaged] == [
        ("bbb", "The metadata file is damaged"),
        ("ccc", "it has no _metadata"),
    ]


def test_a_moved_and_renamed_savepoint_keeps_its_id(tmp_path: Path) -> None:
    location = write_savepoint(tmp_path)
    shutil.move(location.uri.removeprefix("file:"), tmp_path / "before the upgrade")

    assert ids(tmp_path) == ["0123456789ab"]
    assert locate("0123", [str(tmp_path)]).uri == f"file:{tmp_path}/before the upgrade"


def test_any_filesystem_will_do() -> None:
    write_savepoint("memory://catalog/here", snapshot_id="a" * 12)

    assert ids("memory://catalog") == ["a" * 12]
    assert locate("aaaa", ["memory://catalog"]).uri == f"memory://catalog/here/savepoint-83f146-{'a' * 12}"


def test_a_directory_that_is_not_there_is_said_so(tmp_path: Path) -> None:
    with pytest.raises(SnapshotError, match="There is no directory"):
        find_snapshots([str(tmp_path / "none")], checkpoints=False)


def test_links_that_lead_in_circles_end(tmp_path: Path) -> None:
    write_savepoint(tmp_path / "a")
    (tmp_path / "a" / "again").symlink_to(tmp_path)

    assert set(ids(tmp_path)) == {"0123456789ab"}


@pytest.mark.parametrize("text", ["aaaa", "aaaa1", "AAAA1", "aaaa11112222", "savepoint-83f146-aaaa11112222"])
def test_an_id_or_its_first_digits_mean_a_savepoint(tmp_path: Path, text: str) -> None:
    location = write_savepoint(tmp_path, snapshot_id="aaaa11112222")
    write_savepoint(tmp_path, snapshot_id="aabb11112222")

    assert locate(text, [str(tmp_path), str(tmp_path / "none")]) == location


def test_a_checkpoint_is_meant_by_its_whole_id(tmp_path: Path) -> None:
    location = write_checkpoint(tmp_path, 7)
    write_checkpoint(tmp_path, 71)

    assert locate("83f146-chk-7", [str(tmp_path)]) == location


def test_an_ambiguous_id_names_all_it_may_mean(tmp_path: Path) -> None:
    for last in "12":
        write_savepoint(tmp_path, snapshot_id=f"aaaa1111222{last}")

    with pytest.raises(UsageError, match='"aaaa" may mean any of 2 snapshots:\n  file:.*2221\n  file:.*2222') as error:
        locate("aaaa", [str(tmp_path)])
    assert error.value.hint == "give more digits of the id, or the path"


def test_an_unknown_id_is_neither_a_file_nor_a_snapshot(tmp_path: Path) -> None:
    with pytest.raises(RestoreError, match='There is no file "aaaa", and no snapshot whose id begins so'):
        locate("aaaa", [str(tmp_path)])


def test_incomplete_snapshots_are_never_meant(tmp_path: Path) -> None:
    (tmp_path / "savepoint-83f146-aaaa11112222").mkdir()

    with pytest.raises(RestoreError):
        locate("aaaa", [str(tmp_path)])


def test_what_stands_here_as_a_file_is_no_id(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert may_be_id("beef")
    (tmp_path / "beef").mkdir()
    assert not may_be_id("beef")
    assert not any(map(may_be_id, ["abc", "xyz1", "./beef", "/tmp/beef", "s3://b/beef", "savepoint-1", ""]))


def test_ids_of_directories() -> None:
    assert snapshot_id_of("s3://b/savepoint-83f146-aaaa11112222/", V0) == "aaaa11112222"
    assert snapshot_id_of(f"file:/c/{V1}/chk-12", V1) == "6077eb-chk-12"
    assert snapshot_id_of("file:/c/before the upgrade", V1) is None


# -- the tree


def told(node: Node) -> object:
    if isinstance(node, SnapshotNode):
        return {node.snapshot_id: [told(job) for job in node.jobs]} if node.jobs else node.snapshot_id
    return {node.job_id[:2] + {None: "", True: " new", False: " same"}[node.new_code]: [told(one) for one in node.snapshots]}


def forest(directory: Path) -> list[object]:
    return [told(node) for node in version_forest(find_snapshots([str(directory)], checkpoints=True).snapshots)]


def history(directory: Path) -> SnapshotLocation:
    """v0 runs, savepoints a and b; v1 starts from a with new code; then c from v0, d from v1."""
    parent = write_savepoint(directory, snapshot_id="a" * 12, minutes=1, checkpoint_id=1)
    write_savepoint(directory, snapshot_id="b" * 12, minutes=2, checkpoint_id=2)
    write_savepoint(directory, snapshot_id="c" * 12, minutes=3, checkpoint_id=3)
    write_savepoint(
        directory,
        snapshot_id="d" * 12,
        job_id=V1,
        minutes=4,
        checkpoint_id=2,
        code="feed" * 16,
        parent=parent.uri,
        parent_id="a" * 12,
    )
    return parent


def test_jobs_and_snapshots_grow_out_of_each_other(tmp_path: Path) -> None:
    history(tmp_path)

    assert forest(tmp_path) == [{"83": [{"a" * 12: [{"60 new": ["d" * 12]}]}, "b" * 12, "c" * 12]}]


def test_a_parent_that_was_moved_is_found_by_its_id(tmp_path: Path) -> None:
    parent = history(tmp_path / "old")
    (tmp_path / "new").mkdir()
    shutil.move(parent.uri.removeprefix("file:"), tmp_path / "new" / "kept")

    assert forest(tmp_path) == [{"83": [{"a" * 12: [{"60 new": ["d" * 12]}]}, "b" * 12, "c" * 12]}]


def test_a_parent_that_is_gone_stands_for_its_children(tmp_path: Path) -> None:
    parent = history(tmp_path)
    parent.discard()

    assert forest(tmp_path) == [{"83": ["b" * 12, "c" * 12]}, {"a" * 12: [{"60": ["d" * 12]}]}]


def test_snapshots_of_older_versions_are_linked_by_path(tmp_path: Path) -> None:
    parent = write_savepoint(tmp_path, snapshot_id="a" * 12, code=None)
    write_savepoint(tmp_path, snapshot_id="b" * 12, job_id=V1, minutes=1, parent=parent.uri)

    assert forest(tmp_path) == [{"83": [{"a" * 12: [{"60": ["b" * 12]}]}]}]


def test_a_job_that_was_started_from_a_checkpoint(tmp_path: Path) -> None:
    parent = write_checkpoint(tmp_path / "checkpoints", 7)
    write_savepoint(tmp_path, snapshot_id="b" * 12, job_id=V1, minutes=1, parent=parent.uri)

    assert forest(tmp_path) == [{"83": [{"83f146-chk-7": [{"60 same": ["b" * 12]}]}]}]


def test_forged_circles_end(tmp_path: Path) -> None:
    write_savepoint(tmp_path, snapshot_id="a" * 12, parent="x", parent_id="b" * 12)
    write_savepoint(tmp_path, snapshot_id="b" * 12, job_id=V1, minutes=1, parent="y", parent_id="a" * 12)
    write_savepoint(tmp_path, snapshot_id="c" * 12, job_id="1" * 32, minutes=2, parent="z", parent_id="c" * 12)

    found = version_forest(find_snapshots([str(tmp_path)], checkpoints=True).snapshots)

    assert sorted(jobs_in(found)) == ["1" * 32, V1, V0]


def jobs_in(nodes: list[Node]) -> list[str]:
    found = []
    for node in nodes:
        if isinstance(node, JobNode):
            found += [node.job_id, *jobs_in([*node.snapshots])]
        else:
            found += jobs_in([*node.jobs])
    return found


def test_a_summary_survives_a_parent_of_any_text(tmp_path: Path) -> None:
    for number, parent in enumerate(("", "/", "x", "a/b", "jobmanager:x/chk-3")):
        location = write_savepoint(tmp_path / str(number), parent=parent)
        assert SnapshotSummary.of(read_snapshot(location), location.uri).parent == parent


def test_a_folder_whose_name_steers_a_terminal_hides_nothing_else(tmp_path: Path) -> None:
    location = write_savepoint(tmp_path)
    write_savepoint(tmp_path / "safe", snapshot_id="b" * 12)
    shutil.move(tmp_path / "safe", tmp_path / "odd\x1b[2J\nname")

    found = find_snapshots([str(tmp_path)], checkpoints=True)

    assert [one.uri for one in found.snapshots] == [location.uri]
    (damaged,) = found.damaged
    assert "odd\\x1b[2J\\nname" in damaged.uri
    assert "control character" in damaged.problem
    assert locate("0123", [str(tmp_path)]) == location
