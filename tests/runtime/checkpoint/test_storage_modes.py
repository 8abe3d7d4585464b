"""Who can read what is written: modes whatever the umask is, tried as another user, too."""

from __future__ import annotations

import contextlib
import os
import shutil
import stat
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from pystate.common.configuration.configuration import Configuration
from pystate.common.configuration.file_system_settings import initialize, put_in_force
from pystate.common.errors import ConfigurationError, SnapshotError
from pystate.core.snapshot.handles.handles import FileStateHandle
from pystate.core.snapshot.storage.checkpoint_storage_access import CheckpointStorageAccess
from pystate.core.snapshot.storage.local_copies import LocalCopies
from pystate.core.snapshot.storage.ownership import NoteKind, Notes
from pystate.core.snapshot.storage.snapshot_location import SnapshotLocation
from tests.core.snapshot.snapshots import V0, write_checkpoint, write_incremental, write_savepoint

NOBODY = 65534
AS_NOBODY = ("setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups")
needs_another_user = pytest.mark.skipif(
    os.geteuid() != 0 or shutil.which("setpriv") is None, reason="only root can try it as another user, with setpriv"
)


@pytest.fixture(autouse=True)
def settings() -> Iterator[None]:
    yield
    put_in_force(None)


@contextlib.contextmanager
def umask(bits: int) -> Iterator[None]:
    before = os.umask(bits)
    try:
        yield
    finally:
        os.umask(before)


def modes(root: Path) -> tuple[set[int], set[int]]:
    """Return the modes of all files and of all folders below a folder."""
    found = [path.lstat().st_mode for path in root.rglob("*")]
    return ({stat.S_IMODE(m) for m in found if stat.S_ISREG(m)}, {stat.S_IMODE(m) for m in found if stat.S_ISDIR(m)})


def write_all_kinds(root: Path) -> None:
    """Write everything that a job writes to its storage, and to the disks of its slots."""
    write_savepoint(root / "deep" / "sp")
    write_checkpoint(root / "ck", 3)
    storage = CheckpointStorageAccess(str(root / "job"), None, V0)
    storage.initialize()
    shared = storage.shared_location.write_state("0-3-00112233-x", lambda sink: sink.write(b"12345"), 0)
    assert isinstance(shared, FileStateHandle)
    Notes(storage.shared_location, NoteKind.USE).write(V0, None, owned=False)
    write_incremental(root / "inc", Path(storage.shared_location.uri.removeprefix("file:")) / shared.path)
    copies = LocalCopies(str(root / "local" / "task-0"))
    where = SnapshotLocation(str(root / "ck" / V0 / "chk-3"))
    handle = copies.writing(where, 3).write_state("part", lambda sink: sink.write(b"12345"), 0)
    other = root / "written-by-another-library"
    other.write_bytes(b"12345")
    copies.link(3, str(other), where.absolute(handle))
    where.download(handle, str(root / "downloaded"))
    copies.reading(where).download(handle, str(root / "copied"))
    other.unlink()


@pytest.mark.parametrize("bits", [0o000, 0o022, 0o077, 0o027], ids=oct)
@pytest.mark.parametrize(
    ("option", "file", "folder"), [(None, 0o600, 0o700), ("000", 0o666, 0o777), ("027", 0o640, 0o750), ("007", 0o660, 0o770)]
)
def test_modes_are_those_of_the_option_whatever_the_umask_is(
    tmp_path: Path, bits: int, option: str | None, file: int, folder: int
) -> None:
    initialize(Configuration({} if option is None else {"pystate.storage.umask": option}))
    with umask(bits):
        write_all_kinds(tmp_path)
    assert modes(tmp_path) == ({file}, {folder})


def test_folders_that_are_there_stay_as_they_are(tmp_path: Path) -> None:
    (tmp_path / "sp").mkdir()
    (tmp_path / "sp").chmod(0o2775)
    location = write_savepoint(tmp_path / "sp")
    assert stat.S_IMODE((tmp_path / "sp").stat().st_mode) == 0o2775
    made = Path(location.uri.removeprefix("file:")).stat().st_mode
    assert stat.S_IMODE(made) == 0o2700, "what is in it gets the folder's group"


