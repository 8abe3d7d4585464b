"""A driver of the campaign of pairs that is a process of its own and has no Spark: the real-time engine, and all but relays.

    pairs_bare_driver.py SETTINGS.json OPTIONS.json FOLDER

takes a line of JSON for each question, and answers with one: which processes its slots are, and how the job is; or a
savepoint with which it stops.
"""

from __future__ import annotations

import json
import os
import sys
import threading
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).parents[3]))

from pystate.common.errors import PystateError
from tests.faults.campaigns import pairs_job
from tests.faults.injection import Faults
from tests.runtime.engines.real_time.driver.jobs import RealTimeJob


def _answer(job: Any, asked: dict[str, Any]) -> dict[str, Any]:
    if "drain" not in asked:
        error = None if job.error is None else str(job.error)
        attempt = len(job.relays.made) - 1
        return {"slots": list(job.master.slot_pids.values()), "state": job.status.state, "attempt": attempt, "error": error}
    try:
        path = job.savepoint(stop=True, drain=asked["drain"])
    except PystateError as error:
        return {"error": str(error)}
    job.thread.join()
    return {"path": path}


def serve(job: Any, lines: Any, say: Callable[[str], object]) -> None:
    """Answer until nobody asks any more, and end at once then.

    Args:
        job: The job.
        lines: The questions.
        say: Gets each answer.
    """
    for line in lines:
        say(json.dumps(_answer(job, json.loads(line))))
    os._exit(0)


if __name__ == "__main__":
    given, options = (json.loads(Path(name).read_text()) for name in sys.argv[1:3])
    Faults(Path(given["faults"])).install()
    made = RealTimeJob(Path(sys.argv[3]), partial(pairs_job.build, settings=given), **options)
    asking = threading.Thread(target=serve, args=(made, sys.stdin, partial(print, flush=True)))
    asking.start()
    asking.join()
