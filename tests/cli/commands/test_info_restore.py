"""`pystate info -s`: a dry run of a restore."""

from __future__ import annotations

import json
import sys

import pytest

from tests.cli.terminal import TerminalCommand
from tests.core.snapshot.snapshots import COUNT, WORDS, write_incremental, write_savepoint

pytestmark = pytest.mark.usefixtures("forked_programs")

JOB = """
import sys
from pystate.common import Types
from pystate.datastream import StreamExecutionEnvironment

env = StreamExecutionEnvironment.get_execution_environment()
numbers = env.from_collection([1, 2, 3], Types.LONG()).uid("numbers")
keyed = numbers.key_by(lambda n: str(n), key_type=Types.KEY())
step = keyed.reduce(lambda a, b: a + b).name("sum").uid("UID")
step.print()
env.execute("adds")
"""


@pytest.fixture
def program(tmp_path, monkeypatch):
    for name in ("JAVA_HOME", "PATH"):  # Spark could not start
        monkeypatch.setenv(name, "/nowhere")

    def write(uid="count", key="STRING", more=""):
        path = tmp_path / "adds.py"
        path.write_text(JOB.replace("UID", uid).replace("KEY", key).replace("step.print()", f"{more}\nstep.print()"))
        return path

    return write


@pytest.fixture
def savepoint(own_home):
    """Of a job with the operator `count`, 16 key groups, and the sources `files` and `kafka`."""
    content = {COUNT: WORDS[COUNT]}
    return write_savepoint(own_home / "savepoints", snapshot_id="aaaa11112222", content=content, operator_state=False)


def test_what_fits_is_said_and_nothing_is_started(pystate, program, savepoint, own_home):
    code, out, err = pystate("info", "-n", "-p", 3, "-s", "aaaa", program())

    assert code == 0, err
    assert out.splitlines() == [
        "fit       operator  parallelism_a  parallelism_b  max_a  max_b  keys    name",
        "restored  count     2              3              16     16     STRING  sum",
        "",
        "fit          source   position",
        "left_behind  files    3 files read (log offset 1)",
        "left_behind  kafka    topic orders: partitions 0 at 1,234, 1 at 7",
        "new          numbers  from its beginning",
    ]
    assert err == "The snapshot fits, as far as can be seen without slots: they compare the types of values.\n"
    assert not (own_home / "jobs").exists()


def test_all_that_does_not_fit_is_told_at_once(pystate, program, savepoint):
    code, out, err = pystate("info", "-s", savepoint.uri, program("counts"))

    assert code == 1
    assert [line.split()[:2] for line in out.splitlines()] == [
        ["fit", "operator"],
        ["does_not_fit", "count"],
        ["new", "counts"],
        [],
        ["fit", "source"],
        ["does_not_fit", "files"],
        ["does_not_fit", "kafka"],
        ["new", "numbers"],
    ]
    assert "count: Cannot map checkpoint/savepoint state for operator count ('Count') to the new program" in err
    assert "is it counts ('sum') now? Then give that one .uid(\"count\")" in err
    assert "kafka: The job has no source 'kafka'" in err
    assert "error: The snapshot does not fit the program: 3 problems." in err


@pytest.mark.parametrize(
    ("words", "changes", "problem"),
    [
        (("-p", "17"), {}, "cannot be restored at parallelism 17: it was written with max parallelism 16"),
        pytest.param(
            ("-D", "pipeline.max-parallelism=64"),
            {},
            "Max parallelism mismatch between checkpoint/savepoint state and new",
            marks=pytest.mark.slow,
        ),
        pytest.param(
            (),
            {"key": "LONG"},
            "was written with keys of type STRING; the job's key_by() gives LONG",
            marks=pytest.mark.slow,
        ),
        pytest.param(
            (),
            {"more": "step.set_max_parallelism(8)"},
            "Cannot map operator count with max parallelism 16 to new program",
            marks=pytest.mark.slow,
        ),
    ],
)
def test_an_operator_that_does_not_fit(pystate, program, savepoint, words, changes, problem):
    if "key" in changes:
        changes = {**changes, "more": ""}
    path = program(**changes)
    if changes.get("key") == "LONG":
        path.write_text(path.read_text().replace("lambda n: str(n)", "lambda n: n"))

    code, out, err = pystate("info", "-n", "-s", savepoint.uri, *words, path)

    assert code == 1
    assert problem in err
    assert out.splitlines()[1].split()[:2] == ["does_not_fit", "count"]
    assert "error: The snapshot does not fit the program: 1 problem." in err


def test_it_is_json_for_programs(pystate, program, savepoint):
    fits = json.loads(pystate("info", "--json", "-n", "-s", "aaaa", program()).out)["restore"]
    misfits = json.loads(pystate("info", "--json", "-s", "aaaa", program()).out)["restore"]

    size = fits["operators"][0]["snapshot"]["bytes"]
    assert fits["fits"]
    assert not misfits["fits"]
    assert fits["operators"][0] == {
        "uid": "count",
        "fit": "restored",
        "snapshot": {"name": "Count", "parallelism": 2, "maxParallelism": 16, "keyType": "STRING", "bytes": size},
        "program": {"name": "sum", "parallelism": 1, "maxParallelism": 16},
        "problem": None,
        "hint": None,
    }  # fmt: skip
    assert [source["problem"] for source in misfits["sources"]][0].startswith("The job has no source 'files'")


def test_the_options_of_run_are_taken(pystate, program, savepoint):
    words = ("-t", "local", "-cm", "claim", "--name", "x", "-m", "nowhere:1", "-pyexec", sys.executable)
    assert pystate("info", "-n", "-s", "aaaa", *words, program()).code == 0
    assert pystate("info", "-s", "aaaa", "-cm", "mine", program()).code == 2


@pytest.mark.parametrize("columns", [80, pytest.param(160, marks=pytest.mark.slow)])
def test_a_terminal_gets_tables(program, savepoint, columns):
    command = TerminalCommand("info", "-s", "aaaa", program("counts"), columns=columns, rows=60)
    try:
        assert command.end() == 1
    finally:
        command.close()
    lines = [line.split() for line in command.screen.text.splitlines()]
    assert any(line[:2] == ["!", "count"] and line[-3:] == ["does", "not", "fit"] for line in lines)
    assert any(line[:2] == ["+", "counts"] and line[-1] == "new" for line in lines)
    assert any(line[:2] == ["!", "kafka"] for line in lines)


@pytest.mark.parametrize(
    ("word", "sentence"), [("/nonexistent", "Cannot find checkpoint"), ("ffff", "no snapshot whose id")]
)
def test_a_snapshot_that_is_not_there(pystate, program, savepoint, word, sentence):
    code, out, err = pystate("info", "-s", word, program(more="import sys\nprint('the program has run')"))
    assert (code, out) == (1, "")
    assert sentence in err
    assert "the program has run" not in err, "it may take its time"


def test_the_own_files_of_a_backend_that_is_not_the_jobs(pystate, program, own_home, tmp_path):
    (tmp_path / "one.sst").write_bytes(b"rows")
    content = {COUNT: WORDS[COUNT]}
    native = write_incremental(own_home / "savepoints", tmp_path / "one.sst", content=content, operator_state=False)

    code, out, err = pystate("info", "-n", "-s", native.uri, program())

    assert code == 1
    assert out.splitlines()[1].split()[:2] == ["does_not_fit", "count"]
    assert "in the own files of the rocksdb state backend that took it, which the hashmap state backend can't read." in err
    assert pystate("info", "-n", "-s", native.uri, "-D", "state.backend.type=rocksdb", program()).code == 0
