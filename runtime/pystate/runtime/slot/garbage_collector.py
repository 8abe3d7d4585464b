"""How much a slot has the garbage collector look at."""

from __future__ import annotations

import gc

YOUNG_OBJECTS = 10_000
"""By so many objects there may be more until the collector looks at the youngest. A batch of rows is tens of thousands, all
in use until it ends: Python's own 700 has the collector look at them dozens of times, in vain."""


def free_what_has_ended() -> None:
    """Free what an earlier attempt has left: Spark gives its process to the next one.

    Its slot had the collector pass over it, so that what of it refers to itself would stay for good, state with it.
    """
    if gc.get_freeze_count():
        gc.unfreeze()
        gc.collect()


def leave_to_stay() -> None:
    """Have the garbage collector pass over all that a slot has loaded by now: modules, code, the job, the restored state.

    Records make so many short-lived objects that it looks at everything several times a second, a quarter of the time that a
    record takes. From now on it also looks less often, unless a function has said otherwise. What reference counts free,
    they free at once as ever; what refers to itself stays a little longer.
    """
    gc.collect()
    gc.freeze()
    young, *older = gc.get_threshold()
    if 0 < young < YOUNG_OBJECTS:
        gc.set_threshold(YOUNG_OBJECTS, *older)
