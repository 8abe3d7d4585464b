"""Who may delete a savepoint, and how that is asked for by REST."""

from __future__ import annotations

import os
import shutil
import socket
import stat
import subprocess
import sys
import threading
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from pystate.common.errors import PystateError, SnapshotError
from pystate.common.files.home import PystateHome, write_json
from pystate.core.snapshot.handles.handles import FileStateHandle
from pystate.core.snapshot.storage.ownership import NoteKind, Notes, claimant
from pystate.core.snapshot.storage.snapshot_location import SnapshotLocation, resolve_snapshot
from pystate.ops.catalog.listing import find_snapshots
from pystate.ops.jobmanager.disposal.savepoint_disposal import SavepointDisposals, dispose
from pystate.ops.jobmanager.disposal.snapshot_owners import SnapshotInUseError, check_unused
from pystate.ops.jobmanager.disposal.storage_threads import StorageThreads
from pystate.runtime.job_folder.job_liveness import job_runs
from tests.core.snapshot.snapshots import V0, write_checkpoint, write_incremental, write_savepoint
from tests.ops.jobmanager.harness import Manager, eventually
from tests.runtime.checkpoint.stats.statistics import Statistics
from tests.waiting import LONGEST_S


class Clock:
    """Seconds that pass when a test says so."""

    now = 0.0

    def __call__(self) -> float:
        return self.now


def folder(location: SnapshotLocation) -> Path:
    return Path(location.uri.removeprefix("file:"))


def disposed(manager: Manager, path: str, prefix: str = "") -> dict[str, Any]:
    status, answer = manager.request("POST", f"{prefix}/savepoint-disposal", {"savepoint-path": path})
    assert (status, list(answer)) == (200, ["request-id"])

    def completed() -> Any:
        result = manager.request("GET", f"{prefix}/savepoint-disposal/{answer['request-id']}")[1]
        assert result["status"]["id"] in ("IN_PROGRESS", "COMPLETED")
        return result if result["status"]["id"] == "COMPLETED" else None

    return dict(eventually(completed)["operation"])


@pytest.mark.parametrize("prefix", ["", "/v1"])
def test_a_savepoint_is_disposed_in_flinks_shapes(manager: Manager, tmp_path: Path, prefix: str) -> None:
    location, other = write_savepoint(tmp_path / "sp"), write_savepoint(tmp_path / "sp", snapshot_id="b" * 12)

    assert disposed(manager, location.uri, prefix) == {}
    assert not folder(location).exists()
    assert (folder(other) / "_metadata").exists()


@pytest.mark.parametrize("make", ["missing", "no metadata", "a file", "another name", "a folder above"])
def test_what_is_no_snapshot_is_not_deleted(manager: Manager, tmp_path: Path, make: str) -> None:
    location = write_savepoint(tmp_path / "sp")
    path = folder(location)
    if make == "missing":
        path = tmp_path / "sp" / "savepoint-83f146-bbbbbbbbbbbb"
    elif make == "no metadata":
        (path / "_metadata").unlink()
    elif make == "a file":
        path = next(path.glob("count-0-keyed*"))
    elif make == "another name":
        path = path.rename(tmp_path / "sp" / "mine")
    else:
        path = tmp_path / "sp"
    before = sorted(tmp_path.rglob("*"))

    cause = disposed(manager, str(path))["failure-cause"]

    assert cause["pystate"]["class"] in ("NoSnapshotError", "RestoreError", "SnapshotError", "StorageError")
    assert sorted(tmp_path.rglob("*")) == before


@pytest.mark.parametrize("body", [{}, {"savepoint-path": ""}, {"savepoint-path": 7}, {"savepoint-path": "a/relative/path"}])
def test_wrong_requests_are_refused_at_once(manager: Manager, body: dict[str, Any]) -> None:
    assert manager.request("POST", "/savepoint-disposal", body)[0] == 400


def test_an_unknown_disposal_is_not_found(manager: Manager) -> None:
    assert manager.request("GET", f"/savepoint-disposal/{'0' * 32}")[0] == 404
    assert manager.request("GET", "/savepoint-disposal/none")[0] == 400


