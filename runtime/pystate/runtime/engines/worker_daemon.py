"""Spark's Python daemon, which forks its workers, with all that our workers import loaded before the first fork.

Spark runs this module as `spark.python.daemon.module`, with the worker's module as argument. Its own daemon loads little
before it forks: each worker imports everything again, for a second of a core and 50 MB that it shares with nobody, and
PySpark from an archive of sources.

A thread would not outlive a fork, while a lock that it holds would. Where loading starts one, or fails, Spark's own daemon
takes over in the same process.
"""

from __future__ import annotations

import contextlib
import functools
import gc
import importlib
import os
import sys

from pystate.runtime.spark.workers.compiled_pyspark import import_compiled

MODULES: tuple[str, ...] = (
    "pyspark.worker",
    "pystate.runtime.engines.micro_batch.spark.exchange",
    "pystate.runtime.engines.real_time.spark.relay",
    "pystate.runtime.slot.process",
)
"""What slots and stages of either engine import at once."""
LATER = ("pyspark.sql.pandas.serializers", "pyarrow.compute", "rocksdict")
"""What they import once they have work, where it is installed."""
OF_SPARK = "pyspark.daemon"
_THREADS = "/proc/self/task"


def load() -> None:
    """Import what workers need.

    Raises:
        Exception: A module can't be imported.
        RuntimeError: A thread runs afterwards.
    """
    os.environ.setdefault("JE_ARROW_MALLOC_CONF", "background_thread:false")  # Arrow's second allocator would start one
    import_compiled(sys.path, os.environ.get("SPARK_HOME"))
    for name in MODULES:
        importlib.import_module(name)
    for name in LATER:
        with contextlib.suppress(ImportError):
            importlib.import_module(name)
    threads = threads_of_process()
    if threads > 1:
        message = f"{threads - 1} threads run after the imports"
        raise RuntimeError(message)
    os.register_at_fork(after_in_child=functools.partial(_draw_numbers_of_ones_own, os.getpid()))


def _draw_numbers_of_ones_own(daemon: int) -> None:
    """Seed NumPy's generator anew in a worker, as Python does with its own; what a worker forks is the user's matter."""
    generator = sys.modules.get("numpy.random")  # loaded by NumPy 1 itself, by later ones when it is used
    if generator is not None and os.getppid() == daemon:
        generator.seed()


def threads_of_process() -> int:
    """Return how many threads this process has, those of libraries included; 1 where the system doesn't say."""
    return len(os.listdir(_THREADS)) if os.path.isdir(_THREADS) else 1


def main() -> None:
    """Run the daemon until Spark ends it."""
    try:
        load()
    except Exception as error:  # a broken package may raise anything
        print(f"WARNING: Spark's own Python daemon starts the workers, one by one: {error!r}", file=sys.stderr, flush=True)
        options = sys.orig_argv[1 : sys.orig_argv.index("-m")]
        os.execv(sys.executable, [sys.executable, *options, "-m", OF_SPARK, *sys.argv[1:]])  # noqa: S606 - the same Python
    gc.collect()
    gc.freeze()  # else the first collection of each worker would copy all that they share
    from pyspark.daemon import manager

    manager()


if __name__ == "__main__":
    main()
