"""`make fidelity` says what differs, and ends with 1 where nobody knows why."""

from __future__ import annotations

import io
import json
import sys
from pathlib import Path

import pytest

from tests.fidelity import asking, compare
from tests.fidelity.answers import load_programs
from tests.fidelity.differences import DIFFERENCES
from tests.fidelity.recorded import FILE, of_program, read

EQUAL, KNOWN = "streams.union_of_three", "count_and_global_windows.tumbling_continuous"


@pytest.fixture
def pyflink(tmp_path):
    """What takes PyFlink's place: a program that gives recorded answers, changed by a function's source."""

    def make(change: str = "pass") -> Path:
        script = tmp_path / "asks.py"
        script.write_text(
            "import json, sys\n"
            "from pathlib import Path\n"
            f"recorded = json.loads(Path({str(FILE)!r}).read_text())\n"
            "answers = recorded['answers']\n"
            f"{change}\n"
            "print('noise of a JVM')\n"
            "output, mode, parallelism, paced, *names = sys.argv[1:]\n"
            "given = answers[f'{mode} {parallelism}']\n"
            "found = {label: one for label, one in given.items() if label.partition(':')[0] in names}\n"
            "Path(output).write_text(json.dumps({'answers': found, 'versions': recorded['versions']}))\n",
            "utf-8",
        )
        return script

    return make


def run(monkeypatch, tmp_path, script, *words):
    monkeypatch.setattr(asking, "ASKS", script)
    arguments = ["--pyflink", sys.executable, "--answers", str(tmp_path / "answers.json"), *words]
    return compare.main([*arguments, "--only", EQUAL, "--only", KNOWN])


def test_the_table_has_a_row_for_each_program_with_what_is_known(monkeypatch, tmp_path, pyflink, capsys):
    before = FILE.read_bytes()
    assert run(monkeypatch, tmp_path, pyflink()) == 0
    found = capsys.readouterr()
    lines = [line.split(maxsplit=3) for line in found.out.splitlines()[1:] if line.startswith((EQUAL, KNOWN))]
    assert lines == [
        [KNOWN, "STREAMING", "1,2", f"known: {DIFFERENCES[KNOWN].topic}"],
        [EQUAL, "STREAMING", "1,2", "equal"],
        [EQUAL, "BATCH", "1,2", "equal"],
    ]
    assert found.out.endswith("4 equal, 2 different as docs/time.md and docs/pyflink.md say, 0 DIFFERENT\n")
    assert "PyFlink: process 1 of 4, STREAMING at 1: 2 programs" in found.err
    assert "noise of a JVM" in (tmp_path / "answers.log").read_text("utf-8")
    assert before == FILE.read_bytes()


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (f"answers['STREAMING 2'][{EQUAL!r}].popitem()", "unexpected {"),
        (f"answers['STREAMING 2'][{EQUAL!r}]['\"new\"'] = 1", "missing {'\"new\"': 1}"),
        (f"del answers['STREAMING 2'][{EQUAL!r}]", "PyFlink has given no answer"),
        (f"answers['STREAMING 2'][{KNOWN!r}]['\"new\"'] = 1", "missing {'\"new\"': 1}"),
    ],
)
def test_a_difference_that_nobody_knows_ends_with_1(monkeypatch, tmp_path, pyflink, capsys, change, said):
    assert run(monkeypatch, tmp_path, pyflink(change)) == 1
    wrong = [line for line in capsys.readouterr().out.splitlines() if "DIFFERENT: " in line]
    assert len(wrong) == 1
    assert wrong[0].split()[1:3] == ["STREAMING", "2"]
    assert said in wrong[0]


def test_a_program_that_fails_here_is_a_row(monkeypatch):
    def fails(*words):
        message = "no such window"
        raise ValueError(message)

    monkeypatch.setattr(compare, "ask", fails)
    rows = list(compare.compared(read(), load_programs("pystate", [KNOWN]), lambda text: None))
    assert rows == [compare.Row(KNOWN, "STREAMING", (1, 2), "DIFFERENT: fails here: no such window")]


def test_pyflink_that_answers_nothing_at_all_ends_it_and_says_where_to_look(monkeypatch, tmp_path, pyflink):
    with pytest.raises(SystemExit, match="nothing of its first job, STREAMING at 1: 2 programs, .*: see .*answers.log"):
        run(monkeypatch, tmp_path, pyflink("sys.exit(3)"))


def test_some_answers_are_no_record(monkeypatch, tmp_path, pyflink, capsys):
    with pytest.raises(SystemExit):
        run(monkeypatch, tmp_path, pyflink(), "--record")
    assert "--record needs all programs" in capsys.readouterr().err


def test_progress_is_one_line_on_a_terminal_and_steps_elsewhere(monkeypatch):
    elsewhere, terminal = io.StringIO(), io.StringIO()
    monkeypatch.setattr(terminal, "isatty", lambda: True)
    for out in (elsewhere, terminal):
        progress = compare.Progress(out)
        progress.step("PyFlink: a job")
        progress.small_step("pystate: a program")
        progress.end()
    assert elsewhere.getvalue() == "   0 s  PyFlink: a job\n"
    assert "\n" not in terminal.getvalue()
    assert "pystate: a program" in terminal.getvalue()
    assert terminal.getvalue().endswith("\r\033[K")


def test_recording_keeps_pyflinks_answers_and_ours_of_one_epoch(monkeypatch, tmp_path):
    monkeypatch.setattr(compare, "RECORD", tmp_path / "pyflink.json")
    monkeypatch.setattr(compare, "IN_ONE_EPOCH", tmp_path / "one.json")
    programs = load_programs("pystate", ["lateness.dropped", EQUAL])
    compare.record(FILE, programs)
    assert (tmp_path / "pyflink.json").read_bytes() == FILE.read_bytes()
    assert list(json.loads((tmp_path / "one.json").read_text("utf-8"))) == ["lateness.dropped"]
    assert of_program(read(), programs[0], "BATCH", 1) == {}
