"""PySpark's daemon, which forks Spark's Python workers, with what they import loaded before.

Else each worker imports it anew, for half a second of a core, and tests need hundreds of workers. Spark's own daemon loads
nothing, since threads would not outlive a fork: what is loaded here starts none but that of the allocator, which knows of
forks.
"""

from __future__ import annotations

import os

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # it would start its threads at once

import pandas  # noqa: E402, F401
import pyarrow.compute  # noqa: E402, F401
import pyspark.sql.pandas.serializers  # noqa: E402, F401
import pyspark.worker  # noqa: E402, F401
import rocksdict  # noqa: E402, F401
from pyspark.daemon import manager  # noqa: E402

import pystate.runtime.engines.micro_batch.spark.exchange
import pystate.runtime.engines.real_time.spark.relay
import pystate.runtime.slot.process
import pystate.state_processor  # noqa: F401

if __name__ == "__main__":
    manager()