def started(manager: Manager, path: object, *words: str, **changes: Any) -> str:
    job = manager.submit(*words, **({"savepoint_path": str(path)} if path is not None else {}), **changes)
    manager.wait_for(job, "RUNNING")
    return job


@pytest.mark.parametrize("spelling", ["{path}", "{path}/", "file://{path}", "{path}/_metadata", "{link}"])
def test_a_savepoint_stays_while_a_running_job_can_only_go_back_to_it(
    manager: Manager, tmp_path: Path, spelling: str
) -> None:
    location = write_savepoint(tmp_path / "sp")
    (tmp_path / "link").symlink_to(folder(location))
    job = started(manager, spelling.format(path=folder(location), link=tmp_path / "link"))

    cause = disposed(manager, location.uri)["failure-cause"]

    assert cause["class"] == "SnapshotInUseError"
    assert (
        cause["pystate"]["message"] == f"Job {job} was started from it, has not ended, and has no checkpoint of its own yet."
    )
    assert folder(location).exists()


def test_a_savepoint_that_the_configuration_names_counts_too(manager: Manager, tmp_path: Path) -> None:
    location = write_savepoint(tmp_path / "sp")
    relative = os.path.relpath(folder(location), manager.job_file.parent)
    started(manager, None, configuration={"execution.state-recovery.path": relative})

    assert disposed(manager, location.uri)["failure-cause"]["class"] == "SnapshotInUseError"


def test_a_job_that_has_ended_needs_nothing(manager: Manager, tmp_path: Path) -> None:
    location = write_savepoint(tmp_path / "sp")
    job = manager.submit("--finish", "0", savepoint_path=location.uri)
    manager.wait_for(job, "FINISHED")

    assert disposed(manager, location.uri) == {}


def test_a_job_with_a_checkpoint_of_its_own_needs_its_savepoint_no_more(manager: Manager, tmp_path: Path) -> None:
    location = write_savepoint(tmp_path / "sp")
    job = started(manager, location.uri)
    statistics = manager.home.job(job).checkpoints
    for kept in (
        Statistics().run(1, savepoint=True),
        Statistics(folder="jobmanager:x").trigger(1),
        Statistics().trigger(1),
    ):
        kept.write(statistics)
        assert "failure-cause" in disposed(manager, location.uri)

    Statistics().run(1).write(statistics)
    assert disposed(manager, location.uri) == {}


def test_checkpoints_in_a_drivers_memory_are_nothing_to_rely_on(home: PystateHome, tmp_path: Path) -> None:
    location = write_savepoint(tmp_path / "sp")
    job = embedded(home, os.getpid())
    statistics = Statistics()
    statistics.tracker.report_restored(3, True, location.uri)
    statistics.trigger(1)
    statistics._pending[1].location = SimpleNamespace(uri="jobmanager:/checkpoints/chk-1")
    statistics.complete(1)
    statistics.write(home.job(job).checkpoints)

    with pytest.raises(SnapshotInUseError):
        check_unused(home, location)


def test_a_running_jobs_own_checkpoint_is_the_jobs_to_delete(manager: Manager, tmp_path: Path) -> None:
    job = started(manager, None)
    location = write_checkpoint(tmp_path / "ck", 7, job_id=job)

    cause = disposed(manager, location.uri)["failure-cause"]["pystate"]
    assert cause["message"].startswith(f"It is a checkpoint of job {job}, which has not ended")
    manager.request("PATCH", f"/jobs/{job}")
    manager.wait_for(job, "CANCELED")
    assert disposed(manager, location.uri) == {}


def test_what_a_running_jobs_latest_checkpoint_refers_to_stays(manager: Manager, tmp_path: Path) -> None:
    job = started(manager, None)
    location = write_savepoint(tmp_path / "sp")
    shared = next(folder(location).glob("count-0-keyed-*"))
    checkpoint = write_incremental(tmp_path / "ck", shared, snapshot_id="b" * 12)
    statistics = Statistics().trigger(1)
    statistics._pending[1].location = checkpoint
    statistics.complete(1).write(manager.home.job(job).checkpoints)

    cause = disposed(manager, location.uri)["failure-cause"]["pystate"]

    assert cause["message"] == f"The latest checkpoint of job {job}, which has not ended, refers to files in it."


