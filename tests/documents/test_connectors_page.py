"""docs/connectors-own.md shows the example as it is, and names all that a connector can say."""

from __future__ import annotations

import re
from pathlib import Path

from pystate.connectors.connector import Connector
from pystate.connectors.source import StartsAt
from pystate.connectors.spark_format import SparkFormat

ROOT = Path(__file__).parents[2]
TEXT = (ROOT / "docs" / "connectors-own.md").read_text("utf-8")
EXAMPLE = ROOT / "examples" / "sqlite_connector"


def blocks(language):
    return re.findall(rf"^```{language}\n(.*?)^```", TEXT, re.MULTILINE | re.DOTALL)


def test_what_is_shown_is_the_example():
    files = [path.read_text("utf-8") for path in (EXAMPLE / "pyproject.toml", *EXAMPLE.glob("*/*.py"))]
    shown = [block for block in (*blocks("python"), *blocks("toml")) if "Lamp" not in block]

    assert len(shown) == 5
    assert [part for block in shown for part in parts(block) if not any(part in file for file in files)] == []


def parts(block):
    """Return the tables of a block of TOML, which leaves some out, or the whole block."""
    return re.findall(r"(?:^\[.*\]\n|^)(?:.+\n)+", block, re.MULTILINE) if block.startswith("[") else [block]


def test_the_format_that_is_shown_says_what_the_page_says():
    (shown,) = (block for block in blocks("python") if "LampFormat" in block)
    names: dict[str, type[SparkFormat]] = {}
    exec(compile(shown, "docs/connectors-own.md", "exec"), names)  # noqa: S102 - it is ours
    lamp = names["LampFormat"]()

    assert lamp.reads("Lamp", "")
    assert (lamp.starts_at({}), lamp.starts_at({"from": "begin"})) == (StartsAt.THE_END, StartsAt.THE_BEGINNING)
    assert (lamp.loss({}), lamp.loss({"forget": "true"}).name) == (None, "lamp")
    assert lamp.describe_offset({"blink": 1700}, {}) == "blink 1,700"
    assert [lamp.describe_offset(offset, {}) for offset in ({"logOffset": 1}, None)] == [None, None]
    assert [lamp.rows_between({"blink": 1}, latest) for latest in ({"blink": 3}, None)] == [2, None]


def test_all_that_a_connector_can_say_is_on_the_page():
    asked = {name for kind in (Connector, SparkFormat) for name in vars(kind) if not name.startswith("_")}

    assert {name for name in asked if not re.search(rf"\b{name}\b", TEXT)} == set()
