from __future__ import annotations

import os
from pathlib import Path

from pystate.runtime.spark.local_uri import local_uri


def test_a_path_of_this_machine_stays_here_whatever_hadoops_default_file_system_is():
    assert local_uri(Path("/home/me/a folder%20")) == "file:///home/me/a folder%20"
    assert local_uri(Path("scratch")) == f"file://{os.getcwd()}/scratch"