@pytest.mark.parametrize("content", [b"", b"x", b"PYSTMETA" * 9])
def test_what_only_has_the_names_of_a_snapshot_is_not_deleted(manager: Manager, tmp_path: Path, content: bytes) -> None:
    location = write_savepoint(tmp_path / "sp")
    (folder(location) / "_metadata").write_bytes(content)
    before = sorted(tmp_path.rglob("*"))

    cause = disposed(manager, location.uri)["failure-cause"]["pystate"]

    assert "only snapshots whose _metadata can be read are deleted" in cause["hint"]
    assert sorted(tmp_path.rglob("*")) == before


# -- what stands under a name


def test_a_link_that_is_called_like_a_snapshot_deletes_nothing_elsewhere(manager: Manager, tmp_path: Path) -> None:
    theirs = write_savepoint(tmp_path / "theirs")
    named = tmp_path / "mine" / "chk-1"
    named.parent.mkdir()
    named.symlink_to(folder(theirs))
    before = sorted(tmp_path.rglob("*"))

    for path in (str(named), f"{named}/", f"{named}/_metadata", f"file://{named}"):
        cause = disposed(manager, path)["failure-cause"]["pystate"]
        assert "chk-1 is a link, not a folder" in cause["message"]
    assert sorted(tmp_path.rglob("*")) == before


def test_hard_links_to_files_of_a_disposed_savepoint_stay_whole(manager: Manager, tmp_path: Path) -> None:
    """A copy made with `cp -al`, and who reads a file at this moment, lose nothing."""
    location = write_savepoint(tmp_path / "sp")
    copy = tmp_path / "copy" / folder(location).name
    shutil.copytree(folder(location), copy, copy_function=os.link)
    content = {path.name: path.read_bytes() for path in copy.iterdir()}
    with (folder(location) / "_metadata").open("rb") as being_read:
        assert disposed(manager, location.uri) == {}
        assert being_read.read() == content["_metadata"]
    assert not folder(location).exists()
    assert {path.name: path.read_bytes() for path in copy.iterdir()} == content


def test_a_link_above_a_snapshot_is_a_way_to_it(manager: Manager, tmp_path: Path) -> None:
    location = write_savepoint(tmp_path / "disk" / "sp")
    (tmp_path / "data").symlink_to(tmp_path / "disk")

    assert disposed(manager, f"{tmp_path}/data/sp/{folder(location).name}") == {}
    assert not folder(location).exists()


def put(what: str, place: Path) -> socket.socket | None:
    """Put something that is no regular file at a place; a socket must be kept."""
    place.unlink(missing_ok=True)
    if what == "pipe":
        os.mkfifo(place)
    elif what == "link":
        victim = place.parent.parent / "victim"
        victim.write_text("precious")
        place.symlink_to(victim)
    elif what == "socket":
        listening = socket.socket(socket.AF_UNIX)
        parent = os.open(place.parent, os.O_RDONLY)  # the path may be too long for a socket
        listening.bind(f"/proc/self/fd/{parent}/{place.name}")
        os.close(parent)
        return listening
    elif what == "device":
        os.mknod(place, stat.S_IFCHR | 0o600, os.makedev(1, 3))
    else:
        place.mkdir()
    return None


ODD = [
    "pipe",
    "link",
    "socket",
    "folder",
    pytest.param("device", marks=pytest.mark.skipif(os.geteuid() != 0, reason="only root makes devices")),
]


@pytest.mark.parametrize("what", ODD)
@pytest.mark.parametrize("name", ["_metadata", "notes"])
def test_what_has_more_in_it_than_files_is_no_snapshot(manager: Manager, tmp_path: Path, what: str, name: str) -> None:
    location = write_savepoint(tmp_path / "sp")
    held = put(what, folder(location) / name)
    before = sorted(tmp_path.rglob("*"))

    cause = disposed(manager, location.uri)["failure-cause"]["pystate"]

    assert cause["class"] in ("NoSnapshotError", "RestoreError", "SnapshotError", "StorageError")
    assert sorted(tmp_path.rglob("*")) == before
    if held is not None:
        held.close()


