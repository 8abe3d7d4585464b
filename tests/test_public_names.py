"""The public names: a change to them is made on purpose, with a line in the changelog.

`python -m tests.test_public_names` writes the list anew.
"""

from __future__ import annotations

import importlib
import pkgutil
from pathlib import Path

FACE = ("common", "datastream", "queryable", "state_processor", "table", "testing")
OF_CONNECTORS = ("connector", "finding", "project_template", "sink", "source", "spark_format", "write_ahead")
"""The modules of `pystate.connectors` that connectors in other distributions are written with."""
LIST = Path(__file__).with_name("public_names.txt")


def public_names() -> list[str]:
    """Return every name in the `__all__` of a package or module of the face."""
    names = []
    for package in FACE:
        root = importlib.import_module(f"pystate.{package}")
        modules = [root.__name__, *(found.name for found in pkgutil.walk_packages(root.__path__, f"{root.__name__}."))]
        for module in modules:
            names += _names(module)
    for module in OF_CONNECTORS:
        names += _names(f"pystate.connectors.{module}")
    return sorted(names)


def _names(module: str) -> list[str]:
    return [f"{module}.{name}" for name in getattr(importlib.import_module(module), "__all__", ())]


def test_no_public_name_comes_or_goes_by_accident() -> None:
    found, recorded = set(public_names()), set(LIST.read_text("utf-8").splitlines())
    remedy = "python -m tests.test_public_names writes the list anew; the change needs a line in CHANGELOG.md"
    assert (found - recorded, recorded - found) == (set(), set()), remedy


def test_the_modules_that_pickled_values_name_stay() -> None:
    from pystate.common import Row, Types

    assert (Row.__module__, type(Types.LONG()).__module__) == ("pystate.common.row", "pystate.common.type_info")


if __name__ == "__main__":
    LIST.write_text("".join(f"{name}\n" for name in public_names()), "utf-8")
