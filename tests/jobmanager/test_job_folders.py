"""The folder of a job is there in full or not at all."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from pystate.common.home import PystateHome, new_job_id
from pystate.jobmanager.job_folders import LocalJobFolders


def test_a_job_that_gets_no_link_in_the_home_is_not_taken_in(tmp_path, monkeypatch):
    home = PystateHome(tmp_path / "home")
    folders = LocalJobFolders(home, tmp_path / "shared")
    folders.prepare()

    def refused(path: Path, *_: object, **__: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(path))

    monkeypatch.setattr(Path, "symlink_to", refused)
    with pytest.raises(OSError, match="No space left"):
        folders.publish(new_job_id(), lambda directory: directory.secret.write_bytes(b"x"))

    assert os.listdir(tmp_path / "shared") == []
    assert os.listdir(home.jobs) == []
