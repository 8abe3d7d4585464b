"""State backends by name and by the path of a factory."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from pystate.common.errors import ConfigurationError
from pystate.common.key_groups import KeyGroupRange
from pystate.core.state.base.keyed_state_backend import KeyedStateBackend
from pystate.core.state.base.loader import check_state_backend, create_state_backend, state_backend_names
from pystate.core.state.hashmap.hashmap_keyed_state_backend import HashMapKeyedStateBackend
from pystate.core.state.keys.keys import KeyCodec

MODULE = """
from pystate.core.state.hashmap.hashmap_keyed_state_backend import HashMapKeyedStateBackend

class Mine(HashMapKeyedStateBackend):
    pass

class Outer:
    Inner = Mine

def make(**arguments):
    return Mine(**arguments)

def make_nothing(**arguments):
    return None

number = 3
"""


@pytest.fixture
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    (tmp_path / "state_of_the_job").mkdir()
    (tmp_path / "state_of_the_job" / "backends.py").write_text(MODULE)
    (tmp_path / "state_of_the_job" / "broken.py").write_text("1 / 0")
    monkeypatch.syspath_prepend(str(tmp_path))
    yield "state_of_the_job.backends"
    for name in [name for name in sys.modules if name.startswith("state_of_the_job")]:
        del sys.modules[name]


def create(name: str, **changes: Any) -> KeyedStateBackend:
    arguments = {"key_codec": KeyCodec(), "key_group_range": KeyGroupRange(0, 1), "max_parallelism": 2, **changes}
    return create_state_backend(name, **arguments)


def test_backends_by_name(tmp_path: Path) -> None:
    assert state_backend_names() == ["hashmap", "rocksdb"]
    assert type(create("hashmap")) is HashMapKeyedStateBackend
    backend = create("rocksdb", working_directory=str(tmp_path))
    assert type(backend).__name__ == "RocksDBKeyedStateBackend"
    backend.close()


@pytest.mark.parametrize("path", ["{}:Mine", "{}.Mine", "{}:Outer.Inner", "{}:make", "{}.make"])
def test_backends_by_path(module: str, path: str) -> None:
    check_state_backend(path.format(module))
    backend = create(path.format(module))
    assert type(backend).__qualname__ == "Mine"
    assert backend.max_parallelism == 2
    assert backend.key_group_range == KeyGroupRange(0, 1)


@pytest.mark.parametrize(
    ("path", "words"),
    [
        ("nope", ["neither a name nor the path"]),
        ("no_such_package.module:Class", ["can't be imported", "No module named 'no_such_package'"]),
        ("state_of_the_job.broken:Class", ["can't be imported", "ZeroDivisionError"]),
        ("{}:Absent", ["has no 'Absent'"]),
        ("{}:Outer.Absent", ["has no 'Outer.Absent'"]),
        ("{}:number", ["neither a subclass of KeyedStateBackend nor a function"]),
        ("{}:Outer", ["neither a subclass of KeyedStateBackend nor a function"]),
        ("builtins.dict", ["neither a subclass of KeyedStateBackend nor a function"]),
    ],
)
def test_what_leads_to_no_backend_is_refused_with_the_reason(module: str, path: str, words: list[str]) -> None:
    for check in (check_state_backend, create):
        with pytest.raises(ConfigurationError) as error:
            check(path.format(module))
        for word in words:
            assert word in error.value.message
        assert error.value.where == "state.backend.type"
        assert "hashmap, rocksdb" in str(error.value.hint)


def test_the_nearest_name_is_named() -> None:
    with pytest.raises(ConfigurationError) as error:
        create("hash.map")
    assert "did you mean 'hashmap'?" in str(error.value.hint)


def test_a_factory_that_makes_something_else_is_refused(module: str) -> None:
    check_state_backend(f"{module}:make_nothing")
    with pytest.raises(ConfigurationError, match="makes a NoneType"):
        create(f"{module}:make_nothing")
