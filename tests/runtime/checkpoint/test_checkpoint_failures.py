"""The bad end of a checkpoint: which failures end the attempt."""

import pytest

from pystate.common.errors import CheckpointFailedError, DriverReplacedError
from pystate.core.snapshot.metadata import CheckpointType
from pystate.runtime.checkpoint.failure_reason import CheckpointFailureReason
from tests.runtime.checkpoint.parts import EVERY_EPOCH, TOLERANT


@pytest.mark.parametrize(
    ("kind", "options", "ends"),
    [
        (CheckpointType.CHECKPOINT, EVERY_EPOCH, True),
        (CheckpointType.SAVEPOINT, EVERY_EPOCH, False),
        (CheckpointType.CHECKPOINT, {}, False),
    ],
)
def test_a_failure_that_is_tolerated_ends_the_attempt_all_the_same_if_its_epoch_could_not_be_run_again(
    parts, kind, options, ends
):
    one = parts(**options, **TOLERANT)
    entry = one.in_turn(0, kind)
    one.failures.fail(entry, CheckpointFailureReason.CHECKPOINT_DECLINED, CheckpointFailedError("no"))
    assert bool(one.ended) == ends


def test_a_driver_that_was_replaced_ends_its_attempt_however_many_failures_are_tolerated(parts):
    one = parts(**TOLERANT)
    error = DriverReplacedError("Another driver has taken the job over.")
    one.failures.fail(one.running(), CheckpointFailureReason.IO_EXCEPTION, error)
    assert [failure.message for failure in one.ended] == ["Another driver has taken the job over."]


def test_a_checkpoint_fails_once_and_whoever_asked_for_it_hears_the_first_reason(parts):
    one = parts()
    entry = one.running()
    for message in ("first", "second"):
        one.failures.fail(entry, CheckpointFailureReason.IO_EXCEPTION, CheckpointFailedError(message))
    assert entry.request.future.exception().message == "first"
    assert len(one.ended) == 1
    assert one.slots.told == [(1, False)]
