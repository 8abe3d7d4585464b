"""Starting a driver's process."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from pystate.common.files.home import PystateHome, new_job_id
from pystate.common.files.regular_files import NotRegularError
from pystate.ops.jobmanager.drivers.driver_process import DriverLauncher
from pystate.runtime.job_folder.submission import Submission


@pytest.mark.parametrize("name", ["job.log", "stdout"])
def test_no_driver_is_started_that_would_print_into_something_else_than_a_file(
    tmp_path: Path, no_hang: None, not_regular: tuple[str, Callable[[Path], None]], name: str
) -> None:
    words, make = not_regular
    home = PystateHome(tmp_path)
    directory = home.job(new_job_id())
    directory.path.mkdir(parents=True)
    make(directory.path / name)
    submission = Submission("/j.py", [], str(tmp_path), None, None, False, {}, attached=True, python=sys.executable)

    with pytest.raises(NotRegularError, match=f"{name} is {words}, not a regular file"):
        DriverLauncher(home).start(directory.path.name, submission, {})

    assert not directory.process.exists()
