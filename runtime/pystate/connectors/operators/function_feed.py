"""Runs a `SourceFunction`: its thread, its lock, and the elements that wait for an epoch.

    run(), on its thread -- collect, under the lock --> waiting elements -- take, in an epoch --> the stream

A snapshot holds the function's state and the elements that wait, both as they are under the lock. So the function runs
during epochs and checkpoints, and snapshots agree exactly with what epochs have taken.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any

from pystate.common.errors import JobExecutionError, StateError
from pystate.common.type_info import TypeInformation, Types
from pystate.connectors.operators.element_sizes import MEASURE_EVERY, ElementSizes
from pystate.connectors.operators.source_feed import EpochLimit, SourceFeed
from pystate.connectors.source import ReaderOutput, SourceContext, SourceFunction
from pystate.core.api.checkpointed import (
    CheckpointedFunction,
    CheckpointListener,
    FunctionInitializationContext,
    FunctionSnapshotContext,
    ListCheckpointed,
)
from pystate.core.api.functions import RuntimeContext
from pystate.core.api.state import ListState, ListStateDescriptor
from pystate.core.records.element_copy import UNCHANGING, copied
from pystate.core.state.formats.all_formats import is_immutable

WAITING = "source-waiting-elements"
"""The name of the list state with elements that the function has handed on and no epoch has taken."""

POSITION = "_default_"
"""The name of the list state of a `ListCheckpointed` function, as everywhere."""

MOST_WAITING = 10_000
"""Elements that wait for an epoch until the function waits."""

MOST_WAITING_BYTES = 32 << 20
"""The same in bytes, by a sample of the elements."""

_OVERSHOOT = 4
"""How many times the limit a function may emit while it holds the lock once."""

LOCK_TIMEOUT_S = 10.0
"""How long a snapshot waits for the checkpoint lock."""

CANCEL_TIMEOUT_S = 2.0
"""How long a function has to return from `run` once it is cancelled; then its thread is left behind."""

_LINGER_S = 0.005
_FEW = 20
"""A function that hands on fewer elements while an epoch lingers is a slow one: the epoch doesn't wait for more."""
_NO_TIME = -(1 << 63)


class SourceClosedError(JobExecutionError):
    """The attempt is over and takes no more elements. Ends a `run` that ignores `cancel`."""


class _Watermark:
    """A watermark among the elements; None for an idle source."""

    __slots__ = ("mark",)

    def __init__(self, mark: int | None) -> None:
        self.mark = mark


_Item = tuple[Any, int | None]


class CheckpointLock(AbstractContextManager["CheckpointLock"]):
    """The lock of `get_checkpoint_lock`: acquired only when there is room, so that its holder needn't wait for room.

    Args:
        await_room: Waits until an element may be emitted.
    """

    def __init__(self, await_room: Callable[[], None]) -> None:
        self._await_room = await_room
        self._lock = threading.RLock()
        self._owner: int | None = None
        self._depth = 0

    @property
    def is_mine(self) -> bool:
        """Return whether the current thread holds the lock."""
        return self._owner == threading.get_ident()

    def acquire(self) -> None:
        """Acquire the lock once there is room for an element."""
        if not self.is_mine:
            self._await_room()
        self.acquire_at_once(-1)

    def acquire_at_once(self, timeout_s: float) -> bool:
        """Acquire the lock regardless of room; return whether that succeeded within the timeout."""
        if not self._lock.acquire(timeout=timeout_s):
            return False
        self._owner = threading.get_ident()
        self._depth += 1
        return True

    def release(self) -> None:
        """Release the lock.

        Raises:
            JobExecutionError: The current thread doesn't hold it.
        """
        if not self.is_mine:
            message = "The checkpoint lock is released by a thread that does not hold it."
            raise JobExecutionError(message, hint="write: with ctx.get_checkpoint_lock(): ...")
        self._depth -= 1
        if self._depth == 0:
            self._owner = None
        self._lock.release()

    def __enter__(self) -> CheckpointLock:
        """Take it."""
        self.acquire()
        return self

    def __exit__(self, *error: object) -> None:
        """Let go."""
        self.release()


