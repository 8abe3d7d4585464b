"""The block manager of a local master, which Spark takes for lost with a shuffle's files and never lets in again.

In a process of its own: the session is not what it was.
"""

from __future__ import annotations

import subprocess
import sys

import pytest

IN_A_SESSION = """
import gc
import shutil
import sys
import time
from pathlib import Path

from py4j.protocol import Py4JJavaError

from pystate.common.configuration.configuration import Configuration
from pystate.common.errors import JobExecutionError
from pystate.runtime.spark.sessions.block_manager import LocalBlockManager
from pystate.runtime.spark.sessions.session import create_session

folder = Path(sys.argv[1])
options = {"pystate.spark.master": "local[2,4]", "spark.local.dir": str(folder / "local")}
spark = create_session(Configuration(options), "block manager", folder / "spark.log")
context = spark.sparkContext
manager = LocalBlockManager(context)
"""


def printed_by(program, tmp_path):
    words = [sys.executable, "-c", IN_A_SESSION + program, str(tmp_path)]
    done = subprocess.run(words, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


LOSES_ITS_FOLDERS = """

def sums():
    pairs = context.parallelize([bytes(2000)] * 2000, 2).map(lambda data: (len(data), 1))
    return pairs.reduceByKey(lambda a, b: a + b, 2).collect()


def tried():
    try:
        return sums()
    except (OSError, Py4JJavaError) as error:
        return type(error).__name__


print("at first", sums(), manager.remake_folders())
for gone in ("blockmgr-*", "spark-*/pyspark-*", "*"):
    for path in (folder / "local").glob(gone):
        shutil.rmtree(path)
    lost, made = tried(), manager.remake_folders()
    print(gone, lost in ("Py4JJavaError", "FileNotFoundError"), len(made), sums())
shutil.rmtree(folder / "local")
(folder / "local").touch()
try:
    manager.remake_folders()
except JobExecutionError as error:
    print(error.message)
(folder / "local").unlink()
print(len(manager.remake_folders()), sums())
"""


@pytest.mark.slow
def test_folders_of_spark_that_somebody_has_deleted_are_made_again(tmp_path):
    assert printed_by(LOSES_ITS_FOLDERS, tmp_path) == [
        "at first [(2000, 2000)] []",
        "blockmgr-* True 1 [(2000, 2000)]",
        "spark-*/pyspark-* True 1 [(2000, 2000)]",
        "* True 3 [(2000, 2000)]",
        "Spark's folder for temporary files is gone, and can't be made again: Not a directory.",
        "3 [(2000, 2000)]",
    ]


LOSES_ITS_BLOCK_MANAGER = """
def big():
    # more than 1 MiB from each task
    return len(spark.range(0, 100_000, 1, 2).selectExpr("uuid()").collect())


def shuffle_files():
    return {path.name for path in (folder / "local").rglob("shuffle_*")}


print("at first", big(), manager.restore())
sums = context.parallelize(range(100), 2).map(lambda number: (number % 5, number)).reduceByKey(lambda a, b: a + b, 2)
print(sums.count())
for file in (folder / "local").rglob("shuffle_*"):
    file.unlink()
print(sums.count())
try:
    print("lost", big())
except Py4JJavaError as error:
    print("lost", "TaskResultLost" in str(error))
print("restored", manager.restore())
print("afterwards", big(), manager.restore())
left, deadline = shuffle_files(), time.monotonic() + 60
del sums
while shuffle_files() and time.monotonic() < deadline:
    gc.collect()
    spark._jvm.System.gc()
    time.sleep(0.2)
print("files of the shuffle", bool(left), shuffle_files())
"""


@pytest.mark.slow
def test_a_block_manager_that_spark_takes_for_lost_is_known_again(tmp_path):
    assert printed_by(LOSES_ITS_BLOCK_MANAGER, tmp_path) == [
        "at first 100000 False",
        "5",
        "5",
        "lost True",
        "restored True",
        "afterwards 100000 False",
        "files of the shuffle True set()",
    ]
