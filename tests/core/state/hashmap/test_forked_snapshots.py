"""Snapshots that a copy of the process writes: the same bytes as without, and nothing left of it whatever happens."""

from __future__ import annotations

import contextlib
import io
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, BinaryIO

import pytest

from pystate.common import Types
from pystate.common.errors import SnapshotError
from pystate.common.time import Time
from pystate.core.api.state import ListStateDescriptor, MapStateDescriptor, StateTtlConfig, ValueStateDescriptor
from pystate.core.snapshot.storage.snapshot_location import SnapshotLocation
from pystate.core.state.base import forked_writer
from pystate.core.state.base.forked_writer import ForkedWriter, ForkFailedError
from pystate.core.state.files.canonical import CanonicalWriter
from pystate.core.state.hashmap import hashmap_keyed_state_backend as hashmap_backend
from pystate.core.state.hashmap import hashmap_snapshot as hashmap_snapshot
from pystate.runtime.slot.snapshots.frozen_task import FrozenOperator
from tests.core.state.conftest import BackendHarness, written
from tests.faults.processes import is_gone, needs_proc
from tests.waiting import wait_until

VALUE = ValueStateDescriptor("value", Types.STRING())
NUMBERS = ListStateDescriptor("list", Types.LONG())
COUNTS = MapStateDescriptor("map", Types.STRING(), Types.LONG())
PLENTY = 1 << 60

pytestmark = needs_proc


@pytest.fixture
def forks(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[int]]:
    """Give the processes that are forked; small states are worth it, and none may be left."""
    monkeypatch.setattr(hashmap_snapshot, "WORTH_A_FORK", 1)
    made: list[int] = []
    fork = os.fork

    def counted() -> int:
        pid = fork()
        if pid:
            made.append(pid)
        return pid

    monkeypatch.setattr(os, "fork", counted)
    before = pipes()
    yield made
    for pid in made:
        with pytest.raises(ChildProcessError):
            os.waitpid(pid, os.WNOHANG)
    assert pipes() <= before


def pipes() -> set[str]:
    """Return the pipes of this process; what else is open may be other threads'."""
    found = set()
    for descriptor in os.listdir("/proc/self/fd"):
        with contextlib.suppress(OSError):
            found.add(os.readlink(f"/proc/self/fd/{descriptor}"))
    return {link for link in found if link.startswith("pipe:")}


def harness_of(forked: bool, **more: Any) -> BackendHarness:
    return BackendHarness("hashmap", settings={"state.backend.hashmap.forked-snapshots": str(forked).lower()}, **more)


def fill(harness: BackendHarness, keys: range, text: str) -> None:
    for key in keys:
        harness.use(f"k{key}", VALUE).update(f"{text} {key}" * (key % 7))
        harness.use(f"k{key}", NUMBERS).add(key)
        harness.use(f"k{key}", COUNTS).put(text, key)
    harness.flush()


def test_the_bytes_are_those_of_one_without_whatever_is_written_behind_it(forks: list[int]) -> None:
    files = []
    for forked in (False, True):
        harness = harness_of(forked)
        fill(harness, range(500), "first")
        frozen = harness.backend.snapshot()
        fill(harness, range(250, 700), "second")
        newer = harness.backend.snapshot()
        harness.use("k3", VALUE).clear()
        harness.flush()
        files.append([written(frozen), written(newer)])
        frozen.release()
        newer.release()
    assert files[0] == files[1]
    assert len(forks) == 2


def test_records_go_on_while_it_is_written(forks: list[int]) -> None:
    harness = harness_of(forked=True)
    fill(harness, range(2_000), "first")
    frozen = harness.backend.snapshot()
    first, found = io.BytesIO(), []
    frozen.write_canonical(first)
    writer = threading.Thread(target=lambda: found.append(written(frozen)))
    writer.start()
    for turn in range(5):
        fill(harness, range(2_000), f"turn {turn}")
    writer.join()
    frozen.release()
    assert found == [first.getvalue()]


