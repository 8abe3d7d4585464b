import pytest

from pystate.slot.kept_output import KeptOutput


def test_batches_come_back_in_order_per_tag(tmp_path):
    kept = KeptOutput(1000, str(tmp_path))
    kept.append(1, b"a", 1)
    kept.append(2, b"x", 5)
    kept.append(1, b"b", 2)
    assert list(kept.batches(1)) == [b"a", b"b"]
    assert list(kept.batches(2)) == [b"x"]
    assert list(kept.batches(3)) == []
    assert kept.rows == 8


@pytest.mark.parametrize("bound", [0, 5, 25])
def test_what_is_past_the_bound_is_spilled_and_comes_back_all_the_same(tmp_path, bound):
    kept = KeptOutput(bound, str(tmp_path))
    batches = [bytes([i]) * 10 for i in range(10)]
    for batch in batches:
        kept.append(0, batch, 1)
    assert list(kept.batches(0)) == batches
    assert list(kept.batches(0)) == batches, "askers may read it again"
    assert kept.spilled_bytes == 10 * (10 - bound // 10)
    kept.close()
    assert list(tmp_path.iterdir()) == []
