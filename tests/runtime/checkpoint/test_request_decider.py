from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest

from pystate.core.snapshot.metadata import CheckpointType
from pystate.runtime.checkpoint.request_decider import CheckpointRequestDecider

CHECKPOINT, SAVEPOINT = CheckpointType.CHECKPOINT, CheckpointType.SAVEPOINT


@dataclass(eq=False)
class Request:
    checkpoint_type: CheckpointType = CHECKPOINT
    name: str = "periodic"


class Clock:
    now = 0

    def __call__(self) -> int:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


def decider(clock: Clock, interval_ms: int | None = 1000, **options: Any) -> CheckpointRequestDecider[Request]:
    made = CheckpointRequestDecider(clock, Request, interval_ms=interval_ms, **options)
    made.restart()
    return made


def starts(clock: Clock, rule: CheckpointRequestDecider[Request], took: int, until: int) -> list[int]:
    """Drive the decider as a coordinator does, one checkpoint at a time; return when checkpoints started."""
    found: list[int] = []
    end: int | None = None
    while clock.now <= until:
        if end is not None and clock.now >= end:
            rule.report_completed(CHECKPOINT)
            end = None
        if rule.next_request(0 if end is None else 1) is not None:
            found.append(clock.now)
            end = clock.now + took
        wait = rule.wait_ms(0 if end is None else 1)
        times = [time for time in (end, None if wait is None else clock.now + wait) if time is not None]
        clock.now = max(min(times), clock.now + (0 if min(times) > clock.now else 1))
    return found


def test_periodic_checkpoints_keep_their_interval(clock: Clock) -> None:
    assert starts(clock, decider(clock), 300, 4000) == [1000, 2000, 3000, 4000]


def test_an_interval_of_1000_and_a_pause_of_500_after_700_gives_1200(clock: Clock) -> None:
    rule = decider(clock, min_pause_ms=500)
    clock.now = 1000
    assert rule.next_request(0) is not None
    clock.now = 1700
    rule.report_completed(CHECKPOINT)
    assert rule.next_periodic_time() == 2200  # 1200 after the start, 200 later than the interval says
    clock.now = 2199
    assert rule.next_request(0) is None
    assert rule.wait_ms(0) == 1
    clock.now = 2200
    assert rule.next_request(0) is not None
    assert rule.next_periodic_time() == 3200  # the timetable moved with it


def test_a_late_wake_up_does_not_move_the_timetable(clock: Clock) -> None:
    rule = decider(clock)
    clock.now = 1013
    assert rule.next_request(0) is not None
    assert rule.next_periodic_time() == 2000


def test_missed_ticks_are_left_out(clock: Clock) -> None:
    rule = decider(clock)
    clock.now = 7300
    assert rule.next_request(0) is not None
    assert rule.next_periodic_time() == 8000


def test_a_checkpoint_longer_than_the_interval_is_followed_at_once(clock: Clock) -> None:
    assert starts(clock, decider(clock), 1300, 5000) == [1000, 2300, 3600, 4900]


def test_an_interval_below_the_pause_is_raised_to_it(clock: Clock) -> None:
    assert starts(clock, decider(clock, interval_ms=10, min_pause_ms=400), 5, 1300) == [400, 805, 1210]


def test_a_pause_means_one_checkpoint_at_a_time(clock: Clock) -> None:
    rule = decider(clock, min_pause_ms=1, max_concurrent=5)
    clock.now = 5000
    assert rule.next_request(1) is None


def test_as_many_as_allowed_run_at_once(clock: Clock) -> None:
    rule = decider(clock, max_concurrent=2)
    clock.now = 1000
    assert rule.next_request(1) is not None
    clock.now = 2000
    assert rule.next_request(2) is None
    assert rule.wait_ms(2) is None
    assert rule.next_request(1) is not None


def test_without_an_interval_nothing_is_periodic(clock: Clock) -> None:
    rule = decider(clock, interval_ms=None)
    clock.now = 10**9
    assert rule.next_request(0) is None
    assert rule.wait_ms(0) is None


def test_savepoints_go_first_and_beside_a_running_checkpoint(clock: Clock) -> None:
    rule = decider(clock)
    wanted, saved = Request(name="wanted"), Request(SAVEPOINT, "saved")
    assert rule.submit(wanted) is None
    assert rule.submit(saved) is None
    assert rule.wait_ms(1) == 0
    assert rule.next_request(1) is saved
    assert rule.next_request(1) is None
    clock.now = 1000
    assert rule.next_request(0) is wanted
    assert rule.next_request(0).name == "periodic"  # type: ignore[union-attr]


def test_a_wanted_checkpoint_does_not_wait_for_the_pause(clock: Clock) -> None:
    rule = decider(clock, min_pause_ms=500)
    rule.report_completed(CHECKPOINT)
    wanted = Request()
    rule.submit(wanted)
    assert rule.wait_ms(0) == 0
    assert rule.next_request(0) is wanted


def test_savepoints_do_not_count_for_the_pause(clock: Clock) -> None:
    rule = decider(clock, min_pause_ms=500)
    clock.now = 900
    rule.report_completed(SAVEPOINT)
    assert rule.next_periodic_time() == 1000
    rule.report_completed(CHECKPOINT)
    assert rule.next_periodic_time() == 1400


def test_the_queue_has_an_end(clock: Clock) -> None:
    rule = decider(clock)
    requests = [Request(name=str(number)) for number in range(1000)]
    assert [rule.submit(request) for request in requests] == [None] * 1000
    one_more = Request()
    assert rule.submit(one_more) is one_more
    assert rule.submit(Request(SAVEPOINT)) is requests[-1]
    assert rule.queued_count == 1000


def test_a_queue_full_of_savepoints_takes_no_savepoint(clock: Clock) -> None:
    rule = decider(clock, max_queued=2)
    rule.submit(Request(SAVEPOINT))
    rule.submit(Request(SAVEPOINT))
    late = Request(SAVEPOINT)
    assert rule.submit(late) is late


def test_stopping_hands_back_who_waits_and_ends_the_timetable(clock: Clock) -> None:
    rule = decider(clock)
    wanted, saved = Request(), Request(SAVEPOINT)
    rule.submit(wanted)
    rule.submit(saved)
    assert rule.stop() == [saved, wanted]
    clock.now = 5000
    assert rule.next_request(0) is None
    rule.restart()
    assert rule.next_periodic_time() == 6000
    rule.restart(7000)
    assert rule.next_periodic_time() == 8000
