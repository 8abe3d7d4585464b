"""What readers outside see of tables that another program appends to all the while, and what is wrong with it."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

from tests.faults.campaigns.pairs_outputs import TABLES
from tests.faults.campaigns.pairs_readers import DOUBLED, EARLY, GONE, LOST, Finding, Reader, Sequence, ShownAtEnd
from tests.faults.campaigns.pairs_stream_readers import last_counts
from tests.faults.campaigns.pairs_tables import BESIDE, place_of

KEPT = "kept"
"""A partition that no job writes to."""
OLD = -1
"""The count of rows that are there before the job."""
DUCKDB_EVERY = 4


def acknowledged(settings: dict[str, Any], name: str) -> Path:
    """Return the file that says how many rows the other writer knows to be in a table."""
    return Path(settings["beside"], name.replace(" ", "-"))


class TableReader:
    """Reads a table by the library, and by DuckDB now and then.

    Args:
        name: Of the sink.
        settings: Of the job.
    """

    goes_back = at_end = False

    def __init__(self, name: str, settings: dict[str, Any]) -> None:
        self.name, self._place = name, place_of(settings, name)
        self._acknowledged = acknowledged(settings, name)
        self._looks = 0

    def look(self) -> Counter[str]:
        """Read the table, and check the rows of the other program."""
        known = int(self._acknowledged.read_text()) if self._acknowledged.exists() else 0
        self._looks += 1
        rows = self._place.rows(by_duckdb=self._looks % DUCKDB_EVERY == 0)
        beside = sorted(row[-1] for row in rows if row[-2] == BESIDE)
        if beside != list(range(1, len(beside) + 1)) or len(beside) < known:
            kind = DOUBLED if len(set(beside)) < len(beside) else LOST
            raise Finding(self.name, BESIDE, kind, f"{known} were written, and there are {len(beside)} to {beside[-1:]}")
        return self._counted([row for row in rows if row[-2] != BESIDE])

    def _counted(self, rows: list[tuple[Any, ...]]) -> Counter[str]:
        sequence = Sequence(self.name)
        for word, number in rows:
            sequence.take(word, number)
        return sequence.whole()

    def left(self) -> list[str]:
        """Return the files that no version has, and that `find_orphans` doesn't find."""
        return self._place.not_found()


class UpsertedTableReader(TableReader):
    """The same where counts replace each other."""

    def _counted(self, rows: list[tuple[Any, ...]]) -> Counter[str]:
        return last_counts(self.name, rows)


class OverwrittenTableReader(ShownAtEnd, TableReader):
    """The same where all counts replace the partitions of their sources when the input ends.

    Args:
        name: Of the sink.
        settings: Of the job.
    """

    def __init__(self, name: str, settings: dict[str, Any]) -> None:
        super().__init__(name, settings)
        self._partitions = {*settings["sources"], KEPT}

    def _counted(self, rows: list[tuple[Any, ...]]) -> Counter[str]:
        sequence, old = Sequence(self.name), [source for source, _, number in rows if number == OLD]
        for _, word, number in sorted(rows):
            if number != OLD:
                sequence.take(word, number)
        now = sequence.whole()
        if now and not self.may_show:
            raise Finding(self.name, next(iter(now)), EARLY, "the input hasn't ended")
        replaced = {word.partition("-")[0] for word in now}
        if sorted(old) != sorted(self._partitions - replaced):
            kind = GONE if len(old) < len(self._partitions - replaced) else DOUBLED
            raise Finding(self.name, "", kind, f"of the old partitions there are {old}, and {replaced} are replaced")
        return now


_READERS = {"appends": TableReader, "upserts": UpsertedTableReader, "overwrites": OverwrittenTableReader}


def table_reader(name: str, settings: dict[str, Any]) -> Reader:
    """Return the reader of a table."""
    return _READERS[TABLES[name][1]](name, settings)
