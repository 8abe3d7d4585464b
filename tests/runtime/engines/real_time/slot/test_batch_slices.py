"""How batches are cut."""

import pyarrow as pa

from pystate.runtime.engines.real_time.slot.batch_slices import SLICE_S, BatchSlices


def batch(rows):
    return pa.RecordBatch.from_arrays([pa.array(range(rows))], names=["value"])


def test_slices_hold_all_rows_in_order_and_take_about_as_long_as_they_should():
    now, seen, took = 0.0, [], []
    slices = BatchSlices(lambda: now)
    for seconds_a_row in (1e-6, 0.1, 1e-4):
        for _ in range(30):
            for rows in slices.of(batch(700)):
                seen += rows.column(0).to_pylist()
                now += rows.num_rows * seconds_a_row
                took.append(rows.num_rows * seconds_a_row)
        assert seen == list(range(700)) * 30
        seen.clear()
    assert max(took[-50:]) <= 1.01 * SLICE_S
    assert SLICE_S / 2 < sum(took[-50:]) / 50


def test_one_row_at_a_time_where_that_takes_long():
    now = 0.0
    slices = BatchSlices(lambda: now)
    lengths = []
    for rows in slices.of(batch(600)):
        lengths.append(rows.num_rows)
        now += rows.num_rows * 1.0
    assert lengths == [1] * 600
