"""The joins that PyFlink hasn't answer what its own programs make of state, timers and windows (`programs/joins.py`)."""

from __future__ import annotations

import json

import pytest

from pystate.common import Duration, Types, WatermarkStrategy
from pystate.common.time import Time
from pystate.common.watermark_strategy import TimestampAssigner
from pystate.datastream import CoGroupFunction, ProcessJoinFunction
from pystate.datastream.window import EventTimeSessionWindows, SlidingEventTimeWindows, TumblingEventTimeWindows
from tests.fidelity.answers import Program, load_programs
from tests.fidelity.in_process import ALL
from tests.fidelity.ours import ask
from tests.fidelity.recorded import FILE, read

BY_HAND = {program.name: program for program in load_programs("pystate") if program.name.startswith("joins.")}
INPUT = next(iter(BY_HAND.values())).build.__globals__
PAIR, TEXT = Types.TUPLE([Types.STRING(), Types.LONG()]), Types.STRING()
WINDOWS = {
    "tumbling": TumblingEventTimeWindows.of(Time.seconds(1)),
    "sliding": SlidingEventTimeWindows.of(Time.seconds(2), Time.seconds(1)),
    "session": EventTimeSessionWindows.with_gap(Time.milliseconds(600)),
}
BOUNDS = {"around": (-1000, 1000, False), "after": (0, 1500, False), "exclusive": (-400, 1000, True)}


class SecondField(TimestampAssigner):
    def extract_timestamp(self, value, record_timestamp):
        return value[1]


class Matches(ProcessJoinFunction):
    def process_element(self, left, right, ctx):
        assert (left[1], right[1]) == (ctx.get_left_timestamp(), ctx.get_right_timestamp())
        yield f"{left[0]} {left[1]} {right[1]} {ctx.get_timestamp()}"


class Groups(CoGroupFunction):
    def co_group(self, first, second):
        first, second = list(first), list(second)
        key = (first or second)[0][0]
        yield f"{key} {sorted(value[1] for value in first)} {sorted(value[1] for value in second)}"


def timed(env, elements):
    strategy = WatermarkStrategy.for_bounded_out_of_orderness(Duration.of_seconds(20))
    return env.from_collection(elements, PAIR).assign_timestamps_and_watermarks(
        strategy.with_timestamp_assigner(SecondField())
    )


def by_name(value):
    return value[0]


def streams(env):
    return timed(env, INPUT["ORDERS"]), timed(env, INPUT["PAYMENTS"])


def interval(env, kind):
    lower, upper, exclusive = BOUNDS[kind]
    orders, payments = (stream.key_by(by_name, TEXT) for stream in streams(env))
    join = orders.interval_join(payments).between(Time.milliseconds(lower), Time.milliseconds(upper))
    if exclusive:
        join = join.lower_bound_exclusive().upper_bound_exclusive()
    return join.process(Matches(), TEXT)


def window_join(env, kind):
    orders, payments = streams(env)
    windows = orders.join(payments).where(by_name, TEXT).equal_to(by_name).window(WINDOWS[kind])
    return windows.apply(lambda one, other: f"{one[0]} {one[1]} {other[1]}", TEXT)


def co_group(env, kind):
    orders, payments = streams(env)
    windows = orders.co_group(payments).where(by_name, TEXT).equal_to(by_name).window(WINDOWS[kind])
    return windows.apply(Groups(), TEXT)


OURS = {
    **{f"joins.interval_{kind}": (interval, kind) for kind in BOUNDS},
    **{f"joins.window_join_{kind}": (window_join, kind) for kind in WINDOWS},
    **{f"joins.co_group_{kind}": (co_group, kind) for kind in WINDOWS},
}


def test_each_program_of_joins_has_one_of_ours():
    assert set(OURS) == set(BY_HAND)


@pytest.mark.parametrize("rows_per_epoch", [1, ALL])
@pytest.mark.parametrize("parallelism", [1, 2])
@pytest.mark.parametrize("name", OURS)
def test_a_join_gives_what_pyflink_makes_of_windows_and_state(name: str, parallelism: int, rows_per_epoch: int):
    build, kind = OURS[name]
    program = Program(name, lambda env: build(env, kind), False, False, (1, 2))
    answer = read(FILE)["answers"][f"STREAMING {parallelism}"][name]
    assert sum(answer.values()) > 4, json.dumps(answer)
    assert ask(program, parallelism, rows_per_epoch) == {name: answer}
