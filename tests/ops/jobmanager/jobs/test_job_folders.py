"""The folder of a job is there in full or not at all."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from pystate.common.files.home import PystateHome, new_job_id, write_json
from pystate.ops.jobmanager.jobs.job_folders import LocalJobFolders


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


@pytest.mark.parametrize("replica", [{"version": 2, "uri": "s3://bucket/x"}, {"version": 1}, ["s3://bucket/x"]])
def test_a_job_whose_replica_nobody_can_tell_is_left_out_and_the_others_are_served(tmp_path, replica, caplog):
    home = PystateHome(tmp_path)
    folders = LocalJobFolders(home)
    folders.prepare()
    odd, sound = new_job_id(), new_job_id()
    for job_id in (odd, sound):
        folders.publish(job_id, lambda directory: directory.secret.write_bytes(b"x"))
    write_json(home.job(odd).replica, replica)

    assert folders.job_ids() == [sound]
    assert f"the job {odd} is left out: " in caplog.text
