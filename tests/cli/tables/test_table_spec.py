"""One specification per table: the forms for a terminal, a pipe and programs follow from it."""

from __future__ import annotations

import io
import json
from dataclasses import dataclass

import pytest
from rich.console import Console

from pystate_cli.tables.column import Column
from pystate_cli.tables.kinds import COUNT, INSTANT, LIST, MILLIS, NUMBER, PHRASE, SIZE, TEXT, Kind, Look
from pystate_cli.tables.table_spec import TableSpec, value_at

NOW = 1_790_000_000_000


@dataclass(frozen=True)
class Ship:
    name: str
    weight: int | None
    age: int
    harbour: str | None = None


FLEET = [Ship("Argo", 2048, 1500, "Iolkos"), Ship("A ship with quite a long name", None, 61_000)]
SHIPS: TableSpec[Ship] = TableSpec(
    (
        Column("name", lambda ship: ship.name, TEXT, "Name", plain="name", width=6, json="name", least=8),
        Column("age", lambda ship: ship.age, MILLIS, "Age of it", "Age", plain="age_ms", json="figures.age", priority=2),
        Column("weight", lambda ship: ship.weight, SIZE, "Weight", plain="weight_bytes", json="figures.weight", priority=1),
        Column("letters", lambda ship: len(ship.name), NUMBER, plain="letters"),
        Column("harbour", lambda ship: ship.harbour, TEXT, "Harbour", plain="harbour", json="harbour", wide_only=True),
    ),
    style=lambda ship: "dim" if ship.weight is None else "",
    plain_order=("weight", "age", "name", "letters", "harbour"),
)


def drawn(spec: TableSpec[Ship], width: int, *, unicode: bool = True, rows: list[Ship] | None = None) -> list[str]:
    out = Console(file=io.StringIO(), width=400, highlight=False)
    out.print(spec.table(FLEET if rows is None else rows, width, unicode=unicode, now=NOW))
    return [line.rstrip() for line in out.file.getvalue().splitlines()]  # type: ignore[attr-defined]


def test_a_wide_terminal_shows_all_that_is_for_people():
    assert drawn(SHIPS, 80) == [
        "Name                           Age of it   Weight  Harbour",
        "──────────────────────────────────────────────────────────",
        "Argo                               1.5 s  2.00 KB  Iolkos",
        "A ship with quite a long name   1 m 01 s        -  -",
    ]


@pytest.mark.parametrize(
    ("width", "heading"),
    [
        (58, "Name Age of it Weight Harbour"),
        (49, "Name Age of it Weight Harbour"),  # names give way first
        (48, "Name Age of it Weight"),
        (40, "Name Age of it Weight"),
        (39, "Name Age Weight"),
        (25, "Name Age Weight"),
        (24, "Name Age"),
        (17, "Name Age"),
        (16, "Name"),
    ],
)
def test_a_narrow_one_gives_up_columns_by_their_priority(width, heading):
    lines = drawn(SHIPS, width)

    assert " ".join(lines[0].split()) == heading
    assert max(map(len, lines)) <= width


def test_a_pipe_has_exact_values_in_an_order_of_its_own():
    assert SHIPS.plain(FLEET) == [
        "weight_bytes  age_ms  name    letters  harbour",
        "2048          1500    Argo    4        Iolkos",
        "-             61000   A ship with quite a long name  29       -",
    ]
    assert SHIPS.plain([]) == ["weight_bytes  age_ms  name    letters  harbour"]
    assert SHIPS.tabbed(FLEET[:1]) == ["2048\t1500\tArgo\t4\tIolkos"]


def test_json_has_the_columns_with_a_key_at_their_places():
    assert SHIPS.json(FLEET[:1]) == [{"name": "Argo", "figures": {"age": 1500, "weight": 2048}, "harbour": "Iolkos"}]
    assert json.loads(json.dumps(SHIPS.json(FLEET)))[1]["figures"]["weight"] is None
    assert value_at(SHIPS.json_object(FLEET[0]), "figures.age") == 1500
    assert value_at({"figures": None}, "figures.age") is None


def test_parts_of_a_table():
    assert drawn(SHIPS.only("name", "weight"), 80)[0].split() == ["Name", "Weight"]
    assert SHIPS.without("letters", "harbour").plain(FLEET[:1]) == [
        "weight_bytes  age_ms  name",
        "2048          1500    Argo",
    ]


def test_tables_one_below_the_other_have_the_same_columns():
    out = Console(file=io.StringIO(), width=400, highlight=False)
    for table in SHIPS.tables([[FLEET[0]], [FLEET[1]]], 80, unicode=False, now=NOW):
        out.print(table)
    first, second = (line for line in out.file.getvalue().splitlines() if line.startswith("Name"))  # type: ignore[attr-defined]
    assert first == second


@pytest.mark.parametrize(
    ("kind", "value", "shown", "plain"),
    [
        (TEXT, "a\nb\x1b", "a b?", "a b?"),
        (TEXT, None, "-", "-"),
        (TEXT, "", "-", "-"),
        (PHRASE, None, "", ""),
        (LIST, ["a", "b"], "a, b", "a,b"),
        (LIST, [], "", "-"),
        (NUMBER, -1, "-", "-"),
        (COUNT, 1_234_567, "1,234,567", "1234567"),
        (SIZE, 10_240.4, "10.0 KB", "10240.4"),
        (MILLIS, 61_000, "1 m 01 s", "61000"),
        (MILLIS, None, "-", "-"),
    ],
)
def test_kinds(kind: Kind, value: object, shown: str, plain: str):
    assert (kind.shown(value, Look(NOW, unicode=True)), kind.plain(value)) == (shown, plain)


def test_an_instant_is_short_where_there_is_little_room():
    before = NOW - 3 * 86_400_000

    assert len(INSTANT.shown(NOW, Look(NOW, unicode=True))) == len("08:56:52")
    assert len(INSTANT.shown(before, Look(NOW, unicode=True))) == len("2026-11-19 08:56:52")
    assert len(INSTANT.shown(before, Look(NOW, unicode=True, wide=False))) == len("11-19 08:56")
    assert "T" in INSTANT.plain(NOW)
