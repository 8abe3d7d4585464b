"""The files of a session of `pystate dev`: copies of the code and checkpoints, and savepoints, which outlive it.

A session that is killed leaves its folder, and one that was told to keep its job does, too: the job runs from there.
"""

from __future__ import annotations

import contextlib
import hashlib
import shutil
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from pystate.common.files.folders import make_private_folder
from pystate.common.files.home import PystateHome, read_json, write_json
from pystate.runtime.job_folder.held_folders import HeldFolder, held_folders, left_folders, remove_folder

_RUN, _KEPT = "run-", "kept-"
_NOTE = "session.json"
_LEFT_FOLDERS = 3
"""How many folders of ended sessions stay although no job refers to them: their checkpoints can be started from."""


@dataclass(frozen=True)
class LeftSession:
    """A session that has ended, and whose folder is still there.

    Attributes:
        folder: Its folder.
        kept: Whether it was told to leave its job running; otherwise it was killed.
        job_manager: The value of its -m; None for the job manager of the home.
        started: The instance of the home's job manager that it started; None if that was there before.
    """

    folder: Path
    kept: bool
    job_manager: str | None = None
    started: str | None = None


class DevFolder:
    """The folder of a program, and in it one of this session.

    Args:
        home: The installation.
        program: The program's file.
        keep: Whether the job outlives the session, and needs its code.
    """

    def __init__(self, home: PystateHome, program: Path, *, keep: bool) -> None:
        name = hashlib.sha256(str(program).encode()).hexdigest()[:8]
        base = home.dev / f"{program.stem}-{name}"
        self._base = base
        make_private_folder(base)
        self._session = HeldFolder(base, _KEPT if keep else _RUN)
        self._taken_over: Path | None = None
        self._job_goes_on = False
        self.savepoints = base / "savepoints"

    @property
    def code(self) -> Path:
        """Where the copies of the program are."""
        return self._session.path / "code"

    @property
    def checkpoints(self) -> Path:
        """Where the jobs' checkpoints go, unless the settings say otherwise."""
        return self._session.path / "checkpoints"

    def earlier_savepoints(self) -> list[str]:
        """Return the savepoints of earlier sessions, oldest first."""
        if not self.savepoints.is_dir():
            return []
        return [path.as_uri() for path in sorted(self.savepoints.iterdir(), key=lambda path: path.stat().st_mtime)]

    def note(self, job_manager: str | None, started: str | None) -> None:
        """Write down for later sessions which job manager has the session's job.

        Args:
            job_manager: The value of -m; None for the job manager of the home.
            started: The instance of the home's job manager, if the session has started it.
        """
        write_json(self._session.path / _NOTE, {"job_manager": job_manager, "started": started})

    def left_sessions(self) -> list[LeftSession]:
        """Return the sessions of the program that have ended and left their folders, oldest first."""
        return [_left_session(folder) for folder in left_folders(self._base)]

    def has_other_session(self) -> bool:
        """Whether another session of the program goes on."""
        return any(folder != self._session.path for folder in held_folders(self._base))

    def take_over(self, left: LeftSession) -> None:
        """Delete the folder of another session with that of this one: its job is that of this session now."""
        self._taken_over = left.folder

    def leave_job(self) -> None:
        """Say that the job could not be ended: it needs the folder, from which the next session takes it over."""
        self._job_goes_on = True

    def close(self, *, keep: bool) -> None:
        """Delete what is of this session alone, unless its job goes on."""
        if keep or self._job_goes_on:
            self._session.leave()
        else:
            if self._taken_over is not None:
                remove_folder(self._taken_over)
            self._session.remove()
            if not self.savepoints.is_dir() and not any(self._base.iterdir()):
                shutil.rmtree(self._base, ignore_errors=True)


def surplus(unused: Iterable[LeftSession]) -> list[LeftSession]:
    """Return which sessions' folders are deleted, of those that no job refers to, oldest first."""
    return list(unused)[:-_LEFT_FOLDERS]


def _left_session(folder: Path) -> LeftSession:
    kept = folder.name.startswith(_KEPT)
    note = None
    with contextlib.suppress(ValueError, OSError):
        note = read_json(folder / _NOTE)
    if note is None:  # it ended before it had a job, or an older version has made the folder
        return LeftSession(folder, kept)
    return LeftSession(folder, kept, note["job_manager"], note["started"])
