"""Every kind of operator has one class that runs it, and says what planner and slots need to know."""

from __future__ import annotations

import importlib.resources
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

import pystate
from pystate.core.api.operator_kind import OperatorKind
from pystate.runtime.plan.chain import has_on_timer, needs_slot
from pystate.runtime.slot.operators.operator import Operator
from pystate.runtime.slot.operators.operator_registry import operator_class
from pystate.runtime.spark.workers.shipping import _tree, make_archive

ROOT = str(Path(pystate.__file__).parents[1])


def _families(of: type[Operator]) -> list[type[Operator]]:
    return [of, *(below for one in of.__subclasses__() for below in _families(one))]


@pytest.mark.parametrize("kind", OperatorKind)
def test_every_kind_has_a_class_that_can_be_made(kind: OperatorKind) -> None:
    found = operator_class(kind)
    assert kind in found.kinds
    assert not found.__abstractmethods__


def test_no_kind_has_two_classes() -> None:
    operator_class(OperatorKind.MAP)
    counted = Counter(kind for family in _families(Operator) for kind in family.__dict__.get("kinds", ()))
    assert max(counted.values()) == 1


def test_the_durable_value_of_a_kind_is_its_name_alone() -> None:
    assert OperatorKind("KeyedProcess") is OperatorKind.PROCESS
    assert all(isinstance(kind.value, str) for kind in OperatorKind)


def test_no_function_is_of_two_kinds() -> None:
    functions = [kind.traits.function for kind in OperatorKind if kind.traits.function is not None]
    assert not [(one, other) for one in functions for other in functions if one is not other and issubclass(one, other)]


@pytest.mark.parametrize("kind", [kind for kind in OperatorKind if kind.traits.methods and kind.traits.function])
def test_the_class_of_its_functions_has_the_methods_that_are_called(kind: OperatorKind) -> None:
    function = kind.traits.function
    assert function is not None
    assert all(hasattr(function, method) for method in kind.traits.methods)


def test_functions_with_two_inputs_run_in_slots() -> None:
    assert all(kind.traits.needs_slot for kind in OperatorKind if len(kind.traits.methods) > 1)


def test_a_plain_function_needs_neither_a_slot_nor_timers() -> None:
    assert not needs_slot(len)
    assert not has_on_timer(len)


def test_stages_without_a_slot_import_no_operator_classes() -> None:
    """A Python worker of Spark imports what it runs when it starts, and the classes bring all kinds of state along."""
    program = (
        "import sys, pystate.runtime.slot.chain.compiled_chain\n"
        "print([name for name in sys.modules if name.endswith(('.operators.operator', '.operators.operator_registry'))])"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)  # noqa: S603
    assert done.stdout.strip() == "[]"


def test_the_classes_are_found_in_an_archive(tmp_path: Path) -> None:
    """Executors on other machines get the package as an archive."""
    tree = _tree(importlib.resources.files("pystate"), "pystate/")
    archive = make_archive(tmp_path, "pystate", tree)
    program = (
        f"import sys; sys.path = [{str(archive)!r}, *(place for place in sys.path if place != {ROOT!r})]\n"
        "from pystate.core.api.operator_kind import OperatorKind\n"
        "from pystate.runtime.slot.operators import operator_registry as registry\n"
        "print(registry.__file__, {registry.operator_class(kind).__name__ for kind in OperatorKind})"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)  # noqa: S603
    assert done.stdout.startswith(str(archive))
    assert "KeyedWindowsOperator" in done.stdout
