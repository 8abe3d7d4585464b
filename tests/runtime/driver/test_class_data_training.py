"""The archive of Spark's classes is made by a real JVM, and used by the next one."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from pystate.common.processes.java import find_java
from pystate.runtime.spark.sessions.class_data_archive import archive_path

MAKE = (sys.executable, "-m", "pystate.ops.warm_start.class_data_training")
START = """
import sys
from pathlib import Path
from pystate.common.configuration.configuration import Configuration
from pystate.runtime.spark.sessions.session import create_session
options = {"spark.driver.extraJavaOptions": "-Xlog:class+load:file=" + sys.argv[1]}
create_session(Configuration(options), "start", Path(sys.argv[2])).stop()
"""


@pytest.mark.slow
def test_a_session_takes_its_classes_from_the_archive(tmp_path: Path) -> None:
    environ = {**os.environ, "XDG_CACHE_HOME": str(tmp_path / "cache"), "PYSTATE_HOME": str(tmp_path / "home")}
    archive = archive_path(find_java(), environ)
    if archive is None:
        pytest.skip("this Java shares no class data")
    made = subprocess.run(MAKE, env=environ, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert made.returncode == 0, made.stderr
    assert made.stdout.strip() == str(archive)
    loaded = tmp_path / "loaded"
    log = tmp_path / "log"
    subprocess.run([sys.executable, "-c", START, loaded, log], env=environ, cwd=tmp_path, check=True)
    lines = loaded.read_text().splitlines()
    # Scala's closures are no classes of a jar
    spark = [line for line in lines if re.search(r"\borg\.apache\.spark\.", line) and "$$Lambda" not in line]
    shared = [line for line in spark if "shared objects file (top)" in line]
    assert len(spark) > 1000
    assert len(shared) > 0.9 * len(spark)
    assert "cds" not in log.read_text()
    again = subprocess.run(MAKE, env=environ, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert (again.returncode, again.stdout.strip()) == (0, str(archive))
    assert sorted(path.suffix for path in archive.parent.iterdir()) == [".jsa", ".lock"]
