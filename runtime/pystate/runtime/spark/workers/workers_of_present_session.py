"""The Python workers of an application that the program has started itself, on this machine, while jobs run in it.

Their JVM runs already, so nothing can be set in its environment: what their functions are sent with says which Python runs
them, and where that imports from. As long as any job runs, that is the program's own Python with the program's own path.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import threading
import weakref
from collections import Counter
from typing import Any

from pystate.common.errors import ConfigurationError

_OF_PYSPARK = "python3"
"""The Python that PySpark takes where nobody has set `PYSPARK_PYTHON`: any one that is found first."""
_LOCK = threading.Lock()
_ADDED: weakref.WeakKeyDictionary[Any, Counter[str]] = weakref.WeakKeyDictionary()
"""How many jobs need what was changed, by application: a folder, or the other Python."""


def check_python(context: Any) -> None:
    """Reject workers on this machine that run another Python than the program, since its functions can't be sent there.

    Args:
        context: The application, with a local master.

    Raises:
        ConfigurationError: They do, or there is no such Python.
    """
    name = str(context.pythonExec)
    path = shutil.which(name)
    if name == _OF_PYSPARK or (path is not None and os.path.abspath(path) == os.path.abspath(sys.executable)):
        return
    where, own = "PYSPARK_PYTHON", "{}.{}".format(*sys.version_info[:2])
    hint = f'set it before the session is made: os.environ["PYSPARK_PYTHON"] = "{sys.executable}"'
    if path is None:
        message = f"There is no Python at {name}, which the workers of the Spark session that is there are to run."
        raise ConfigurationError(message, where=where, hint=hint)
    asked = subprocess.run(  # noqa: S603 - what Spark runs, too
        [path, "-S", "-c", "import sys; print('{}.{}'.format(*sys.version_info[:2]))"],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    there = asked.stdout.strip() or "an unknown version"
    if there != own:
        message = f"The workers of the Spark session that is there run Python {there} ({path}), the program runs {own}"
        message = f"{message}; both must be the same."
        raise ConfigurationError(message, where=where, hint=hint)


class WorkersOfPresentSession:
    """What one job needs of workers; made before the job's functions are sent.

    Args:
        context: The application, with a local master.
    """

    def __init__(self, context: Any) -> None:
        self._context = context
        with _LOCK:
            self._added = _ADDED.setdefault(context, Counter())
            includes = context._python_includes  # noqa: SLF001 - the only way once the JVM runs
            # in reverse: a worker puts each before the earlier ones
            paths = [os.path.abspath(path) for path in reversed(sys.path)]
            needed = [path for path in dict.fromkeys(paths) if path not in includes or path in self._added]
            includes.extend(path for path in needed if path not in self._added)
            if context.pythonExec == _OF_PYSPARK or _OF_PYSPARK in self._added:
                context.pythonExec = sys.executable
                needed.append(_OF_PYSPARK)
            self._needed = needed
            self._added.update(needed)

    def job_ended(self) -> None:
        """Take back what no other job needs."""
        with _LOCK:
            self._added.subtract(self._needed)
            self._needed = []
            for one in [one for one, count in self._added.items() if count <= 0]:
                del self._added[one]
                if one == _OF_PYSPARK:
                    self._context.pythonExec = _OF_PYSPARK
                else:
                    self._context._python_includes.remove(one)  # noqa: SLF001 - as above