def test_pipes_hang_nobody(manager: Manager, tmp_path: Path) -> None:
    for number in range(8):  # more than there are threads
        pipe = tmp_path / f"chk-{number}"
        pipe.mkdir()
        os.mkfifo(pipe / "_metadata")
        os.mkfifo(tmp_path / f"savepoint-000000-{number:012x}")
    for path in sorted(tmp_path.glob("*-*")):
        assert "failure-cause" in disposed(manager, str(path))
    location = write_savepoint(tmp_path / "sp")
    assert disposed(manager, location.uri) == {}


@pytest.mark.parametrize("name", ["claim-" + "a" * 32 + "-00112233", "use-" + "a" * 32 + "-00112233"])
def test_pipes_that_are_called_like_notes_hang_nobody(home: PystateHome, tmp_path: Path, name: str) -> None:
    location = write_savepoint(tmp_path / "sp")
    os.mkfifo(folder(location) / name)

    with pytest.raises(SnapshotError, match="is a pipe"):
        dispose(home, location)
    with pytest.raises(PystateError):
        claimant(location) or next(iter(Notes(location, NoteKind.USE).read()))


@pytest.mark.parametrize("what", ["pipe", "socket", "folder"])
def test_who_reads_snapshots_opens_files_only(tmp_path: Path, what: str) -> None:
    location = write_savepoint(tmp_path / "sp")
    held = put(what, folder(location) / "_metadata")

    with pytest.raises(SnapshotError):
        resolve_snapshot(location.uri)
    with pytest.raises(SnapshotError):
        location.read_metadata()
    found = find_snapshots([str(tmp_path / "sp")], checkpoints=True)
    assert found.snapshots == []
    if held is not None:
        held.close()


def test_state_files_that_are_pipes_hang_no_reader(tmp_path: Path) -> None:
    location = write_savepoint(tmp_path / "sp")
    file = next(folder(location).glob("count-0-keyed*"))
    put("pipe", file)

    with pytest.raises(SnapshotError, match="is a pipe, not a regular file"):
        location.open(FileStateHandle(file.name, 5, 0))


