"""The files of a session of `pystate dev`: copies of the code, checkpoints, and savepoints, which alone outlive it."""

from __future__ import annotations

import hashlib
import shutil
from pathlib import Path

from pystate.common.files.folders import make_private_folder
from pystate.common.files.home import PystateHome
from pystate.runtime.job_folder.held_folders import HeldFolder, remove_left_folders

_RUN, _KEPT = "run-", "kept-"


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
        remove_left_folders(base, f"{_RUN}*")
        self._session = HeldFolder(base, _KEPT if keep else _RUN)
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

    def close(self, *, keep: bool) -> None:
        """Delete what is of this session alone, unless its job goes on."""
        if not keep:
            self._session.remove()
            if not self.savepoints.is_dir() and not any(self._base.iterdir()):
                shutil.rmtree(self._base, ignore_errors=True)
