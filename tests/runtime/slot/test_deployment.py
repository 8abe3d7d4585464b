"""What a slot says of a deployment that it can't rebuild."""

import gc
import weakref
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict
from types import SimpleNamespace

import pytest
from pyspark import cloudpickle

from pystate.common.errors import UserFunctionError
from pystate.common.processes.garbage_collector import YOUNG_OBJECTS, free_what_has_ended, leave_to_stay
from pystate.runtime.plan.task import JobEnvironment
from pystate.runtime.slot.process import Deployment, SlotProcess, unpacked
from pystate.runtime.slot.snapshots.restore_progress import RestoreProgress


class Broken:
    """Can be taken apart, but not put together."""

    def __reduce__(self):
        return explode, ()


def explode():
    message = "not here"
    raise ModuleNotFoundError(message)


def test_a_deployment_comes_back_as_it_was():
    deployment = Deployment({}, [], {}, 3)

    assert unpacked(cloudpickle.dumps(deployment)) == deployment


def test_what_can_not_be_rebuilt_is_the_users_error_and_names_the_line():
    with pytest.raises(UserFunctionError) as error:
        unpacked(cloudpickle.dumps(Deployment({}, [Broken()], {})))

    assert error.value.message == "ModuleNotFoundError: not here"
    assert error.value.where.startswith(f'File "{__file__}", line ')
    assert "--pyFiles" in error.value.hint


def test_what_a_slot_has_loaded_is_no_work_for_the_garbage_collector(tmp_path):
    environment = asdict(JobEnvironment("b" * 32, "job", 0, {}, "hashmap", 1 << 20, str(tmp_path)))
    frozen, before = [], gc.get_threshold()
    slot = SlotProcess.__new__(SlotProcess)
    slot._directory, slot._subtasks, slot._progress = str(tmp_path), {}, RestoreProgress()
    slot._uploads = ThreadPoolExecutor(max_workers=1)
    slot._engine = SimpleNamespace(serve=lambda opened: frozen.append((gc.get_freeze_count(), gc.get_threshold())))

    gc.unfreeze()
    gc.set_threshold(700, *before[1:])  # a test before this one may have been a driver, which has more
    try:
        slot._deploy(Deployment(environment, [], {}))
    finally:
        gc.unfreeze()
        gc.set_threshold(*before)
        slot._uploads.shutdown()

    ((count, threshold),) = frozen
    assert count > 1_000
    assert threshold == (YOUNG_OBJECTS, *before[1:])


class Loaded:
    """Refers to itself, as what an attempt has loaded does."""

    def __init__(self):
        self.itself = self


def test_what_an_attempt_has_loaded_goes_away_before_the_next_one():
    before = gc.get_threshold()
    loaded = Loaded()
    left = weakref.ref(loaded)
    try:
        leave_to_stay()
        del loaded
        gc.collect()
        assert left() is not None  # or nothing is shown by what follows
        free_what_has_ended()
        assert left() is None
        assert gc.get_freeze_count() == 0
    finally:
        gc.unfreeze()
        gc.set_threshold(*before)


@pytest.mark.parametrize("said", [0, YOUNG_OBJECTS + 1])
def test_what_a_function_has_said_of_the_garbage_collector_holds(said):
    before = gc.get_threshold()
    gc.set_threshold(said, *before[1:])
    try:
        leave_to_stay()
        assert gc.get_threshold()[0] == said
    finally:
        gc.unfreeze()
        gc.set_threshold(*before)