def test_small_states_aren_t_worth_it(forks: list[int], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hashmap_snapshot, "WORTH_A_FORK", 501)
    harness = harness_of(forked=True)
    harness.use("k", VALUE).update("x")
    harness.flush()
    harness.save()
    assert forks == []


def test_where_expired_values_are_left_out_it_is_written_here(forks: list[int]) -> None:
    config = StateTtlConfig.new_builder(Time.hours(1)).cleanup_full_snapshot().build()
    descriptor = ValueStateDescriptor("value", Types.STRING())
    descriptor.enable_time_to_live(config)
    harness = harness_of(forked=True)
    harness.use("k", descriptor).update("x")
    harness.flush()
    harness.save()
    assert forks == []


class Sink(io.BytesIO):
    """Takes some bytes at a time, and calls `at` with itself whenever it is written to."""

    def __init__(self, at: Callable[[], object] = lambda: None) -> None:
        super().__init__()
        self.at = at

    def write(self, data: Any, /) -> int:
        self.at()
        return super().write(bytes(data[:1000]))


def numbers_of(count: int, size: int = 10_000) -> Callable[[BinaryIO], list[int]]:
    def write(sink: BinaryIO) -> list[int]:
        for number in range(count):
            sink.write(bytes([number % 256]) * size)
        return [count * size, count]

    return write


def still_open() -> None:
    """Do nothing."""


def test_all_bytes_come(forks: list[int]) -> None:
    sink = Sink()
    assert ForkedWriter().write(numbers_of(300), sink, still_open) == [3_000_000, 300]
    assert sink.getvalue() == b"".join(bytes([number % 256]) * 10_000 for number in range(300))


def test_a_child_has_no_files_of_ours(forks: list[int]) -> None:
    reader, writer = os.pipe()
    os.set_inheritable(writer, True)

    def write(sink: BinaryIO) -> list[int]:
        kept = [int(name) for name in os.listdir("/proc/self/fd") if int(name) > 2]
        return [0, len(kept)]

    count = ForkedWriter().write(write, Sink(), still_open)
    os.close(reader)
    os.close(writer)
    assert count is not None
    assert count[1] == 3  # its two pipes, and the listing


@pytest.mark.parametrize(
    ("write", "message"),
    [
        (lambda sink: os.kill(os.getpid(), signal.SIGKILL), "was killed by SIGKILL, perhaps for want of memory"),
        (lambda sink: os.kill(os.getpid(), signal.SIGRTMIN + 6), "was killed by signal 40, perhaps"),
        (lambda sink: os._exit(3), "ended with exit code 3 and no report"),
        (lambda sink: [7, 1], "has written 7 bytes, and 0 bytes have come"),
        (lambda sink: [sink.write(b"abc"), sink.write(b"d")], "has written 3 bytes, and 4 bytes have come"),
    ],
)
def test_a_child_that_does_not_do_its_work_is_the_last_one(forks: list[int], write: Any, message: str) -> None:
    writer = ForkedWriter(available=lambda: PLENTY)
    assert writer.can_write()
    with pytest.raises(SnapshotError, match=message):
        writer.write(write, Sink(), still_open)
    assert not writer.can_write()


def test_one_that_hangs_is_killed(forks: list[int]) -> None:
    writer = ForkedWriter(silence=0.2)

    def hangs(sink: BinaryIO) -> list[int]:
        sink.write(b"x" * 100)
        time.sleep(3600)
        return [100, 1]

    with pytest.raises(SnapshotError, match="has not said anything for 0.2 s and was killed"):
        writer.write(hangs, Sink(), still_open)
    assert writer.given_up is not None


