"""Redistribution of operator state: vectors by hand from Flink's rule, and what must hold for any state."""

from __future__ import annotations

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from pystate.core.snapshot.handles.handles import FileStateHandle
from pystate.core.snapshot.handles.keyed_state_handle import KeyedStateHandle
from pystate.core.snapshot.handles.operator_state_handle import OperatorStateHandle, OperatorStateShare, StateMetaInfo
from pystate.core.snapshot.metadata import CheckpointMetadata, CheckpointType, SavepointFormatType
from pystate.core.snapshot.operator_state import OperatorState, OperatorSubtaskState
from pystate.core.snapshot.round_robin_repartitioner import repartition
from pystate.core.snapshot.state_assignment import JobVertex, StateAssignmentOperation
from pystate.core.state.operator.format import OperatorStateMode

SPLIT, UNION, BROADCAST = OperatorStateMode.SPLIT_DISTRIBUTE, OperatorStateMode.UNION, OperatorStateMode.BROADCAST
States = dict[str, tuple[OperatorStateMode, int]]


def handle(number: int, states: States) -> OperatorStateHandle:
    infos = {name: StateMetaInfo(mode, count) for name, (mode, count) in states.items()}
    return OperatorStateHandle(infos, "operator", FileStateHandle(f"file-{number}", 1, 0))


def old_state(*subtasks: States) -> list[list[OperatorStateHandle]]:
    return [[handle(number, states)] if states else [] for number, states in enumerate(subtasks)]


def shown(shares: list[list[OperatorStateShare]], name: str) -> list[list[tuple[int, int, int]]]:
    """Per new subtask: (old file, first element, after the last)."""
    found = []
    for mine in shares:
        pieces = [(share.handle.handle, share.elements[name]) for share in mine if name in share.elements]
        found.append([(int(file.path[5:]), *run) for file, run in pieces if isinstance(file, FileStateHandle)])
    return found


def spread(name: str, mode: OperatorStateMode, counts: list[int], parallelism: int) -> list[list[tuple[int, int, int]]]:
    return shown(repartition(old_state(*({name: (mode, count)} for count in counts)), parallelism), name)


def test_from_two_to_three_the_elements_in_a_row_are_dealt_out_in_runs() -> None:
    # in a row: 0a 0b 0c 0d | 1a 1b 1c; 7 over 3: 3, 2, 2
    assert spread("s", SPLIT, [4, 3], 3) == [[(0, 0, 3)], [(0, 3, 4), (1, 0, 1)], [(1, 1, 3)]]


def test_from_three_to_two_and_to_one() -> None:
    # 0a | 1a 1b 1c | 2a; 5 over 2: 3, 2
    assert spread("s", SPLIT, [1, 3, 1], 2) == [[(0, 0, 1), (1, 0, 2)], [(1, 2, 3), (2, 0, 1)]]
    assert spread("s", SPLIT, [1, 3, 1], 1) == [[(0, 0, 1), (1, 0, 3), (2, 0, 1)]]


def test_fewer_elements_than_subtasks_leave_the_last_ones_without() -> None:
    assert spread("s", SPLIT, [2], 4) == [[(0, 0, 1)], [(0, 1, 2)], [], []]


def test_an_empty_old_subtask_is_stepped_over() -> None:
    assert spread("s", SPLIT, [0, 2, 0, 1], 3) == [[(1, 0, 1)], [(1, 1, 2)], [(3, 0, 1)]]


def test_the_next_state_begins_where_the_odd_elements_of_the_last_one_ended() -> None:
    # a: 4 over 3 is 2, 1, 1 from subtask 0; then 1 is first. b: 2 over 3: subtasks 1 and 2; then 0 is first again.
    # c: 5 over 3 is 2, 2, 1 from subtask 0.
    shares = repartition(old_state({"a": (SPLIT, 4), "b": (SPLIT, 2), "c": (SPLIT, 5)}), 3)
    assert shown(shares, "a") == [[(0, 0, 2)], [(0, 2, 3)], [(0, 3, 4)]]
    assert shown(shares, "b") == [[], [(0, 0, 1)], [(0, 1, 2)]]
    assert shown(shares, "c") == [[(0, 0, 2)], [(0, 2, 4)], [(0, 4, 5)]]


def test_a_state_that_goes_up_evenly_leaves_the_first_where_it_was() -> None:
    # a: 1 over 2; then 1 is first. b: 4 over 2 is even, 1 stays first. c: 1 goes to subtask 1.
    shares = repartition(old_state({"a": (SPLIT, 1), "b": (SPLIT, 4), "c": (SPLIT, 1)}, {}, {}), 2)
    assert shown(shares, "a") == [[(0, 0, 1)], []]
    assert shown(shares, "b") == [[(0, 2, 4)], [(0, 0, 2)]]
    assert shown(shares, "c") == [[], [(0, 0, 1)]]


def test_union_goes_whole_to_all_whatever_the_parallelism() -> None:
    whole = [(0, 0, 2), (1, 0, 0), (2, 0, 1)]
    for parallelism in (1, 2, 3, 5):
        assert spread("u", UNION, [2, 0, 1], parallelism) == [whole] * parallelism


def test_a_broadcast_copy_is_read_in_turn() -> None:
    assert spread("b", BROADCAST, [3, 3], 5) == [[(0, 0, 3)], [(1, 0, 3)], [(0, 0, 3)], [(1, 0, 3)], [(0, 0, 3)]]
    assert spread("b", BROADCAST, [3, 3, 3], 2) == [[(0, 0, 3)], [(1, 0, 3)]]


