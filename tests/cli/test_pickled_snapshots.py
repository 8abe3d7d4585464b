"""A snapshot with pickles of others: no command that looks into it loads them, and a job only where its type says so."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from pystate.common import Types
from pystate.core.api.state import ListStateDescriptor, MapStateDescriptor, ValueStateDescriptor
from tests.core.snapshot.snapshots import write_savepoint

PICKLED = Types.PICKLED_BYTE_ARRAY()


class Trap:
    """Leaves a mark where it is loaded."""

    def __init__(self, mark: str) -> None:
        self.mark = mark

    def __reduce__(self) -> tuple[Any, ...]:
        return Path(self.mark).write_text, ("loaded",)


@pytest.mark.parametrize(
    "words",
    [
        ("savepoints", "list", "ALL"),
        ("savepoints", "tree", "ALL"),
        ("savepoints", "inspect", "ONE"),
        ("savepoints", "verify", "ONE"),
        ("savepoints", "diff", "ONE", "TWO"),
        ("savepoints", "diff", "ONE", "TWO", "--keys", "count/value"),
        ("state", "read", "ONE", "count", "value"),
        ("state", "read", "ONE", "count", "map"),
        ("state", "read", "ONE", "count", "list", "--json"),
    ],
    ids=" ".join,
)
def test_no_command_loads_a_pickle(words: tuple[str, ...], tmp_path: Path, pystate: Any) -> None:
    mark = tmp_path / "mark"
    trap = Trap(str(mark))
    content = {
        ValueStateDescriptor("value", PICKLED): {"key": trap},
        MapStateDescriptor("map", Types.STRING(), PICKLED): {"key": {"a": trap}},
        ListStateDescriptor("list", PICKLED): {"key": [trap]},
    }
    folder = tmp_path / "savepoints"
    places = {"ALL": str(folder)}
    for name, character in (("ONE", "a"), ("TWO", "b")):
        places[name] = write_savepoint(folder, snapshot_id=character * 12, content=content).uri
    code, _, err = pystate(*(places.get(word, word) for word in words))
    assert code == 0, err
    assert not mark.exists()