def test_all_bytes_and_their_number_are_enough_where_others_take_note_of_its_end(forks: list[int]) -> None:
    before = signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # the system does
    try:
        assert ForkedWriter().write(numbers_of(3), Sink(), still_open) == [30_000, 3]
        writer = ForkedWriter()
        with pytest.raises(ForkFailedError, match="has ended without a report"):
            writer.write(lambda sink: os._exit(3), Sink(), still_open)
    finally:
        signal.signal(signal.SIGCHLD, before)


def test_another_process_that_holds_its_ends_holds_nothing_up(forks: list[int], monkeypatch: pytest.MonkeyPatch) -> None:
    pipe, held = os.pipe, []

    def shared_pipe() -> tuple[int, int]:
        reader, writer = pipe()
        held.append(os.dup(writer))
        return reader, writer

    monkeypatch.setattr(os, "pipe", shared_pipe)
    try:
        assert ForkedWriter(silence=30).write(numbers_of(300), Sink(), still_open) == [3_000_000, 300]
    finally:
        for descriptor in held:
            os.close(descriptor)


def test_no_handler_of_ours_runs_in_a_child(forks: list[int], tmp_path: Path) -> None:
    parent = os.getpid()

    def handler(number: int, frame: Any) -> None:
        (tmp_path / str(os.getpid() == parent)).touch()

    before = signal.signal(signal.SIGTERM, handler)
    try:
        writer = ForkedWriter()
        with pytest.raises(ForkFailedError, match="was killed by SIGTERM"):
            writer.write(lambda sink: os.kill(os.getpid(), signal.SIGTERM), Sink(), still_open)
        os.kill(parent, signal.SIGTERM)  # and here they do still
    finally:
        signal.signal(signal.SIGTERM, before)
    assert [path.name for path in tmp_path.iterdir()] == ["True"]


def test_a_release_is_seen_while_the_report_is_waited_for(forks: list[int], monkeypatch: pytest.MonkeyPatch) -> None:
    parent = os.getpid()
    pack = forked_writer.msgpack.packb
    monkeypatch.setattr(
        forked_writer.msgpack, "packb", lambda data: pack(data) if os.getpid() == parent else time.sleep(3600)
    )
    sink = Sink()

    def released() -> None:
        if len(sink.getvalue()) == 30_000:
            message = "released meanwhile"
            raise SnapshotError(message)

    with pytest.raises(SnapshotError, match="released meanwhile"):
        ForkedWriter(silence=3600).write(numbers_of(3), sink, released)


@pytest.mark.parametrize("cause", ["killed", "no memory"])
def test_what_a_child_fails_to_write_is_written_here_and_none_is_forked_any_more(
    forks: list[int], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, cause: str
) -> None:
    monkeypatch.setattr(hashmap_backend, "FORKS", ForkedWriter())
    parent, write = os.getpid(), CanonicalWriter.write_pieces

    def fails(self: CanonicalWriter, *rest: Any) -> None:
        if os.getpid() != parent and self.entries > 100:
            if cause == "killed":
                os.kill(os.getpid(), signal.SIGKILL)
            raise MemoryError
        write(self, *rest)

    monkeypatch.setattr(CanonicalWriter, "write_pieces", fails)
    location = SnapshotLocation(tmp_path.as_uri())
    files = []
    for forked in (True, True, False):
        harness = harness_of(forked)  # another attempt in the same process
        fill(harness, range(500), "text")
        frozen = FrozenOperator("uid", harness.backend.key_context.key_group_range, keyed=harness.backend.snapshot())
        (handle,) = frozen.write(location, 0, 100).keyed_state
        frozen.release()
        with location.open(handle.handle) as file:
            files.append(file.read())
    assert files[0] == files[1] == files[2]
    assert len(forks) == 1
    assert len(list(tmp_path.iterdir())) == 3, "what the child had written isn't left"


def test_without_descriptors_it_is_written_here(forks: list[int], monkeypatch: pytest.MonkeyPatch) -> None:
    pipe, made = os.pipe, []

    def one_pipe() -> tuple[int, int]:
        if made:
            raise OSError(24, "Too many open files")
        made.append(1)
        return pipe()

    monkeypatch.setattr(os, "pipe", one_pipe)
    assert ForkedWriter().write(numbers_of(3), Sink(), still_open) is None


