"""`pystate info`: the plan of a program that is not run."""

from __future__ import annotations

import io
import json

import pytest
from rich.console import Console as RichConsole

from pystate_cli.commands.info import info_arguments
from pystate_cli.views.plan_view import plan_view
from tests.ops.jobmanager.harness import REPOSITORY

pytestmark = pytest.mark.usefixtures("forked_programs")

WORD_COUNT = REPOSITORY / "examples" / "word_count.py"
JOB = """
import sys
from pystate.common import Types
from pystate.datastream import StreamExecutionEnvironment

print("said by the program", sys.argv[1:])
env = StreamExecutionEnvironment.get_execution_environment()
numbers = env.from_collection([1, 2, 3], Types.LONG())
others = env.from_collection([4], Types.LONG())
keyed = numbers.union(others.map(lambda n: n, output_type=Types.LONG()).name("copy")).key_by(lambda n: n % 2)
sums = keyed.reduce(lambda a, b: a + b).name("sum").uid("sum").set_parallelism(3)
sums.rebalance().map(lambda n: str(n), output_type=Types.STRING()).name("text").print()
sums.print("raw")
try:
    env.execute("adds")
except Exception:
    print("never")
print("never, either")
"""


@pytest.fixture
def job(tmp_path):
    path = tmp_path / "adds.py"
    path.write_text(JOB)
    return path


def test_a_pipe_gets_flinks_json_and_nothing_runs(pystate, job, own_home):
    code, out, err = pystate("info", "-p", 2, job, "--", "an argument", "-p")

    nodes = json.loads(out)["nodes"]
    assert code == 0, err
    said, *promised = err.splitlines()
    assert said == "said by the program ['an argument', '-p']"
    assert [line.split("  ")[0].replace("→", "->") for line in promised] == ["Collection Source -> Print"]
    assert [(node["id"], node["pact"], node["type"], node["parallelism"]) for node in nodes] == [
        (1, "Data Source", "Source: Collection Source", 2),
        (2, "Data Source", "Source: Collection Source", 2),
        (3, "Operator", "copy", 2),
        (4, "Operator", "sum", 3),
        (5, "Operator", "text", 2),
        (6, "Data Sink", f"Sink: {nodes[5]['contents'].removeprefix('Sink: ')}", 2),
        (7, "Data Sink", nodes[6]["type"], 2),
    ]
    assert nodes[3]["uid"] == "sum"
    assert [node.get("predecessors") for node in nodes[:5]] == [
        None,
        None,
        [{"id": 2, "ship_strategy": "FORWARD", "side": "second"}],
        [{"id": 1, "ship_strategy": "HASH", "side": "second"}, {"id": 3, "ship_strategy": "HASH", "side": "second"}],
        [{"id": 4, "ship_strategy": "REBALANCE", "side": "second"}],
    ]
    assert not (own_home / "jobs").exists()


def test_py_names_the_program(pystate, job):
    as_json = json.loads(pystate("info", "--json", job).out.replace("shipStrategy", "ship_strategy"))
    assert json.loads(pystate("info", "-py", job).out)["nodes"] == as_json["nodes"]
    assert [(one["source"], one["sinkUid"]) for one in as_json["guarantees"]] == [
        ("Collection Source", as_json["nodes"][place]["uid"]) for place in (5, 6, 5, 6)
    ]
    assert info_arguments(["-p2", "--json", "-py", "job.py", "-x"]) == ["-p2", "--json", "job.py", "-x"]


def test_settings_of_the_command_line_count(pystate, job):
    nodes = json.loads(pystate("info", "-D", "parallelism.default=5", job).out)["nodes"]

    assert nodes[0]["parallelism"] == 5


@pytest.mark.parametrize(
    ("text", "message", "where"),
    [
        ("import nosuch", "ModuleNotFoundError: No module named 'nosuch'", '"{path}", line 1'),
        ("x = 1", "job.py never calls execute().", "{path}"),
        ("raise SystemExit(3)", "job.py ended with exit code 3 before its execute().", "{path}"),
        ("import os; os._exit(9)", "The program's process ended with exit code 9 before its plan was known.", "{path}"),
        (JOB.replace('.name("copy")', '.name("copy").uid("sum")'), "The uid 'sum' is used by two operators", None),
    ],
)
def test_a_program_that_fails_before_its_execute(pystate, tmp_path, text, message, where):
    path = tmp_path / "job.py"
    path.write_text(text)

    code, out, err = pystate("info", path)

    assert (code, out) == (1, "")
    assert f"error: {message}" in err
    if where is not None:
        assert where.format(path=path) in err


def test_wrong_calls_of_info(pystate, tmp_path):
    bad = tmp_path / "bad.py"
    bad.write_text("for x in :\n")
    assert pystate("info").code == 2
    assert pystate("info", "nosuch.py").code == 2
    assert pystate("info", "-p", "0", bad).code == 2
    assert pystate("info", bad).err.startswith("error: SyntaxError: invalid syntax\n")


def test_a_terminal_gets_a_tree(pystate, job, monkeypatch):
    monkeypatch.setattr("pystate_cli.console.console.Console.is_terminal", True)

    lines = pystate("info", "-p", 2, job).out.splitlines()

    assert lines[0] == "adds  7 steps, parallelism 2"
    assert lines[1:9] == [
        "Source: Collection Source ×2",
        "└─ hash → sum ×3  uid sum",
        "   ├─ rebalance → text ×2",
        f"   │  └─ forward → {lines[4].partition('→ ')[2]}",
        f"   └─ rebalance → {lines[5].partition('→ ')[2]}",
        "Source: Collection Source ×2",
        "└─ forward → copy ×2",
        "   └─ hash → sum  (see above)",
    ]
    assert [line.split("  ")[0] for line in lines[9:] if "→" in line] == ["Collection Source → Print"]


@pytest.mark.parametrize("width", [40, 80, 160])
@pytest.mark.parametrize("unicode", [True, False])
def test_a_tree_fits_the_terminal(width, unicode):
    names = ["a very long name of a step that says more than there is room for", "b" * 100]
    nodes = [
        {"id": 1, "type": names[0], "pact": "Data Source", "parallelism": 12, "uid": "auto-1"},
        {
            "id": 2,
            "type": names[1],
            "pact": "Data Sink",
            "parallelism": 12,
            "uid": "u" * 50,
            "predecessors": [{"id": 1, "ship_strategy": "HASH", "side": "second"}],
        },
    ]
    file = io.StringIO()
    plan = {"name": "x", "parallelism": 12, "plan": {"nodes": nodes}}
    RichConsole(file=file, width=width).print(plan_view(plan, width, unicode=unicode))

    assert max(map(len, file.getvalue().splitlines())) <= width
    assert unicode or file.getvalue().isascii()