def test_at_the_same_parallelism_split_and_broadcast_stay_where_they_were_and_union_is_merged() -> None:
    states: list[States] = [{"s": (SPLIT, 5), "u": (UNION, 1), "b": (BROADCAST, 2)}, {"s": (SPLIT, 0), "u": (UNION, 2)}]
    shares = repartition(old_state(*states), 2)
    assert shown(shares, "s") == [[(0, 0, 5)], [(1, 0, 0)]]
    assert shown(shares, "u") == [[(0, 0, 1), (1, 0, 2)]] * 2
    assert shown(shares, "b") == [[(0, 0, 2)], []]


def test_a_share_names_each_state_of_its_handle_once() -> None:
    (share,) = repartition(old_state({"s": (SPLIT, 5), "u": (UNION, 1)}), 1)[0]
    assert share.elements == {"s": (0, 5), "u": (0, 1)}


def test_no_state_is_no_share() -> None:
    assert repartition([[], []], 3) == [[], [], []]


names = st.sampled_from(["a", "b", "c", "d"])


@given(
    st.dictionaries(names, st.sampled_from(OperatorStateMode), min_size=1),
    st.lists(st.dictionaries(names, st.integers(0, 7)), min_size=1, max_size=6),
    st.integers(1, 7),
)
def test_nothing_is_lost_or_doubled_and_all_is_balanced(
    modes: dict[str, OperatorStateMode], counts: list[dict[str, int]], parallelism: int
) -> None:
    old = old_state(*({name: (modes[name], n) for name, n in found.items() if name in modes} for found in counts))
    shares = repartition(old, parallelism)
    assert len(shares) == parallelism
    everything = {(file, name): n for file, found in enumerate(counts) for name, n in found.items() if name in modes}
    total = [0] * parallelism
    for name, mode in modes.items():
        owners = [Counter(elements(runs)) for runs in shown(shares, name)]
        all_elements = Counter(elements([(file, 0, n) for (file, known), n in everything.items() if known == name]))
        if mode is UNION:
            assert owners == [all_elements] * parallelism
        elif mode is SPLIT:
            assert sum(owners, Counter()) == all_elements
            if parallelism != len(counts):
                sizes = [owner.total() for owner in owners]
                assert max(sizes) - min(sizes) <= 1
                total = [so_far + size for so_far, size in zip(total, sizes, strict=True)]
        elif parallelism != len(counts):
            files = [file for file, known in everything if known == name]
            for index, owner in enumerate(owners):
                wanted = files[index % len(files)] if files else None
                assert owner == Counter(elements([(wanted, 0, everything[wanted, name])] if wanted is not None else []))
    assert max(total) - min(total) <= 1, "the odd elements of several states are spread, too"


def elements(runs: list[tuple[int, int, int]]) -> list[tuple[int, int]]:
    return [(file, element) for file, start, stop in runs for element in range(start, stop)]


def metadata(*operators: OperatorState) -> CheckpointMetadata:
    return CheckpointMetadata(
        1, CheckpointType.CHECKPOINT, SavepointFormatType.CANONICAL, 0, "", "", 0, 2, 128, list(operators)
    )


def test_operators_that_are_chained_get_their_own_state_at_their_tasks_parallelism() -> None:
    subtasks = {i: OperatorSubtaskState(operator_state=[handle(i, {"s": (SPLIT, 2)})]) for i in range(2)}
    sink = OperatorState("sink", "Sink", 2, 128, subtasks=subtasks)
    assignment = StateAssignmentOperation(metadata(sink), [JobVertex("sink", "Sink", 4)]).assign()
    counts = {place: [share.elements for share in shares] for place, shares in assignment.operator_state.items()}
    assert counts == {
        ("sink", 0): [{"s": (0, 1)}],
        ("sink", 1): [{"s": (1, 2)}],
        ("sink", 2): [{"s": (0, 1)}],
        ("sink", 3): [{"s": (1, 2)}],
    }
    assert assignment.keyed_state_handles == {}


def test_operator_state_binds_nobody_to_a_number_of_key_groups() -> None:
    sink = OperatorState("sink", "Sink", 1, 8, subtasks={0: OperatorSubtaskState(operator_state=[handle(0, {})])})
    assert StateAssignmentOperation(metadata(sink), [JobVertex("sink", "Sink", 100, 256)]).assign().max_parallelism == {
        "sink": 256
    }


def test_raw_keyed_state_goes_to_who_owns_its_key_groups() -> None:
    files = [KeyedStateHandle(first, first + 63, "raw", FileStateHandle(f"raw-{first}", 1, 0)) for first in (0, 64)]
    raw = OperatorStateHandle({"_default_": StateMetaInfo(SPLIT, 3)}, "raw", FileStateHandle("raw", 1, 0))
    subtasks = {
        0: OperatorSubtaskState(raw_keyed_state=files[:1], raw_operator_state=[raw]),
        1: OperatorSubtaskState(raw_keyed_state=files[1:]),
    }
    operator = OperatorState("a", "A", 2, 128, subtasks=subtasks)
    assignment = StateAssignmentOperation(metadata(operator), [JobVertex("a", "A", 3)]).assign()
    assert [assignment.raw_keyed_state[("a", index)] for index in range(3)] == [files[:1], files, files[1:]]
    assert [assignment.raw_operator_state[("a", index)][0].elements for index in range(3)] == [
        {"_default_": (0, 1)},
        {"_default_": (1, 2)},
        {"_default_": (2, 3)},
    ]
    assert assignment.max_parallelism == {"a": 128}