def test_one_that_hangs_behind_its_last_byte_is_killed(forks: list[int], monkeypatch: pytest.MonkeyPatch) -> None:
    pack = forked_writer.msgpack.packb
    parent = os.getpid()
    monkeypatch.setattr(
        forked_writer.msgpack, "packb", lambda data: pack(data) if os.getpid() == parent else time.sleep(3600)
    )
    with pytest.raises(ForkFailedError, match="has not said anything for 0.2 s and was killed"):
        ForkedWriter(silence=0.2).write(numbers_of(3), Sink(), still_open)


def test_an_error_of_a_child_is_told(forks: list[int]) -> None:
    def fails(sink: BinaryIO) -> list[int]:
        sink.write(b"x")
        message = "a value that can't be written"
        raise ValueError(message)

    writer = ForkedWriter()
    with pytest.raises(ForkFailedError, match="failed: ValueError: a value that can't be written"):
        writer.write(fails, Sink(), still_open)
    assert not writer.can_write()


def test_what_stops_this_process_stops_the_child(forks: list[int]) -> None:
    calls: list[int] = []

    def released() -> None:
        calls.append(1)
        if len(calls) == 3:
            message = "released meanwhile"
            raise SnapshotError(message)

    writer = ForkedWriter()
    with pytest.raises(SnapshotError, match="released meanwhile"):
        writer.write(numbers_of(100_000), Sink(), released)

    def full() -> None:
        raise OSError(28, "No space left on device")

    with pytest.raises(OSError, match="No space left"):
        writer.write(numbers_of(100_000), Sink(full), still_open)
    assert writer.given_up is None


def test_a_snapshot_that_is_released_while_a_child_writes_stops(forks: list[int]) -> None:
    harness = harness_of(forked=True)
    fill(harness, range(2_000), "text")
    frozen = harness.backend.snapshot()
    with pytest.raises(SnapshotError, match="released before it was written"):
        frozen.write_canonical(Sink(frozen.release))


def test_without_memory_or_processes_it_is_written_here(forks: list[int], monkeypatch: pytest.MonkeyPatch) -> None:
    assert not ForkedWriter(available=lambda: 1 << 20).can_write()
    assert ForkedWriter(available=lambda: None).can_write()

    def refused() -> int:
        raise BlockingIOError(11, "Resource temporarily unavailable")

    monkeypatch.setattr(os, "fork", refused)
    harness = harness_of(forked=True)
    fill(harness, range(50), "text")
    found = harness.save()
    other = harness_of(forked=False)
    fill(other, range(50), "text")
    assert found == other.save()
    assert forks == []


@pytest.mark.parametrize("closed", [(), (0,), (0, 1, 2)])
@pytest.mark.parametrize("hangs", [False, True])
def test_a_child_ends_when_its_parent_has_died(forks: list[int], closed: tuple[int, ...], hangs: bool) -> None:
    reader, writer = os.pipe()
    middle = os.fork()
    if middle == 0:
        os.close(reader)
        for descriptor in closed:  # then its pipes get these
            os.close(descriptor)

        def write(sink: BinaryIO) -> list[int]:
            while True:
                sink.write(b"x" * 4096)
                time.sleep(3600 * hangs)

        def tell() -> None:
            # the child's number is the only one in here
            with open(f"/proc/self/task/{threading.get_native_id()}/children", encoding="ascii") as file:
                os.write(writer, file.read().encode())
            os.kill(os.getpid(), signal.SIGKILL)

        ForkedWriter().write(write, Sink(tell), still_open)
    os.close(writer)
    child = int(os.read(reader, 100))
    os.close(reader)
    os.waitpid(middle, 0)
    wait_until(lambda: is_gone(child))
