"""`pystate debug`: one record in one operator, with the state of its key."""

from __future__ import annotations

import json

import pytest

from tests.cli.terminal import TerminalCommand
from tests.core.snapshot.snapshots import COUNT, WORDS, write_savepoint
from tests.testing.test_program_harness import JOB


@pytest.fixture
def job(tmp_path):
    path = tmp_path / "counts.py"
    path.write_text(JOB)
    return path


@pytest.fixture
def savepoint(own_home):
    content = {COUNT: WORDS[COUNT]}
    return write_savepoint(own_home / "savepoints", snapshot_id="aaaa11112222", content=content, operator_state=False)


def test_a_what_if_on_one_key(pystate, job, savepoint):
    words = ("--operator", "means", "-s", "aaaa", "--record", "('key-7', 5)", "--timestamp", 8)
    code, out, err = pystate("debug", *words, job)

    assert (code, err) == (0, "")
    assert [line.split(":", 1) for line in out.splitlines() if "= {}" not in line and "= []" not in line] == [
        ["key", "         'key-7'"],
        ["record", "      ('key-7', 5)"],
        ["timestamp", "   8"],
        ["state", "       count = 7"],
        ["state", "       sum = None"],
        ["result", "      ('key-7', 20, 7, 8)"],
        ["state after", " count = 8"],
        ["state after", " sum = None"],
    ]
    plain = json.loads(pystate("debug", "--json", *words, job).out)
    assert (plain["result"], plain["stateAfter"][0]) == (["('key-7', 20, 7, 8)"], "count = 8")


def test_a_record_that_fails(pystate, job, tmp_path):
    code, out, err = pystate("debug", "--operator", "count", "--record", "('a', 0)", "--as-test", "test_it.py", job)

    assert code == 1
    assert out.splitlines()[-1] == "raised:      ZeroDivisionError: integer division or modulo by zero"
    trace = err.splitlines()
    assert trace[1].startswith(f'  File "{job}", line '), "the first frame is the program's"
    assert trace[-1] == "The test is test_it.py: python -m pytest test_it.py"
    assert (tmp_path / "test_it.py").exists()


def test_pdb_stops_in_the_function_and_where_it_raises(job):
    command = TerminalCommand("debug", "--operator", "count", "--record", "('a', 0)", job, columns=120, rows=60)
    try:
        command.wait_for(lambda text: "(Pdb)" in text)
        command.press(b"p 'first', value\nc\n")
        command.wait_for(lambda text: "ZeroDivisionError" in text)
        command.press(b"p 'last', count\nq\n")
        assert command.end() == 1
    finally:
        command.close()
    text = command.screen.text
    assert "-> count = self.count.value() or 0" in text
    assert "('first', ('a', 0))" in text
    assert "-> yield value[0], 100 // value[1], count, ctx.timestamp()" in text
    assert "('last', 0)" in text


def test_wrong_calls(pystate, job):
    assert pystate("debug").code == 2
    assert pystate("debug", job).code == 2
    assert pystate("debug", "--record", "1", "nosuch.py").code == 2
    assert pystate("debug", "--operator", "count", "--record", "nosuch", job).code == 2
    code, out, err = pystate("debug", "--operator", "cuont", "--record", "1", job)
    assert code == 1
    assert "did you mean 'count'?" in err
