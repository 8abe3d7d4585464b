"""`pystate state read`."""

from __future__ import annotations

import csv
import json
import shutil
import subprocess
import sys
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from pystate.common.type_info import Types
from pystate_cli.console.json_keys import with_our_keys
from tests.fixtures import all_kinds as jobs
from tests.state_processor.conftest import MIXED, WORDS


@pytest.fixture(scope="module")
def savepoint(tmp_path_factory):
    operators = [
        jobs.all_kinds_operator("typed", jobs.numbers_of(WORDS), Types.STRING(), "hashmap"),
        jobs.all_kinds_operator("untyped", jobs.numbers_of(MIXED), None, "hashmap", with_raw=False),
        jobs.rules_operator("rules", "hashmap"),
    ]
    return jobs.write_savepoint(tmp_path_factory.mktemp("cli") / "savepoint", operators)


def read(pystate, *words):
    outcome = pystate("state", "read", *words)
    assert outcome.code == 0, outcome.err
    return outcome


def numbers(key):
    return jobs.by_key(jobs.numbers_of(WORDS))[key]


def test_a_table_for_people(pystate, savepoint):
    outcome = read(pystate, savepoint, "typed", "value", "--key", "cow")
    last = numbers("cow")[-1]
    header, row = outcome.out.splitlines()
    assert header.split() == ["key", "key_group", "value"]
    assert row.split(None, 2)[0] == "cow"
    assert row.split(None, 2)[2] == f'{{"name": "cow", "price": "{last / 4:g}"}}'
    assert outcome.err == "1 row.\n"


def test_native_state_is_read_like_any_other(pystate):
    snapshots = Path(jobs.__file__).parent / "snapshots" / "v0.1.0"
    for words in (["value"], ["list", "--key", "dög"], ["map", "--limit", "3"], ["union"]):
        native, canonical = (
            read(pystate, snapshots / f"{kind}-rocksdb", "typed", *words, "--json").out for kind in ("native", "canonical")
        )
        assert native == canonical != ""


def test_a_savepoint_is_named_by_its_id(pystate, savepoint, tmp_path, monkeypatch):
    directory = tmp_path / "savepoints"
    shutil.copytree(savepoint, directory / "savepoint-beef01-0123456789ab")
    (tmp_path / "conf").mkdir()
    (tmp_path / "conf" / "flink-conf.toml").write_text(f'"execution.checkpointing.savepoint-dir" = "{directory}"\n')

    for word in ("savepoint-beef01-0123456789ab", "01234"):
        assert read(pystate, word, "typed", "reducing").out == read(pystate, savepoint, "typed", "reducing").out


def test_json_lines(pystate, savepoint):
    rows = [json.loads(line) for line in read(pystate, savepoint, "typed", "reducing", "--json").out.splitlines()]
    assert {row["key"]: row["value"] for row in rows} == {key: sum(numbers(key)) for key in WORDS}
    assert all(row.keys() == {"key", "keyGroup", "value"} for row in rows)
    timed = json.loads(read(pystate, savepoint, "typed", "ttl", "--key", "ant", "--format", "json").out)
    assert timed["ttlTimestamp"] == 1_000_000
    elements = read(pystate, savepoint, "typed", "list", "--key", "ant", "--json").out.splitlines()
    assert [(json.loads(line)["index"], json.loads(line)["value"]) for line in elements] == list(
        enumerate(f"#{number}" for number in numbers("ant"))
    )


@pytest.mark.parametrize(("text", "key"), [("7", 7), ('"7"', "7"), ("7.0", 7.0), ('[1, "x"]', [1, "x"]), ("ant", "ant")])
def test_untyped_keys_are_json(pystate, savepoint, text, key):
    (line,) = read(pystate, savepoint, "untyped", "reducing", "--key", text, "--json").out.splitlines()
    assert (type(json.loads(line)["key"]), json.loads(line)["key"]) == (type(key), key)


