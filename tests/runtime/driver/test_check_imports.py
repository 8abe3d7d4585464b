"""What the check of a program imports, and above all what it doesn't: a person waits for it."""

from __future__ import annotations

import subprocess
import sys

SYSTEMS = ("deltalake", "pyiceberg", "sqlalchemy", "confluent_kafka", "rocksdict")
HEAVY = ("pyspark", "pyarrow.compute", "py4j", "pandas", "starlette", "uvicorn", *SYSTEMS)
MOST_MODULES = 820
"""Of pystate, of others and of Python; on 2026-11-30 there were 744."""


def test_a_check_imports_neither_spark_nor_clients_of_systems():
    program = (
        "import sys\n"
        "import pystate.datastream, pystate.datastream.connectors.kafka\n"
        "import pystate.runtime.driver.program_check\n"
        f"print(len(sys.modules), *[name for name in {HEAVY!r} if name in sys.modules])\n"
    )
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    count, *heavy = ended.stdout.split()
    assert heavy == []
    assert int(count) < MOST_MODULES
