"""The daemon of Spark's workers in tests: pystate's, with what hundreds of workers of tests import besides."""

from __future__ import annotations

from pystate.runtime.engines import worker_daemon

worker_daemon.MODULES = (*worker_daemon.MODULES, "pandas", "pystate.state_processor")

if __name__ == "__main__":
    worker_daemon.main()
