from __future__ import annotations

import pytest

from pystate.common.type_info import Types
from tests.fixtures import all_kinds as jobs

WORDS = ["ant", "bee", "cow", "dog", "elk", "fox", "gnu", "hen"]
MIXED = ["ant", 7, 7.0, True, (1, "x"), b"\x00", "7"]


@pytest.fixture(scope="session")
def savepoint(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A savepoint with every kind of state; typed keys on one operator, untyped ones on another."""
    directory = tmp_path_factory.mktemp("state-processor") / "savepoint-83f146-0123456789ab"
    operators = [
        jobs.all_kinds_operator("typed", jobs.numbers_of(WORDS), Types.STRING(), "hashmap"),
        jobs.all_kinds_operator("untyped", jobs.numbers_of(MIXED), None, "rocksdb", with_raw=False),
        jobs.rules_operator("rules", "hashmap"),
    ]
    return jobs.write_savepoint(directory, operators)
