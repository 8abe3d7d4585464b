"""Breadth first over all states that a model can come to: the fault that is found has the shortest way to it."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Hashable, Iterable
from dataclasses import dataclass
from typing import Generic, TypeVar

S = TypeVar("S", bound=Hashable)

MOST_STATES = 400_000
"""A model that has more is too large for a test."""


class FaultFoundError(AssertionError):
    """A state that breaks a rule.

    Attributes:
        what: Which rule.
        trace: What happened, from the start on.
    """

    def __init__(self, what: str, trace: list[str]) -> None:
        self.what = what
        self.trace = trace
        super().__init__("\n  ".join([what, *trace]))


@dataclass(frozen=True)
class Explored(Generic[S]):
    """What a search has seen.

    Attributes:
        states: All of them.
        ends: Those behind which nothing can happen.
    """

    states: frozenset[S]
    ends: tuple[S, ...]


def explore(
    start: S,
    steps: Callable[[S], Iterable[tuple[str, S]]],
    check: Callable[[S], str | None] = lambda _: None,
    check_end: Callable[[S], str | None] = lambda _: None,
) -> Explored[S]:
    """Visit every state that can be reached.

    Args:
        start: The first one.
        steps: What can happen in a state, with the state behind it.
        check: Says what is wrong with a state; None for nothing.
        check_end: The same for one in which nothing can happen any more.

    Raises:
        FaultFoundError: Something is wrong.
    """
    before: dict[S, tuple[S, str] | None] = {start: None}
    waiting, ends = deque([start]), []
    while waiting:
        state = waiting.popleft()
        wrong = check(state)
        following = [] if wrong else list(steps(state))
        if not wrong and not following:
            ends.append(state)
            wrong = check_end(state)
        if wrong:
            raise FaultFoundError(wrong, _way(before, state))
        for label, after in following:
            if after not in before:
                before[after] = state, label
                waiting.append(after)
        assert len(before) < MOST_STATES, "the model is too large"
    return Explored(frozenset(before), tuple(ends))


def _way(before: dict[S, tuple[S, str] | None], state: S) -> list[str]:
    labels = []
    while (step := before[state]) is not None:
        state, label = step
        labels.append(label)
    return labels[::-1]