class WaitingElements(SourceContext[Any]):
    """A bounded buffer between a function's thread and the epochs; the function waits when it is full.

    Args:
        most: The capacity.

    Attributes:
        lock: The checkpoint lock.
        wake: Called when an element arrives while the epochs sleep.
        copies: Whether elements may be mutable, and are copied.
    """

    def __init__(self, most: int = MOST_WAITING) -> None:
        self.lock = CheckpointLock(self.await_room)
        self.wake: Callable[[], object] = lambda: None
        self.copies = True
        self._limit = self._most = most
        self._sizes = ElementSizes(MOST_WAITING_BYTES)
        self._put_in = 0
        self._items: deque[_Item] = deque()
        self._changed = threading.Condition()
        self._closed = False
        self._done = False
        self._error: BaseException | None = None
        self._freezing = False  # a snapshot wants the lock: its holder gets room, and nobody else gets the lock
        self._asleep = False

    # -- the function's side

    def collect(self, element: Any) -> None:
        """Add an element."""
        self._put(self._own(element), None)

    def collect_with_timestamp(self, element: Any, timestamp: int) -> None:
        """Add an element with its timestamp."""
        self._put(self._own(element), timestamp)

    def _own(self, element: Any) -> Any:
        """Return a copy that the function can't change: it continues while the element waits."""
        return copied(element) if self.copies and type(element) not in UNCHANGING else element

    def emit_watermark(self, mark: int) -> None:
        """Add a watermark."""
        self._put(_Watermark(mark), None)

    def mark_as_temporarily_idle(self) -> None:
        """Mark the subtask as idle."""
        self._put(_Watermark(None), None)

    def get_checkpoint_lock(self) -> CheckpointLock:
        """Return the lock."""
        return self.lock

    def close(self) -> None:
        """Reject further elements."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()

    def await_room(self) -> None:
        """Wait until an element may be emitted, and no snapshot waits for the lock."""
        if len(self._items) < self._most and not (self._closed or self._freezing):  # being off by a few does no harm
            return
        self._await(lambda: not self._freezing and len(self._items) < self._most)

    def _await_room_inside(self) -> None:
        most = _OVERSHOOT * self._most
        if len(self._items) >= most or self._closed:
            self._await(lambda: self._freezing or len(self._items) < most)

    def _await(self, may_go_on: Callable[[], bool]) -> None:
        with self._changed:
            self._changed.wait_for(lambda: self._closed or may_go_on())
            if self._closed:
                message = "The attempt has ended, nobody takes elements any more."
                raise SourceClosedError(message)

    def _put(self, element: Any, timestamp: int | None) -> None:
        if not self._put_in % MEASURE_EVERY:
            self._sizes.measure(element)
            self._most = self._sizes.bound(self._limit)
        self._put_in += 1
        if self.lock.is_mine:
            self._await_room_inside()
            self._items.append((element, timestamp))
        else:
            with self.lock:
                self._items.append((element, timestamp))
        if self._asleep:
            self._rouse()

    def ended(self, error: BaseException | None) -> None:
        """Record that `run` is over.

        Args:
            error: What it raised; None where it returned.
        """
        with self._changed:
            self._done, self._error = True, error
            self._changed.notify_all()
        self._rouse()

    def _rouse(self) -> None:
        with self._changed:
            asleep, self._asleep = self._asleep, False
            self._changed.notify_all()
        if asleep:
            self.wake()

    # -- the epochs' side

    def __len__(self) -> int:
        """Return the number of waiting elements."""
        return len(self._items)

    def take(self, most: int) -> list[_Item]:
        """Take up to this many elements, oldest first."""
        items = self._items
        taken = [items.popleft() for _ in range(min(most, len(items)))]
        if taken:
            with self._changed:
                self._changed.notify_all()
        return taken

    def put_back(self, items: list[_Item]) -> None:
        """Restore the elements of a snapshot, before the function runs."""
        self._items.extendleft(reversed(items))

    @property
    def is_at_end(self) -> bool:
        """Whether `run` is over and nothing waits."""
        return self._done and not self._items

    def check(self) -> None:
        """Raise what `run` raised, once all elements emitted before are taken."""
        if self._error is not None and not self._items:
            raise self._error

    def sleep(self) -> bool:
        """Have `wake` called for the next element; return whether there is none yet."""
        with self._changed:
            self._asleep = not (self._items or self._done)
            return self._asleep

    def await_more(self, timeout_s: float) -> None:
        """Wait for an element or the end, with a timeout."""
        with self._changed:
            self._asleep = True
            self._changed.wait_for(lambda: bool(self._items) or self._done or self._closed, timeout_s)
            self._asleep = False

    def freeze(self, timeout_s: float) -> None:
        """Acquire the lock for a snapshot; if the function holds it while it waits for room, it gets the room.

        Raises:
            StateError: The function holds the lock for too long.
        """
        self._set_freezing(freezing=True)
        if not self.lock.acquire_at_once(timeout_s):
            self._set_freezing(freezing=False)
            message = f"The source's function has held the checkpoint lock for {timeout_s:g} s: no snapshot can be taken."
            raise StateError(message, hint="hold get_checkpoint_lock() per element, and wait for input outside of it")

    def thaw(self) -> None:
        """Release the lock after a snapshot."""
        self.lock.release()
        self._set_freezing(freezing=False)

    def _set_freezing(self, *, freezing: bool) -> None:
        with self._changed:
            self._freezing = freezing
            self._changed.notify_all()

    def waiting(self) -> list[_Item]:
        """Return the waiting elements without watermarks, which are emitted again after a restore."""
        return [item for item in list(self._items) if not isinstance(item[0], _Watermark)]


class FunctionFeed(SourceFeed):
    """One subtask of a `SourceFunction`.

    Args:
        function: The user's function.
        type_info: The type of its elements.
        most_waiting: The capacity of the buffer.
    """

    def __init__(
        self, function: SourceFunction[Any], type_info: TypeInformation | None, most_waiting: int = MOST_WAITING
    ) -> None:
        self._function = function
        self._type = type_info or Types.PICKLED_BYTE_ARRAY()
        self.elements = WaitingElements(most_waiting)
        self.elements.copies = not is_immutable(self._type)
        self._kept: ListState[Any] | None = None
        self._parts: ListState[Any] | None = None
        self._thread: threading.Thread | None = None

    def initialize_state(self, context: FunctionInitializationContext) -> None:
        """Restore the function's position, and the elements that were waiting."""
        store = context.get_operator_state_store()
        kept = self._kept = store.get_list_state(ListStateDescriptor(WAITING, Types.TUPLE([Types.LONG(), self._type])))
        self.elements.put_back([(element, None if at == _NO_TIME else at) for at, element in kept.get()])
        function = self._function
        if isinstance(function, CheckpointedFunction):
            function.initialize_state(context)
        elif isinstance(function, ListCheckpointed):
            parts = self._parts = store.get_list_state(ListStateDescriptor(POSITION))
            if context.is_restored():
                function.restore_state(list(parts.get()))

    def open(self, runtime_context: RuntimeContext) -> None:
        """Open the function; it starts to run with the first epoch."""
        self._function.open(runtime_context)

    def take(self, output: ReaderOutput[Any], limit: EpochLimit, *, wait: bool) -> None:
        """Emit the waiting elements, and those that arrive meanwhile."""
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name="source-function", daemon=True)
            self._thread.start()
        elements, collect, last = self.elements, output.collect, False
        while True:
            most = limit.rows_left()
            taken = elements.take(min(most, 1000))
            for element, timestamp in taken:
                if isinstance(element, _Watermark):
                    self._mark(output, element.mark)
                else:
                    collect(element, timestamp)
            elements.check()
            self.ended = elements.is_at_end
            if self.ended or most <= 0 or (last and not taken):
                return
            if not taken and wait:
                elements.await_more(1.0)
            elif not taken and not limit.lingers:
                return
            elif not taken:
                time.sleep(_LINGER_S)
                last = len(elements) < _FEW

    @staticmethod
    def _mark(output: ReaderOutput[Any], mark: int | None) -> None:
        if mark is None:
            output.mark_idle()
        else:
            output.emit_watermark(mark)

    def _run(self) -> None:
        error: BaseException | None = None
        try:
            self._function.run(self.elements)
        except BaseException as raised:  # raised on the subtask's thread, with its trace
            error = raised
        self.elements.ended(error)

    def next_due(self, now: int) -> int | None:
        """Return `now` if elements wait; else the function wakes the job."""
        return None if self.ended or self.elements.sleep() else now

    def snapshot_state(self, context: FunctionSnapshotContext) -> None:
        """Snapshot the function's state and the waiting elements, under the lock."""
        self.elements.freeze(LOCK_TIMEOUT_S)
        try:
            function, kept = self._function, self._kept
            if isinstance(function, CheckpointedFunction):
                function.snapshot_state(context)
            elif isinstance(function, ListCheckpointed) and self._parts is not None:
                parts = function.snapshot_state(context.get_checkpoint_id(), context.get_checkpoint_timestamp())
                self._parts.update(parts or [])
            if kept is not None:
                waiting = self.elements.waiting()
                kept.update([(_NO_TIME if at is None else at, element) for element, at in waiting])
        finally:
            self.elements.thaw()

    def notify_checkpoint_complete(self, checkpoint_id: int) -> None:
        """Notify the function."""
        if isinstance(self._function, CheckpointListener):
            self._function.notify_checkpoint_complete(checkpoint_id)

    def notify_checkpoint_aborted(self, checkpoint_id: int) -> None:
        """Notify the function."""
        if isinstance(self._function, CheckpointListener):
            self._function.notify_checkpoint_aborted(checkpoint_id)

    def close(self) -> None:
        """Cancel the function, wait briefly for it to return, and close it if it has."""
        self.elements.wake = lambda: None
        thread = self._thread
        try:
            if thread is not None and not self.ended:
                self._function.cancel()
        finally:
            self.elements.close()
            if thread is not None:
                thread.join(CANCEL_TIMEOUT_S)
            if thread is None or not thread.is_alive():
                self._function.close()