@pytest.mark.parametrize("value", ["77", "63", "0777", "700", "u=rwx", "008", ""])
def test_what_is_no_umask_is_refused(value: str) -> None:
    with pytest.raises(ConfigurationError, match="three octal digits"):
        Configuration({"pystate.storage.umask": value})


def test_the_option_goes_along_with_places(tmp_path: Path) -> None:
    initialize(Configuration({"pystate.storage.umask": "027"}))
    rebuild, arguments = SnapshotLocation(str(tmp_path / "sp")).__reduce__()[:2]
    put_in_force(None)
    rebuild(*arguments).create()
    assert stat.S_IMODE((tmp_path / "sp").stat().st_mode) == 0o750


def as_nobody(program: str, *arguments: Any) -> str:
    words = [*AS_NOBODY, "/bin/sh", "-c", program, "sh", *map(str, arguments)]
    done = subprocess.run(words, capture_output=True, text=True, cwd="/", check=False)
    return done.stdout + done.stderr


@pytest.fixture
def reachable(tmp_path: Path) -> Iterator[Path]:
    """A folder that every user can go to, as folders for state often are."""
    root = Path("/var/tmp" if sys.platform != "linux" else "/tmp") / f"pystate-test-{os.getpid()}-{tmp_path.name}"  # noqa: S108
    root.mkdir()
    root.chmod(0o755)
    yield root
    shutil.rmtree(root)


@needs_another_user
def test_another_user_reads_no_state(reachable: Path) -> None:
    with umask(0o000):
        write_all_kinds(reachable)
    assert as_nobody("ls -d $1", reachable) == f"{reachable}\n"
    stolen = as_nobody('find "$1" -type f -exec cat {} + | wc -c; find "$1" -type f | wc -l', reachable)
    assert [line for line in stolen.splitlines() if line.isdigit()] == ["0", "2"]
    assert as_nobody('cat "$1"/downloaded "$1"/copied', reachable).count("Permission denied") == 2


@needs_another_user
def test_a_folder_of_local_copies_that_somebody_else_has_made_is_not_used(reachable: Path, capsys: Any) -> None:
    reachable.chmod(0o1777)
    folder = reachable / "pystate-0011223344556677-local"
    as_nobody('mkdir -m 777 "$1"', folder)
    where = write_checkpoint(reachable / "ck", 3)
    copies = LocalCopies(str(folder / "task-0"))

    handle = copies.writing(where, 3).write_state("part", lambda sink: sink.write(b"12345"), 0)

    assert list(folder.rglob("*")) == []
    assert "others have made this folder" in capsys.readouterr().err
    # and what stands there is not believed
    as_nobody('mkdir -p "$1/task-0/chk-3" && printf 12345 > "$1/task-0/chk-3/$2"', folder, getattr(handle, "path", ""))
    assert copies.find(handle) is None
    with copies.reading(where).open(handle) as file:
        assert file.read() == b"12345"


@needs_another_user
def test_another_users_folder_is_an_error_that_names_the_option(reachable: Path) -> None:
    program = (
        "import os, sys\n"
        "from pystate.core.snapshot.storage.snapshot_location import SnapshotLocation\n"
        "from pystate.common.errors import SnapshotError\n"
        "os.setgroups([]); os.setgid(65534); os.setuid(65534)\n"
        "try: SnapshotLocation(sys.argv[1]).create()\n"
        "except SnapshotError as error: print(error)\n"
    )
    (reachable / "job").mkdir(mode=0o700)
    said = subprocess.run(
        [sys.executable, "-c", program, str(reachable / "job" / "chk-1")],
        capture_output=True,
        text=True,
        cwd="/",
        check=False,
    )
    assert "Permission denied" in said.stdout, said
    assert "pystate.storage.umask" in said.stdout


def test_links_that_were_planted_are_not_written_through(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    victim = tmp_path / "victim"
    victim.write_text("precious")
    location = SnapshotLocation(str(tmp_path / "chk-1"))
    location.create()
    monkeypatch.setattr("secrets.token_hex", lambda _: "00112233")
    (tmp_path / "chk-1" / ".part-00112233.inprogress").symlink_to(victim)
    with pytest.raises(SnapshotError):
        location.write_state("part", lambda sink: sink.write(b"12345"), 0)
    assert victim.read_text() == "precious"
