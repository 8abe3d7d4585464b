"""Deprecated names warn at the line that uses them, and none outlives the release that was to remove it."""

from __future__ import annotations

import inspect
import pickle
import pkgutil
import warnings
from dataclasses import dataclass
from importlib import import_module

import pytest
from packaging.version import Version

import pystate
from pystate.common.configuration.configuration import Configuration
from pystate.common.deprecation import Deprecation, PystateDeprecationWarning, deprecated, deprecation_of
from pystate.datastream import CheckpointConfig
from pystate.datastream.state_backend import FsStateBackend, MemoryStateBackend, RocksDBStateBackend


@deprecated(instead="twice", since="0.1.0", removed_in="0.3.0")
def double(number: int) -> int:
    """Double it."""
    return 2 * number


@deprecated(instead="New")
@dataclass(frozen=True)
class Old:
    number: int = 1


class Child(Old):
    pass


def test_a_call_warns_at_its_own_line_and_does_what_it_did():
    with pytest.warns(PystateDeprecationWarning) as caught:
        assert double(2) == 4
    (said,) = caught
    assert str(said.message) == "double is deprecated since pystate 0.1.0; use twice. pystate 0.3.0 no longer has it."
    assert said.filename == __file__
    assert (double.__name__, double.__doc__) == ("double", "Double it.")
    assert str(inspect.signature(double)) == "(number: 'int') -> 'int'"


def test_a_class_warns_when_one_is_made_and_not_for_its_subclasses_nor_when_one_is_read():
    with pytest.warns(PystateDeprecationWarning, match="^Old is deprecated; use New.$") as caught:
        old = Old(3)
    assert [said.filename for said in caught] == [__file__]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert Child(4).number == 4
        assert pickle.loads(pickle.dumps(old)) == old
    assert deprecation_of(Child) is None


def test_nothing_warns_at_import():
    assert deprecation_of(double) == Deprecation("double", "twice", "0.1.0", "0.3.0")
    assert deprecation_of(1) is None


@pytest.mark.parametrize(
    ("use", "instead"),
    [
        (MemoryStateBackend, "HashMapStateBackend with JobManagerCheckpointStorage"),
        (lambda: FsStateBackend("file:///x"), "HashMapStateBackend with FileSystemCheckpointStorage"),
        (lambda: RocksDBStateBackend("file:///x"), "EmbeddedRocksDBStateBackend with FileSystemCheckpointStorage"),
        (lambda: CheckpointConfig(Configuration()).get_alignment_timeout(), "get_aligned_checkpoint_timeout"),
    ],
)
def test_flinks_old_names_say_the_new_ones(use, instead):
    with pytest.warns(PystateDeprecationWarning, match=f"; use {instead}"):
        use()


def everything_deprecated() -> list[Deprecation]:
    found = []
    for module in pkgutil.walk_packages(pystate.__path__, "pystate."):
        if module.name.startswith(("pystate.common", "pystate.datastream", "pystate.state_processor", "pystate.queryable")):
            names = vars(import_module(module.name))
            own = [one for one in names.values() if getattr(one, "__module__", None) == module.name]
            inner = [each for one in own if isinstance(one, type) for each in vars(one).values()]
            found += [said for one in (*own, *inner) if (said := deprecation_of(one)) is not None]
    return found


def test_no_deprecated_name_outlives_the_release_that_was_to_remove_it():
    found = everything_deprecated()
    assert len(found) >= 5
    assert [said for said in found if said.removed_in and Version(said.removed_in) <= Version(pystate.__version__)] == []
