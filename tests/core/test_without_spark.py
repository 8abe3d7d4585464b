"""Core stands alone: state is written, snapshot and restored at another parallelism where pyspark isn't installed."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path


def test_all_of_core_is_imported_and_used_without_pyspark():
    program = Path(__file__).with_name("without_spark.py")
    ended = subprocess.run([sys.executable, program], capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stderr
    assert ended.stdout.splitlines() == ["hashmap a=3 b=3 c=3", "rocksdb a=3 b=3 c=3"]
