"""Another program that writes to the tables of the campaign of pairs, as long as it lives.

    pairs_other_writer.py SETTINGS.json

appends a row with the next number to each table, notes it, and compacts Delta tables now and then. Killed and started
again it asks the table which row was the last.
"""

from __future__ import annotations

import contextlib
import json
import sys
import time
from pathlib import Path
from typing import Any

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).parents[3]))

from tests.faults.campaigns.pairs_outputs import TABLES
from tests.faults.campaigns.pairs_table_readers import acknowledged
from tests.faults.campaigns.pairs_tables import BESIDE, COLUMNS, PARTED_COLUMNS, place_of

WRITER = "other writer"
PAUSE_S = 0.5
ARRANGED_EVERY = 12
_CONFLICTS = "CommitFailed", "CommitFailedError", "CommitFailedException", "CommitStateUnknownException", "Unavailable"


@contextlib.contextmanager
def _tried() -> Any:
    """Go on where the job was first, or the catalog is away: what came of it is asked of the table."""
    try:
        yield
    except Exception as error:
        if type(error).__name__ not in _CONFLICTS:
            raise


def write(settings: dict[str, Any]) -> None:
    """Write for ever.

    Args:
        settings: Of the job.
    """
    names = [name for name in settings["sinks"] if name in TABLES]
    turn = 0
    while True:
        turn += 1
        for name in names:
            place = place_of(settings, name)
            began = time.monotonic()
            columns = PARTED_COLUMNS if TABLES[name][1] == "overwrites" else COLUMNS
            with _tried():
                last = max((row[-1] for row in place.rows(by_duckdb=False) if row[-2] == BESIDE), default=0)
                note(acknowledged(settings, name), last)
                row = {"source": BESIDE, "word": BESIDE, "n": last + 1}
                place.append(columns, {key: row[key] for key in columns.names})
                note(acknowledged(settings, name), last + 1)
                if turn % ARRANGED_EVERY == 0:
                    place.arrange()
            time.sleep(PAUSE_S + 3 * (time.monotonic() - began))  # on a busy machine the job would never be the first


def note(path: Path, number: int) -> None:
    """Write a number to a file, at once."""
    part = path.with_suffix(".part")
    part.write_text(str(number))
    part.rename(path)


if __name__ == "__main__":
    write(json.loads(Path(sys.argv[1]).read_text()))
