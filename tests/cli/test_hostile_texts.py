"""Names, messages and values of others steer no terminal and forge no line, whichever command shows them."""

from __future__ import annotations

import io
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from rich.console import Group
from rich.table import Table
from rich.text import Text
from rich.tree import Tree

import pystate_cli
from pystate.common import Types
from pystate.common.errors import PystateError
from pystate.core.api.state import ListStateDescriptor, MapStateDescriptor, ValueStateDescriptor
from pystate.core.snapshot.metadata_file import read_metadata, write_metadata
from pystate.core.snapshot.storage.snapshot_location import SnapshotLocation
from pystate_cli.command_line import run_command_line
from pystate_cli.console.console import Console
from tests.cli.console.test_console import Terminal
from tests.core.snapshot.snapshots import write_savepoint

HOSTILE = "x\x1b[2J\x1b]0;t\x07\nFORGED \x9b1A\r\u2028FORGED\u202e\x85FORGED\t!"
OURS = re.compile(r"\r?\x1b\[(?:[0-9;]*m|\?25[lh]|[0-9]+A|2?[JK])")
"""Colours, and what redraws a live view."""


def check(shown: str) -> None:
    text = OURS.sub("", shown)
    assert re.findall(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u202e]", text) == [], repr(text)
    assert not [line for line in text.split("\n") if line.startswith("FORGED")], text


def hostile(directory: Path, snapshot_id: str) -> SnapshotLocation:
    """Write a savepoint in which all is hostile that may be a text."""
    content = {
        ValueStateDescriptor(HOSTILE, Types.STRING()): {HOSTILE: HOSTILE, "a": HOSTILE},
        MapStateDescriptor(f"map{HOSTILE}", Types.STRING(), Types.STRING()): {HOSTILE: {HOSTILE: HOSTILE}},
        ListStateDescriptor(f"list{HOSTILE}", Types.STRING()): {HOSTILE: [HOSTILE]},
    }
    location = write_savepoint(directory, snapshot_id=snapshot_id, content=content)
    path = Path(location.uri.removeprefix("file:")) / "_metadata"
    metadata = read_metadata(path.read_bytes(), "")
    position = metadata.source_position
    assert position is not None
    texts = ("job_id", "job_name", "snapshot_id", "parent", "parent_id", "message", "code_fingerprint")
    changes: dict[str, Any] = dict.fromkeys((*texts, "pystate_version", "spark_version"), HOSTILE)
    changes["configuration"] = {HOSTILE: HOSTILE}
    changes["operators"] = [replace(one, uid=HOSTILE, name=f"y{HOSTILE}") for one in metadata.operators]
    changes["source_position"] = replace(
        position, sources=[{**source, "uid": f"{HOSTILE}{source['index']}"} for source in position.sources]
    )
    path.write_bytes(write_metadata(replace(metadata, **changes)))
    return location


COMMANDS: list[tuple[str, ...]] = [
    ("savepoints", "list", "ALL"),
    ("savepoints", "list", "--all", "ALL"),
    ("savepoints", "tree", "ALL"),
    ("savepoints", "inspect", "ONE"),
    ("savepoints", "verify", "ONE"),
    ("savepoints", "diff", "ONE", "TWO"),
    ("savepoints", "diff", "ONE", "TWO", "--keys", f"{HOSTILE}/{HOSTILE}"),
    ("state", "read", "ONE", HOSTILE, HOSTILE),
    ("state", "read", "ONE", HOSTILE, f"map{HOSTILE}"),
    ("state", "read", "ONE", "another", "another"),
    ("state", "read", "ONE", HOSTILE, "another"),
]


