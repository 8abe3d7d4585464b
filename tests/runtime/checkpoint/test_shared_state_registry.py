"""Which shared files go, and when: Flink's rules."""

from hypothesis import given
from hypothesis import strategies as st

from pystate.runtime.checkpoint.retention.shared_state_registry import SharedStateRegistry


def registered(*uses):
    """A registry in which each (checkpoint, key) was registered, in order."""
    registry = SharedStateRegistry()
    for checkpoint, key in uses:
        registry.register(key, f"{key}@{checkpoint}", checkpoint)
    return registry


def test_a_file_goes_when_the_last_checkpoint_that_uses_it_is_subsumed():
    registry = SharedStateRegistry()
    for checkpoint, keys in enumerate(["ab", "bc", "c"], start=1):
        for key in keys:
            registry.register(key, key, checkpoint)
    assert registry.unregister_unused(1) == []
    assert registry.unregister_unused(2) == ["a"]
    assert registry.unregister_unused(3) == ["b"]
    assert registry.handles() == ["c"]


def test_the_same_file_registered_twice_is_one():
    registry = registered((1, "a"))
    registry.register("a", "a@1", 2)
    assert registry.handles() == ["a@1"]
    assert registry.unregister_unused(2) == []


def test_what_was_restored_without_a_claim_is_never_deleted():
    registry = SharedStateRegistry()
    registry.register_restored([("a", "theirs")], 7, claimed=False)
    registry.register("b", "ours", 8)
    assert registry.unregister_unused(9) == ["ours"]
    assert len(registry) == 0


def test_what_was_restored_with_a_claim_goes_like_the_jobs_own():
    registry = SharedStateRegistry()
    registry.register_restored([("a", "claimed")], 7, claimed=True)
    registry.register("a", "claimed", 8)
    assert registry.unregister_unused(8) == []
    assert registry.unregister_unused(9) == ["claimed"]


def test_an_older_checkpoint_that_registers_late_does_not_shorten_a_life():
    registry = SharedStateRegistry()
    registry.register("a", "a", 5)
    registry.register("a", "a", 3)
    assert registry.unregister_unused(5) == []


@given(
    st.lists(st.frozensets(st.sampled_from("abcdef"), max_size=4), max_size=12),
    st.integers(1, 3),
    st.booleans(),
)
def test_no_file_of_a_retained_checkpoint_is_ever_deleted_and_in_the_end_none_is_left(checkpoints, retained, again):
    registry = SharedStateRegistry()
    deleted, uploaded, complete = [], set(), []
    for checkpoint, keys in enumerate(checkpoints, start=1):
        held = {}
        for key in keys:
            known = complete[-1][1].get(key) if complete and not again else None
            held[key] = known or f"{key}@{checkpoint}"
            uploaded.add(held[key])
            registry.register(held[key], held[key], checkpoint)
        complete = [*complete, (checkpoint, held)][-retained:]
        deleted += registry.unregister_unused(complete[0][0])
        for _, files in complete:
            assert not set(files.values()) & set(deleted)
    deleted += registry.unregister_unused(len(checkpoints) + 1)
    assert sorted(deleted) == sorted(uploaded)
