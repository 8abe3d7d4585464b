"""Counts what Python does: instructions of the interpreter and calls of functions in C, which are the same in each run."""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import FrameType
from typing import Any


def steps_of(work: Callable[[], Any]) -> int:
    """Return how many instructions a call runs, those of all that it calls, and how many functions in C.

    What such a function does inside isn't seen: the time of a sort, or of a column's kernel in Arrow, counts as one.
    """
    steps = 0

    def within(_frame: FrameType, event: str, _argument: Any) -> Any:
        nonlocal steps
        steps += event == "opcode"
        return within

    def entered(frame: FrameType, _event: str, _argument: Any) -> Any:
        frame.f_trace_opcodes, frame.f_trace_lines = True, False
        return within

    def called(_frame: FrameType, event: str, _argument: Any) -> None:
        nonlocal steps
        steps += event == "c_call"

    tracer, profiler = sys.gettrace(), sys.getprofile()
    sys.setprofile(called)
    sys.settrace(entered)
    try:
        work()
    finally:
        sys.settrace(tracer)
        sys.setprofile(profiler)
    return steps


def floor(count: int) -> Callable[[], None]:
    """Return a loop that counts so many words in a dict: what all costs are compared with."""
    words = [f"word-{number % 10}" for number in range(count)]

    def loop() -> None:
        counts: dict[str, int] = {}
        results = []
        for word in words:
            seen = counts.get(word, 0) + 1
            counts[word] = seen
            results.append((word, seen))

    return loop