def test_operator_state(pystate, savepoint):
    rows = [json.loads(line) for line in read(pystate, savepoint, "rules", "rules", "--json").out.splitlines()]
    assert {row["mapKey"]: row["value"] for row in rows} == {"small": [1, 2, 3], "round": [10, 20], "none": None}
    only = read(pystate, savepoint, "rules", "rules", "--key", "round", "--json").out
    assert json.loads(only) == {"mapKey": "round", "value": [10, 20]}
    union = read(pystate, savepoint, "typed", "union", "--format", "csv").out
    assert union == "subtask,value\n0,subtask 0\n1,subtask 1\n"
    outcome = pystate("state", "read", savepoint, "typed", "split", "--key", "1")
    assert (outcome.code, "it has no keys" in outcome.err) == (2, True)


def test_limit(pystate, savepoint):
    outcome = read(pystate, savepoint, "typed", "list", "--limit", "5", "--json")
    assert len(outcome.out.splitlines()) == 5
    assert read(pystate, savepoint, "typed", "list", "--limit", "0", "--json").out == ""


def test_files(pystate, savepoint, tmp_path):
    for name in ("rows.csv", "rows.jsonl", "rows.parquet", "rows.txt"):
        outcome = read(pystate, savepoint, "typed", "map", "-o", tmp_path / name)
        assert outcome.out == ""
    with (tmp_path / "rows.csv").open(newline="") as file:
        table = list(csv.DictReader(file))
    lines = [json.loads(line) for line in (tmp_path / "rows.jsonl").read_text().splitlines()]
    parquet = pq.read_table(tmp_path / "rows.parquet").to_pylist()
    assert [with_our_keys(row) for row in parquet] == lines
    assert [(row["key"], row["map_key"], float(row["value"])) for row in table] == [
        (row["key"], row["mapKey"], row["value"]) for row in lines
    ]
    assert {row["mapKey"]: row["value"] for row in lines if row["key"] == "gnu"} == jobs.expected(numbers("gnu"), "gnu")[
        "map"
    ]
    assert sorted(path.name for path in tmp_path.glob("*rows*")) == ["rows.csv", "rows.jsonl", "rows.parquet", "rows.txt"]


@pytest.mark.parametrize(
    ("words", "code", "message"),
    [
        (["typd", "value"], 1, "did you mean 'typed'"),
        (["typed", "valeu"], 1, "did you mean 'value'"),
        (["typed", "value", "--format", "parquet"], 2, "Parquet is written to a file"),
        (["typed", "value", "--json", "--format", "csv"], 2, "contradict each other"),
        (["rules", "count", "--key", "many"], 2, "'many' is no key of type LONG"),
        (["typed", "value", "--limit", "-1"], 2, "--limit"),
        (["typed", "value", "-o", "rows.foo"], 2, "The name of the file ends with .foo, which says no format"),
        (["typed", "value", "-o", "/nonexistent/rows.csv"], 1, "Cannot write /nonexistent/rows.csv"),
    ],
)
def test_what_is_wrong_is_said(pystate, savepoint, words, code, message):
    outcome = pystate("state", "read", savepoint, *words)
    assert (outcome.code, outcome.out) == (code, "")
    assert message in outcome.err


def test_a_missing_snapshot(pystate, tmp_path):
    outcome = pystate("state", "read", tmp_path / "none", "a", "b")
    assert outcome.code == 1
    assert "Cannot find checkpoint or savepoint" in outcome.err


def test_spark_is_not_imported(savepoint):
    program = (
        "import sys\n"
        "from pystate_cli.command_line import run_command_line\n"
        f"assert run_command_line(['state', 'read', {savepoint!r}, 'typed', 'value']) == 0\n"
        "print([name for name in ('pyspark', 'pandas', 'rocksdict') if name in sys.modules], file=sys.stderr)\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stderr.splitlines()[-1] == "[]"
    assert Path(savepoint).exists()
