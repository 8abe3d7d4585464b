"""Distributions for tests, as `pip` would have installed them into a folder of the path."""

from __future__ import annotations

import importlib
import sys
import textwrap
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from pystate.common.configuration.options import connector_options
from pystate.connectors import installed_connectors

LAMP = """
    from pystate.connectors.connector import Connector
    from pystate.connectors.finding import warn
    from pystate.connectors.project_template import ProjectTemplate
    from pystate.connectors.spark_format import SparkFormat


    class LampFormat(SparkFormat):
        names = ("lamp",)

        def describe_offset(self, offset, log):
            return f"blink {offset['blink']}" if isinstance(offset, dict) and offset.keys() == {"blink"} else None


    class Lamp(Connector):
        def spark_formats(self):
            return (LampFormat(),)

        def position_of_splits(self, splits):
            return '{"blink":7}' if all("lamp" in split for split in splits) else None

        def check(self, configuration):
            yield warn("lamp", "it is off", "switch it on")

        def templates(self):
            return {"lamp": ProjectTemplate("blinks", "{name} blinks", "", "pystate run {module}.py", ())}
"""

ODD = """
    from pystate.connectors.connector import Connector


    class Odd(Connector):
        templates = check = spark_formats = None
"""


def install(folder: Path, name: str, entry_points: str, *, group: str = installed_connectors.GROUP, **modules: str) -> None:
    """Write a distribution with entry points and with modules into a folder."""
    info = folder / f"{name.replace('-', '_')}-1.0.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(f"[{group}]\n{entry_points}\n")
    for module, source in modules.items():
        (folder / f"{module}.py").write_text(textwrap.dedent(source))


@contextmanager
def found_in(folder: Path) -> Iterator[None]:
    """Have the distributions of a folder be installed, and its modules be new ones."""
    sys.path.insert(0, str(folder))
    _forget()
    try:
        yield
    finally:
        sys.path.remove(str(folder))
        for path in folder.glob("*.py"):
            sys.modules.pop(path.stem, None)
        _forget()


def _forget() -> None:
    importlib.invalidate_caches()
    installed_connectors.connectors.cache_clear()
    installed_connectors.spark_formats.cache_clear()
    connector_options.cache_clear()