def test_a_folder_that_is_swapped_for_a_link_meanwhile_is_not_followed(
    home: PystateHome, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    mine, theirs = write_savepoint(tmp_path / "mine"), write_savepoint(tmp_path / "theirs")

    def swap(*_: object) -> None:
        folder(mine).rename(tmp_path / "aside")
        folder(mine).symlink_to(folder(theirs))

    monkeypatch.setattr("pystate.ops.jobmanager.disposal.savepoint_disposal.check_unused", swap)
    with pytest.raises(SnapshotError, match="Cannot delete"):
        dispose(home, mine)

    assert (folder(theirs) / "_metadata").exists()
    assert list((tmp_path / "aside").iterdir()) == []  # what was looked at is what was deleted


@pytest.mark.parametrize("scheme", ["http", "https", "ftp"])
def test_nobody_makes_us_connect(manager: Manager, scheme: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        listening.settimeout(0)
        place = f"{scheme}://127.0.0.1:{listening.getsockname()[1]}/chk-1"
        status, _ = manager.request("POST", "/savepoint-disposal", {"savepoint-path": place})
        assert status == 400
        with pytest.raises(SnapshotError):
            resolve_snapshot(place)
        with pytest.raises(BlockingIOError):
            listening.accept()


def test_a_storage_that_hangs_takes_no_thread_for_good(home: PystateHome, tmp_path: Path) -> None:
    hangs, clock = threading.Event(), Clock()

    def delete(_: PystateHome, location: SnapshotLocation) -> None:
        if folder(location).parent.name == "hangs":
            hangs.wait()

    threads = StorageThreads("test", 2, 60, most_hanging=3, clock=clock)
    disposals = SavepointDisposals(home, delete, threads)
    slow = [disposals.trigger(write_savepoint(tmp_path / str(number) / "hangs").uri) for number in range(2)]
    eventually(lambda: threads.at_work == 2)
    good = disposals.trigger(write_savepoint(tmp_path / "good").uri)
    assert disposals.result(good)["status"] == "IN_PROGRESS"

    clock.now += 60
    for trigger in slow:
        failure = disposals.result(trigger)["failure"]
        assert failure["message"] == "The deletion of a savepoint has not ended within 60 s: its storage may hang."
    eventually(lambda: disposals.result(good) == {"status": "COMPLETED"})

    third = disposals.trigger(write_savepoint(tmp_path / "3" / "hangs").uri)
    eventually(lambda: threads.at_work == 1)
    clock.now += 60
    assert "failure" in disposals.result(third)
    more = write_savepoint(tmp_path / "more").uri
    refused = disposals.trigger(more)
    assert "3 others wait for storages that don't answer" in disposals.result(refused)["failure"]["message"]
    hangs.set()
    eventually(lambda: "failure" not in disposals.result(disposals.trigger(more)))


def test_the_end_of_a_process_does_not_wait_for_a_storage_that_hangs() -> None:
    program = (
        "import threading\n"
        "from pystate.ops.jobmanager.disposal.storage_threads import StorageThreads\n"
        "begun = threading.Event()\n"
        "threads = StorageThreads('t', 1, 60, clock=lambda: 99 if begun.is_set() else 0)\n"
        "future = threads.submit(lambda: (begun.set(), threading.Event().wait()), 'It')\n"
        "begun.wait()\n"
        "threads.look()\n"
        "print(type(future.exception()).__name__)\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=LONGEST_S)
    assert (done.returncode, done.stdout) == (0, "StorageSilentError\n"), done.stderr


# -- without a job manager


@pytest.fixture
def home(tmp_path: Path) -> PystateHome:
    made = PystateHome(tmp_path / "home")
    made.jobs.mkdir(parents=True)
    return made


def embedded(home: PystateHome, pid: int, state: str = "RUNNING") -> str:
    """A plain `python job.py`: it has no record."""
    directory = home.job(V0)
    directory.path.mkdir()
    write_json(directory.status, {"state": state})
    write_json(directory.term, {"driver": "x", "pid": pid})
    return V0


def test_jobs_of_plain_python_are_seen(home: PystateHome, tmp_path: Path) -> None:
    location = write_savepoint(tmp_path / "sp")
    job = embedded(home, os.getpid())
    statistics = Statistics()
    statistics.tracker.report_restored(3, True, location.uri)
    statistics.write(home.job(job).checkpoints)

    with pytest.raises(SnapshotInUseError, match=f"Job {job} was started from it"):
        dispose(home, location)


def test_a_killed_one_holds_nothing_back(home: PystateHome, tmp_path: Path) -> None:
    location = write_savepoint(tmp_path / "sp")
    process = subprocess.Popen(["true"])
    process.wait()
    embedded(home, process.pid)

    dispose(home, location)
    assert not folder(location).exists()


def test_what_cannot_be_read_holds_everything_back(home: PystateHome, tmp_path: Path) -> None:
    directory = home.job(V0)
    directory.path.mkdir()
    directory.status.write_text("{")

    assert job_runs(home, V0) is True


def test_jobs_are_running_ended_or_unknown(home: PystateHome) -> None:
    assert job_runs(home, V0) is None
    assert job_runs(home, "no id") is None
    embedded(home, os.getpid(), "FINISHED")
    assert job_runs(home, V0) is False


def test_a_home_without_jobs_needs_nothing(tmp_path: Path) -> None:
    location = write_savepoint(tmp_path / "sp")

    check_unused(PystateHome(tmp_path / "none"), location)


def test_a_storage_that_fails_is_one_sentence(home: PystateHome, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    location = write_savepoint(tmp_path / "sp")

    def refuse(*_: object, **__: object) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr("os.unlink", refuse)
    with pytest.raises(SnapshotError, match="Cannot delete .*: Permission denied") as error:
        dispose(home, location)
    assert isinstance(error.value, PystateError)
