"""Redistributes operator state to the subtasks of a restored job: Flink's `RoundRobinOperatorStateRepartitioner`.

At an unchanged parallelism each subtask gets its own elements, and those of all subtasks for UNION states. Else the elements
of a SPLIT_DISTRIBUTE state are concatenated in the order of old subtasks, and distributed in ranges: each new subtask gets
`total // parallelism`, the first `total % parallelism` of them one more. The first subtask rotates from state to state, so
that the remainders of many states don't all go to subtask 0. Subtask i reads the copy of a BROADCAST state that old subtask
`i % old parallelism` wrote.
"""

from __future__ import annotations

from collections.abc import Sequence

from pystate.core.snapshot.handles.operator_state_handle import OperatorStateHandle, OperatorStateShare
from pystate.core.state.operator.format import OperatorStateMode

_Place = tuple[int, int, OperatorStateHandle]
_Shares = list[dict[tuple[int, int], OperatorStateShare]]


def repartition(old: Sequence[Sequence[OperatorStateHandle]], parallelism: int) -> list[list[OperatorStateShare]]:
    """Return the shares of each new subtask, in the order of the old handles, without empty shares.

    States are dealt out in the order of their names.

    Args:
        old: The handles of each old subtask, by its index.
        parallelism: The new number of subtasks.
    """
    shares: _Shares = [{} for _ in range(parallelism)]
    unchanged = len(old) == parallelism
    start = 0
    known = {(name, info.mode) for handles in old for handle in handles for name, info in handle.states.items()}
    for name, mode in sorted(known):
        places = _places(old, name, mode)
        if mode is OperatorStateMode.UNION:
            for mine in shares:
                for place in places:
                    _give(mine, place, name, 0, place[2].states[name].count)
        elif unchanged:
            for place in places:
                _give(shares[place[0]], place, name, 0, place[2].states[name].count)
        elif mode is OperatorStateMode.BROADCAST:
            for index, mine in enumerate(shares):
                place = places[index % len(places)]
                _give(mine, place, name, 0, place[2].states[name].count)
        else:
            start = _split(places, name, shares, start)
    return [[mine[number] for number in sorted(mine)] for mine in shares]


def _places(old: Sequence[Sequence[OperatorStateHandle]], name: str, mode: OperatorStateMode) -> list[_Place]:
    """Return (subtask, number, handle) of all old handles that have the state."""
    return [
        (subtask, number, handle)
        for subtask, handles in enumerate(old)
        for number, handle in enumerate(handles)
        if name in handle.states and handle.states[name].mode is mode
    ]


def _split(places: list[_Place], name: str, shares: _Shares, start: int) -> int:
    """Distribute a SPLIT_DISTRIBUTE state; return the first subtask for the next state."""
    parallelism = len(shares)
    base, odd = divmod(sum(place[2].states[name].count for place in places), parallelism)
    # the next one at the end, with its first element that isn't dealt out
    rest = [(place, 0) for place in reversed(places) if place[2].states[name].count > 0]
    for turn in range(parallelism):
        wanted = base + (1 if turn < odd else 0)
        mine = shares[(start + turn) % parallelism]
        while wanted > 0:
            place, first = rest.pop()
            count = place[2].states[name].count
            taken = min(wanted, count - first)
            _give(mine, place, name, first, first + taken)
            if first + taken < count:
                rest.append((place, first + taken))
            wanted -= taken
    return (start + odd) % parallelism


def _give(mine: dict[tuple[int, int], OperatorStateShare], place: _Place, name: str, start: int, stop: int) -> None:
    subtask, number, handle = place
    mine.setdefault((subtask, number), OperatorStateShare(handle)).elements[name] = (start, stop)
