"""A relay between a slot and a shuffle, both of which a test plays."""

from __future__ import annotations

import queue
import threading

import pyarrow as pa
import pytest

from pystate.common.errors import ControlError
from pystate.common.processes.control import AuthenticatedListener, connect, hang_up
from pystate.runtime.engines.real_time.slot.frames import PLACE_SIZE, FrameKind, pack_frame
from pystate.runtime.engines.real_time.spark.relay import SCHEMA, Relay, RelayDirectory
from tests.waiting import wait_until

SECRET = b"secret"


class Slot:
    """The slot's side of one relay."""

    def __init__(self, path):
        self.came = []
        self.connection = None
        self._listener = AuthenticatedListener(SECRET, self._serve, path=str(path), name="slot")
        self._listener.start()
        self.address = self._listener.address
        self.over = threading.Event()

    def _serve(self, connection):
        self.connection = connection
        try:
            while True:
                self.came.append(connection.recv_bytes())
        except (EOFError, OSError):
            self.over.set()

    def close(self):
        self._listener.close()


class Shuffle:
    """Rows for one partition, as Spark hands them to Python."""

    def __init__(self):
        self._rows = queue.Queue()

    def put(self, frame):
        self._rows.put(frame)

    def __iter__(self):
        while (frame := self._rows.get()) is not None:
            columns = [pa.array([0], pa.int32()), pa.array([frame], pa.binary())]
            yield pa.RecordBatch.from_arrays(columns, schema=SCHEMA)


@pytest.fixture
def bench(tmp_path):
    slot, shuffle = Slot(tmp_path / "slot"), Shuffle()
    directory = RelayDirectory("j" * 32, 0, SECRET, ((slot.address,) * 2, (slot.address,) * 3, (slot.address,) * 2))
    connection = connect(slot.address, SECRET)
    rows = Relay(directory, 1, 2, connection).run(iter(shuffle))
    wait_until(lambda: slot.connection is not None)
    yield slot, shuffle, rows
    connection.close()
    slot.close()


def frame(level, partition, data=b"rows"):
    return pack_frame((level, partition), FrameKind.BATCH, 0, 0, data)


def next_rows(rows):
    batch = next(rows)
    return list(zip(batch.column(0).to_pylist(), batch.column(1).to_pylist(), strict=True))


def test_what_the_slot_sends_goes_to_its_partition_with_an_empty_row_after_the_burst(bench):
    slot, _, rows = bench
    slot.connection.send_bytes(frame(2, 1))
    assert next_rows(rows) == [(1, frame(2, 1)), (1, b"")], "in one batch: each costs as much as one with records"
    slot.connection.send_bytes(frame(2, 0))
    assert next_rows(rows) == [(0, frame(2, 0)), (0, b"")]


def test_a_burst_ends_with_an_empty_row_for_each_partition_that_it_has_gone_to(bench):
    _, shuffle, rows = bench
    burst = [frame(2, 0), frame(2, 1), frame(2, 0)]
    for one in burst:
        shuffle.put(one)
    found, ended = [], set()
    while len([data for _, data in found if data]) < len(burst) or ended != {0, 1}:
        for to, data in next_rows(rows):  # whether the burst is one to the relay depends on who is faster
            found.append((to, data))
            (ended.discard if data else ended.add)(to)
    assert [data for _, data in found if data] == burst


def test_what_the_shuffle_brings_goes_to_the_slot_without_its_place_and_empty_rows_to_nobody(bench):
    slot, shuffle, rows = bench
    threading.Thread(target=lambda: list(rows), daemon=True).start()
    for one in (frame(1, 2, b"a"), b"", frame(1, 2, b"b")):
        shuffle.put(one)
    wait_until(lambda: len(slot.came) == 2)
    assert slot.came == [frame(1, 2, b"a")[PLACE_SIZE:], frame(1, 2, b"b")[PLACE_SIZE:]]


def test_frames_for_a_later_level_ride_along_past_the_slot(bench):
    slot, shuffle, rows = bench
    shuffle.put(frame(2, 1))
    assert next_rows(rows)[0] == (1, frame(2, 1))
    assert slot.came == []


def test_a_frame_for_a_level_before_is_an_error(bench):
    slot, _, rows = bench
    slot.connection.send_bytes(frame(1, 0))
    with pytest.raises(ControlError, match="for level 1 came to the relay of level 1"):
        next(rows)


def test_rows_that_just_end_are_no_end(bench):
    _, shuffle, rows = bench
    shuffle.put(None)
    with pytest.raises(ControlError, match="has ended, while records may be under way"):
        next(rows)


def test_a_slot_that_is_gone_fails_the_relay(bench):
    slot, _, rows = bench
    hang_up(slot.connection)
    with pytest.raises(ControlError, match="is gone"):
        next(rows)


def test_frames_two_levels_on_always_ride_through_the_same_relay(tmp_path):
    slot, shuffle = Slot(tmp_path / "slot"), Shuffle()
    directory = RelayDirectory("j" * 32, 0, SECRET, ((slot.address,) * 2, (slot.address,) * 3, (slot.address,) * 5))
    with connect(slot.address, SECRET) as connection:
        rows = Relay(directory, 0, 1, connection).run(iter(shuffle))
        wait_until(lambda: slot.connection is not None)
        for partition in range(5):
            slot.connection.send_bytes(frame(2, partition))
        found = []
        while len(found) < 5:
            found += [to for to, data in next_rows(rows) if data]
        assert set(found) == {1}
    slot.close()
