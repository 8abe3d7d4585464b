"""Limits the work of the garbage collector in our processes."""

from __future__ import annotations

import gc

YOUNG_OBJECTS = 10_000
"""The number of new objects after which the collector scans the youngest generation. A batch of rows has tens of thousands
of objects, all in use until it ends: with Python's default of 700 they are scanned dozens of times, in vain."""

YOUNG_OBJECTS_OF_DRIVER = 50_000
"""The same for a driver. A checkpoint of 10,000 subtasks makes some half a million objects, most of which live until the
next one completes: scanned at 10,000, they take as long again as all that is done with them."""


def free_what_has_ended() -> None:
    """Free the memory of an earlier attempt, whose process Spark reuses for the next one.

    That attempt's slot excluded its objects from collection, so its reference cycles would stay forever, including state.
    """
    if gc.get_freeze_count():
        gc.unfreeze()
        gc.collect()


def leave_to_stay() -> None:
    """Exclude everything the slot has loaded so far from collection: modules, code, the job, the restored state.

    Records create so many short-lived objects that the collector would scan everything several times a second, a quarter of
    the time per record. From now on it also runs less often, unless a function has set this itself. Reference counting still
    frees objects at once; only cycles stay a little longer.
    """
    gc.collect()
    gc.freeze()
    scan_seldom(YOUNG_OBJECTS)


def scan_seldom(objects: int) -> None:
    """Let the collector scan the youngest generation after that many new objects, unless somebody said it in another way."""
    young, *older = gc.get_threshold()
    if 0 < young < objects:
        gc.set_threshold(objects, *older)
