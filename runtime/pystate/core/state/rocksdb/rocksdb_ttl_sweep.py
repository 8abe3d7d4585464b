"""The clean-up of expired rows, by a sweep over the column family instead of Flink's compaction filter.

rocksdict has no compaction filters. A sweep checks a part of the rows at the end of each epoch, after its writes, so that
the removed rows aren't in any overlay. Between epochs it only keeps its position, and no iterator.
"""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import closing

from pystate.core.api.state import StateDescriptor, StateKind
from pystate.core.state.kinds.list_parts import pack_part, unpack_part
from pystate.core.state.rocksdb.database import Database
from pystate.core.state.rocksdb.rows import RocksDBRows
from pystate.core.state.ttl.ttl_cleanup_filter import TtlSweep
from pystate.core.state.ttl.ttl_serializer import TIME_BYTES
from pystate.core.state.ttl.ttl_settings import TtlState

Row = tuple[bytes, bytes]
Change = tuple[bytes, bytes | None]

ROWS_PER_WRITE = 2
"""An epoch looks at as many rows for each row it writes, if that is more than the least: expired rows then don't pile up."""


class RocksDBSweep(TtlSweep):
    """Sweeps over the rows of one state.

    Args:
        millis: See `TtlSweep`.
        database: The database.
        table: The rows.
        is_list: Whether rows are parts of lists.
    """

    __slots__ = ("_database", "_is_list", "_last", "_start", "_table")

    def __init__(self, millis: int, database: Database, table: RocksDBRows, is_list: bool) -> None:
        super().__init__(millis, as_bytes=True)
        self._database = database
        self._table = table
        self._is_list = is_list
        self._start = b""
        self._last = b""

    def _advance(self, bound: bytes, budget: int) -> bool:
        family = self._table.family
        if family is None:
            return False
        self._last = b""
        with closing(self._database.scan_from(family, self._start)) as rows:
            changes = self._change_parts(rows, bound, budget) if self._is_list else self._change_rows(rows, bound, budget)
        self._database.write(family, changes)
        self._database.end_write()
        self._start = self._last and self._last + b"\x00"
        return not self._last

    def _change_rows(self, rows: Iterable[Row], bound: bytes, budget: int) -> list[Change]:
        """Return the changes of expired rows; `_last` is then the row where the budget ended, if it did."""
        changes: list[Change] = []
        oldest = self._oldest
        limit = max(oldest, bound)
        for row, value in rows:
            if value < limit:
                if value < bound:
                    changes.append((row, None))
                elif value < oldest:
                    limit = oldest = value[:TIME_BYTES]
            budget -= 1
            if not budget:
                self._last = row
                break
        self._oldest = oldest
        return changes

    def _change_parts(self, rows: Iterable[Row], bound: bytes, budget: int) -> list[Change]:
        changes: list[Change] = []
        for row, data in rows:
            elements = unpack_part(data)
            living = self._living(elements, bound)
            if len(living) < len(elements):
                changes.append((row, pack_part(living) if living else None))
            budget -= len(elements)
            if budget <= 0:
                self._last = row
                break
        return changes


class SweepCleanup:
    """The clean-up of one state.

    Args:
        sweep: The sweep over the state's rows.
        work: Counts accesses and writes of the state.
        least: The minimum number of rows checked per epoch.
    """

    def __init__(self, sweep: RocksDBSweep, work: TtlState, least: int) -> None:
        self._sweep = sweep
        self._work = work
        self._least = least

    def run(self, now: int) -> None:
        """Clean up at the end of an epoch.

        Raises:
            StateError: RocksDB can't read or write.
        """
        self._sweep.run(now, max(self._least, ROWS_PER_WRITE * self._work.take_work().writes))


def sweep_cleanup(descriptor: StateDescriptor, database: Database, table: RocksDBRows, work: object) -> SweepCleanup | None:
    """Return the clean-up of a state; None if there is none.

    Args:
        descriptor: Of the state.
        database: Where its rows are.
        table: Its rows.
        work: Its running epoch.
    """
    config = descriptor.ttl_config
    strategy = None if config is None else config.get_cleanup_strategies().get_rocksdb_compact_filter_cleanup_strategy()
    if config is None or strategy is None or not isinstance(work, TtlState):
        return None
    sweep = RocksDBSweep(config.get_ttl().to_milliseconds(), database, table, descriptor.kind is StateKind.LIST)
    return SweepCleanup(sweep, work, strategy.get_query_time_after_num_entries())