@pytest.mark.parametrize("words", COMMANDS, ids=lambda words: " ".join(words).replace(HOSTILE, "HOSTILE"))
@pytest.mark.parametrize("stream", [io.TextIOWrapper, Terminal], ids=["pipe", "terminal"])
def test_a_hostile_snapshot_forges_nothing(
    words: tuple[str, ...], stream: Callable[..., io.TextIOWrapper], tmp_path: Path
) -> None:
    folder = tmp_path / "savepoints"
    places = {"ALL": str(folder)}
    places |= {name: hostile(folder, character * 12).uri for name, character in (("ONE", "a"), ("TWO", "b"))}
    out, err = (stream(io.BytesIO(), encoding="utf-8") for _ in range(2))

    run_command_line([places.get(word, word) for word in words], Console(out, err))

    shown = []
    for one in (out, err):
        one.flush()
        shown.append(one.buffer.getvalue().decode())  # type: ignore[attr-defined]
        check(shown[-1])
    assert "[2J" in "".join(shown) or "is sound" in shown[0], "it is shown, as a part of a line"


def everything(console: Console) -> None:
    """Show a hostile text in all ways that a console has, as a view would that doesn't think of it."""
    console.result(HOSTILE)
    console.info(HOSTILE)
    console.warning(HOSTILE)
    console.error(PystateError(f"about {HOSTILE}", where=HOSTILE, hint=HOSTILE))
    table, tree = Table(title=HOSTILE), Tree(HOSTILE)
    table.add_column(HOSTILE)
    table.add_row(HOSTILE)
    table.add_row(Text(HOSTILE, style="red"))
    tree.add(Text(HOSTILE))
    for one in (HOSTILE, Text(HOSTILE), Text.assemble(("a", "dim"), HOSTILE), Group(Text(HOSTILE)), table, tree):
        console.render(one)
        with console.live_view() as region:
            region.draw(one)
            console.info(HOSTILE)
    with console.waiting(HOSTILE), console.redrawn_result() as region:
        region.draw(Text(HOSTILE))


@pytest.mark.parametrize("stream", [io.TextIOWrapper, Terminal], ids=["pipe", "terminal"])
def test_no_way_of_a_console_lets_texts_of_others_steer(stream: Callable[..., io.TextIOWrapper]) -> None:
    out, err = (stream(io.BytesIO(), encoding="utf-8") for _ in range(2))
    everything(Console(out, err))
    for one in (out, err):
        one.flush()
        check(one.buffer.getvalue().decode())  # type: ignore[attr-defined]


def test_nothing_but_the_console_prints() -> None:
    folder = Path(pystate_cli.__file__).parent
    prints = re.compile(
        r"(?<![\w.])print\(|\becho\(|sys\.(stdout|stderr)(?!\.fileno\(\))|RichConsole|rich\.console import .*\bConsole\b"
    )
    elsewhere = [path for path in folder.rglob("*.py") if not {"console", "templates"} & set(path.relative_to(folder).parts)]
    assert [str(path) for path in elsewhere if prints.search(path.read_text("utf-8"))] == []


def test_what_is_nested_too_deep_in_a_snapshot_is_told_as_damage(tmp_path: Path, pystate: Any) -> None:
    """A type in types in types, and an offset that no parser reads."""
    deep: dict[str, Any] = Types.LONG().to_plain()
    for _ in range(500):
        deep = {"type": "LIST", "elements": [deep]}
    location = write_savepoint(tmp_path)
    path = Path(location.uri.removeprefix("file:")) / "_metadata"
    sound = read_metadata(path.read_bytes(), "")
    typed = replace(sound, operators=[replace(one, key_type=deep) for one in sound.operators])
    path.write_bytes(write_metadata(typed))
    code, _, err = pystate("savepoints", "inspect", location.uri)
    assert (code, "is damaged: A type can't be nested deeper" in err) == (1, True), err

    position = sound.source_position
    assert position is not None
    sources = [{**source, "offset": "[" * 20_000} for source in position.sources]
    path.write_bytes(write_metadata(replace(sound, source_position=replace(position, sources=sources))))
    code, out, err = pystate("savepoints", "inspect", location.uri)
    assert (code, "[" * 20_000 in out) == (0, True), err
