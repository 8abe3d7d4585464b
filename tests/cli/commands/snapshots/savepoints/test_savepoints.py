"""Whole outputs of `pystate savepoints`."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from types import ModuleType

import pytest

from pystate.common import Types
from pystate.core.api.state import ValueStateDescriptor
from pystate.core.snapshot.reading.inspection import OperatorFigures, StateFigures
from pystate.core.snapshot.storage.ownership import claim
from pystate.core.snapshot.storage.snapshot_location import SnapshotLocation
from pystate.ops.catalog.difference import compare
from pystate_cli.views.snapshots.savepoint_changes import CHANGES, ChangeRow
from tests.cli.terminal import TerminalCommand
from tests.cli.views.test_views import rendered
from tests.core.snapshot.snapshots import COUNT, V1, WORDS, write_checkpoint, write_savepoint
from tests.fixtures import all_kinds, windows

EXPECTED = Path(__file__).parents[3] / "expected"
FIXTURES = Path(__file__).parents[4] / "fixtures"


@pytest.fixture
def history(own_home):
    """v0 runs, savepoints v0t1 and v0t2; v1 starts from v0t1 with new code; t3 from v0, t4 from v1."""
    directory = own_home / "savepoints"
    parent = write_savepoint(directory, snapshot_id="aaaa11112222", message="v0t1", minutes=1, checkpoint_id=1)
    changed = {COUNT: {f"key-{i}": i * (2 if i == 7 else 1) for i in range(1, 42)}}
    write_savepoint(
        directory, snapshot_id="bbbb11112222", message="v0t2", minutes=2, checkpoint_id=2, content={**WORDS, **changed}
    )
    write_savepoint(directory, snapshot_id="cccc11112222", message="t3", minutes=3, checkpoint_id=3)
    write_savepoint(
        directory,
        snapshot_id="dddd11112222",
        message="t4",
        minutes=4,
        checkpoint_id=2,
        job_id=V1,
        parallelism=3,
        code="feed" * 16,
        parent=parent.uri,
        parent_id="aaaa11112222",
        content={COUNT: WORDS[COUNT]},
    )
    return directory


def on_terminal(*words: object, columns: int) -> str:
    command = TerminalCommand(*words, columns=columns, rows=80)
    try:
        assert command.end() == 0
        lines = command.screen.text.splitlines()
        # the path of a test's folder is longer than a line
        return "".join(line if len(line) == columns else f"{line}\n" for line in lines)
    finally:
        command.close()


def test_the_tree_of_versions_in_a_pipe(history, pystate):
    assert pystate("savepoints", "tree") == (
        0,
        "word count  job 83f146a8  code c0dec0d\n"
        "|-- aaaa11112222  2026-11-20 12:01:00  3.20 KB  v0t1\n"
        "|   `-- word count  job 6077eb43  code feedfee  new code\n"
        "|       `-- dddd11112222  2026-11-20 12:04:00  3.34 KB  t4\n"
        "|-- bbbb11112222  2026-11-20 12:02:00  3.21 KB  v0t2\n"
        "`-- cccc11112222  2026-11-20 12:03:00  3.20 KB  t3\n",
        f"4 savepoints in {history}\n",
    )


def test_the_tree_of_versions_on_a_terminal(history):
    assert on_terminal("savepoints", "tree", columns=80) == (
        "word count  job 83f146a8  code c0dec0d\n"
        "├── aaaa11112222  2026-11-20 12:01:00  3.20 KB  v0t1\n"
        "│   └── word count  job 6077eb43  code feedfee  new code\n"
        "│       └── dddd11112222  2026-11-20 12:04:00  3.34 KB  t4\n"
        "├── bbbb11112222  2026-11-20 12:02:00  3.21 KB  v0t2\n"
        "└── cccc11112222  2026-11-20 12:03:00  3.20 KB  t3\n"
        "\n"
        f"4 savepoints in {history}\n"
    )


def test_a_parent_that_is_gone_is_said_so(history, pystate):
    (history / "savepoint-83f146-aaaa11112222" / "_metadata").unlink()

    code, out, err = pystate("savepoints", "tree")

    assert (code, out.splitlines()[-3:-1]) == (
        0,
        ["aaaa11112222  not here", "`-- word count  job 6077eb43  code feedfee"],
    )
    assert "it has no _metadata: it never completed, or is being written" in err


def test_long_names_and_messages_do_not_break_the_tree(own_home):
    from pystate.ops.catalog.listing import find_snapshots
    from pystate.ops.catalog.tree import version_forest
    from pystate_cli.views.snapshots.savepoint_tree import plain_tree, tree

    write_savepoint(own_home, job_name="a\x1b[2J" + "n" * 200, message="m" * 200)
    forest = version_forest(find_snapshots([str(own_home)], checkpoints=False).snapshots)

    for width in (40, 80):
        lines = rendered(tree(forest, width, unicode=True), width).splitlines()
        assert [len(line) for line in lines] == [width, width]
        assert [line[-1] for line in lines] == ["…", "…"]
    assert rendered(tree(forest, 40, unicode=False), 40, "ascii").splitlines()[1].startswith("`-- 0123")
    assert plain_tree(forest)[0].startswith("a?[2Jnnn")


@pytest.mark.parametrize("columns", [80, 160])
def test_the_list_on_a_terminal(history, columns):
    seen = on_terminal("savepoints", "list", columns=columns).replace(str(history), "DIR")

    assert seen == (EXPECTED / f"savepoints_{columns}.txt").read_text("utf-8")


def test_the_list_in_a_pipe(history, pystate):
    write_checkpoint(history, 9, minutes=9)

    code, out, err = pystate("savepoints", "list", "--all")

    lines = out.splitlines()
    assert (code, err) == (0, f"4 savepoints, 1 checkpoint in {history}\n")
    assert lines[0].split() == (
        "id kind taken size_bytes format parallelism parent job_id job operators path message".split()
    )
    assert [line.split()[0] for line in lines[1:]] == [
        "83f146-chk-9",
        *(f"{letter * 4}11112222" for letter in "dcba"),
    ]
    assert lines[2].split()[-2:] == [f"file:{history}/savepoint-6077eb-dddd11112222", "t4"]
    for column in ("path", "message", "job_id"):
        assert all(line[lines[0].index(column) - 1] == " " for line in lines)


def test_a_parent_without_an_id_is_one_in_every_form_of_the_list(own_home, pystate):
    write_savepoint(own_home / "savepoints", snapshot_id="aaaa11112222", parent="/renamed/by-hand")

    lines = pystate("savepoints", "list").out.splitlines()
    (told,) = json.loads(pystate("savepoints", "list", "--json").out)["savepoints"]

    assert dict(zip(lines[0].split(), lines[1].split(), strict=False))["parent"] == "?"
    assert " ? " in on_terminal("savepoints", "list", columns=120).splitlines()[2]
    assert (told["parentId"], told["parentPath"]) == (None, "/renamed/by-hand")


def test_a_difference_that_rounding_would_hide_is_shown_to_people_too():
    def figures(size):
        return StateFigures("count", "VALUE", "LONG", 325, size, False)

    before, after = (OperatorFigures("a", "a", 2, 128, "STRING", size, [figures(size)]) for size in (6542, 6547))
    (one,) = compare([before], [after])
    rows = [ChangeRow(one, state) for state in one.states]

    assert "6,542 -> 6,547" in rendered(CHANGES.table(rows, 80, unicode=False), 80, "ascii")
    assert CHANGES.plain(rows)[1].split()[3:7] == ["325", "325", "6542", "6547"]


def test_the_list_as_json(history, pystate):
    (history / "savepoint-83f146-bbbb11112222" / "_metadata").write_bytes(b"x")

    answer = json.loads(pystate("savepoints", "list", "--json", history).out)

    assert [one["id"] for one in answer["savepoints"]] == ["dddd11112222", "cccc11112222", "aaaa11112222"]
    assert answer["savepoints"][0]["parentId"] == "aaaa11112222"
    assert answer["damaged"][0]["path"].endswith("bbbb11112222")


def test_damaged_ones_stand_below_the_list(history):
    (history / "savepoint-83f146-bbbb11112222" / "_metadata").write_bytes(b"x")

    lines = on_terminal("savepoints", "list", columns=80).splitlines()

    assert lines[-1] == f"3 savepoints, 1 damaged in {history}"
    assert any("This is no metadata file of a pystate snapshot" in line for line in lines)


def test_nothing_is_there_yet(pystate, own_home):
    assert pystate("savepoints", "list").err == "no savepoints\n"
    assert pystate("savepoints", "tree").out == ""
    assert pystate("savepoints", "list", own_home / "none") == (1, "", f"error: There is no directory {own_home}/none.\n")


def test_inspect_in_a_pipe(history, pystate):
    code, out, err = pystate("savepoints", "inspect", "dddd")

    assert (code, err) == (0, "")
    assert out == (EXPECTED / "savepoint_inspect.txt").read_text("utf-8").replace("DIR", str(history))


@pytest.mark.parametrize("columns", [80, 160])
def test_inspect_on_a_terminal(history, columns):
    seen = on_terminal("savepoints", "inspect", "aaaa", columns=columns).replace(str(history), "DIR")

    assert seen == (EXPECTED / "savepoint_inspect_160.txt").read_text("utf-8")


def test_inspect_as_json(history, pystate):
    answer = json.loads(pystate("savepoints", "inspect", "--json", "dddd").out)

    assert (answer["id"], answer["parentId"], answer["message"]) == ("dddd11112222", "aaaa11112222", "t4")
    (operator,) = answer["operators"]
    assert (operator["uid"], operator["parallelism"], operator["keyType"]) == ("count", 3, "STRING")
    assert operator["states"][0]["entries"] == 40
    assert answer["sources"][0] == {
        "uid": "files",
        "position": "3 files read (log offset 1)",
        "offset": '{"logOffset":1}',
    }


def test_inspect_shows_how_many_timers_there_are_and_when_the_next_one_fires(own_home, pystate):
    path = all_kinds.write_savepoint(own_home / "timers", [windows.windows_operator(["ant", "bee", "cow"], "rocksdb")])

    (operator,) = json.loads(pystate("savepoints", "inspect", "--json", path).out)["operators"]
    assert operator["timers"] == [
        {"service": "window-timers", "domain": "EVENT_TIME", "count": 9, "next": -1},
        {"service": "user-timers", "domain": "PROCESSING_TIME", "count": 3, "next": -3},
    ]
    lines = [line.split() for line in pystate("savepoints", "inspect", path).out.splitlines()]
    assert lines.index(["operator", "timers", "domain", "count", "next"]) > 0
    assert ["windows", "window-timers", "EVENT_TIME", "9", "-1"] in lines
    seen = on_terminal("savepoints", "inspect", path, columns=120).splitlines()
    shown = next(line for line in seen if line.startswith("window-timers"))
    assert shown.split() == ["window-timers", "event", "time", "9", "1969-12-31", "23:59:59.999"]


def test_inspect_leaves_timers_in_the_backends_own_files_uncounted(own_home, pystate):
    operator = windows.windows_operator(["ant", "bee"], "rocksdb", native=True)
    path = all_kinds.write_savepoint(own_home / "native", [operator])

    (found,) = json.loads(pystate("savepoints", "inspect", "--json", path).out)["operators"]
    assert [(one["service"], one["count"], one["next"]) for one in found["timers"]] == [
        ("window-timers", None, None),
        ("user-timers", None, None),
    ]


def test_inspect_names_the_job_that_has_claimed_the_savepoint(history, pystate):
    location = SnapshotLocation(str(history / "savepoint-83f146-aaaa11112222"))
    claim(location, "c" * 32, None, lambda _: False)

    assert json.loads(pystate("savepoints", "inspect", "--json", "aaaa").out)["claimedBy"] == "c" * 32
    assert f"claimed by: job {'c' * 32}, which deletes it" in pystate("savepoints", "inspect", "aaaa").out
    assert pystate("savepoints", "verify", "aaaa").code == 0
    outcome = pystate("savepoints", "dispose", "aaaa")
    assert outcome.code == 1
    assert f"error: Job {'c' * 32} has claimed it" in outcome.err


@pytest.mark.parametrize("kind", ["canonical-hashmap", "canonical-rocksdb", "compressed", "inline", "native-rocksdb"])
def test_the_snapshots_of_this_version_are_sound_and_are_shown(pystate, kind):
    path = FIXTURES / "snapshots" / "v0.1.0" / kind

    assert pystate("savepoints", "verify", path).code == 0
    shown = json.loads(pystate("savepoints", "inspect", "--json", path).out)
    assert shown["format"] == ("NATIVE" if kind.startswith("native") else "CANONICAL")
    assert shown["sources"][0]["position"] == "4 files read (log offset 3)"


def test_a_damaged_file_is_one_sentence_in_inspect_and_all_of_it_in_verify(history, pystate):
    folder = history / "savepoint-83f146-aaaa11112222"
    for file in folder.glob("count-*-keyed-*"):
        file.write_bytes(b"x")

    code, out, err = pystate("savepoints", "inspect", "aaaa")
    assert (code, out) == (1, "")
    assert err.startswith("error: A file of the snapshot is damaged, its length is not ")
    assert err.endswith("  try: pystate savepoints verify aaaa says all that is wrong with it\n")

    code, out, err = pystate("savepoints", "verify", "aaaa")
    assert code == 1
    assert [line.split(":")[0] for line in out.splitlines()] == [
        "operator 'count', subtask 0",
        "operator 'count', subtask 1",
    ]
    assert err == f"file:{folder} can't be relied on: 2 problems.\n"

    answer = pystate("savepoints", "verify", "--json", "aaaa")
    assert (answer.code, len(json.loads(answer.out)["problems"])) == (1, 2)


def test_verify_of_a_sound_one(history, pystate):
    assert pystate("savepoints", "verify", "aaaa") == (
        0,
        f"file:{history}/savepoint-83f146-aaaa11112222 is sound: _metadata and 5 files, 3.20 KB of state.\n",
        "",
    )


def test_objects_of_the_programs_classes_are_no_fault_of_a_savepoint(own_home, pystate, monkeypatch):
    program = ModuleType("a_program_of_points")
    exec("class Point: pass", vars(program))  # noqa: S102 - a class that only the program has
    with monkeypatch.context() as there:
        there.setitem(sys.modules, program.__name__, program)
        points = {ValueStateDescriptor("points", Types.PICKLED_BYTE_ARRAY()): {"key-1": program.Point()}}
        location = write_savepoint(own_home / "savepoints", snapshot_id="aaaa11112222", parallelism=1, content=points)

    code, out, err = pystate("savepoints", "verify", "--deep", "aaaa")
    assert (code, out.startswith(f"{location.uri} is sound: "), err) == (0, True, ""), "nothing is unpickled"


def test_verify_of_damaged_metadata(history, pystate):
    metadata = history / "savepoint-83f146-aaaa11112222" / "_metadata"
    metadata.write_bytes(metadata.read_bytes()[:-1])

    code, out, err = pystate("savepoints", "verify", metadata.parent)

    assert (code, out.startswith("metadata: _metadata: The metadata file is damaged: it has ")) == (1, True)
    assert err.endswith("can't be relied on: 1 problem.\n")


def test_verify_on_a_terminal_shows_a_bar_and_leaves_no_trace_of_it(history):
    command = TerminalCommand("savepoints", "verify", "aaaa", columns=160)
    try:
        assert command.end() == 0
        assert "The savepoint is being read" in "".join(command.raw)  # it may come and go in one piece
        assert "being read" not in command.screen.text
        assert command.is_restored
    finally:
        command.close()


def test_diff_in_a_pipe(history, pystate):
    code, out, err = pystate("savepoints", "diff", "aaaa", "bbbb")

    assert (code, err) == (0, "")
    assert out == (EXPECTED / "savepoints_diff.txt").read_text("utf-8").replace("DIR", str(history))


def test_diff_on_a_terminal(history):
    assert on_terminal("savepoints", "diff", "aaaa", "dddd", columns=80) == (EXPECTED / "savepoints_diff_80.txt").read_text(
        "utf-8"
    )


def test_diff_as_json(history, pystate):
    answer = json.loads(pystate("savepoints", "diff", "--json", "aaaa", "dddd").out)

    assert [state["change"] for state in answer["operators"][0]["states"] if state["name"] in ("count", "seen")] == [
        "same",
        "removed",
    ]


def test_the_keys_that_changed(history, pystate):
    code, out, err = pystate("savepoints", "diff", "aaaa", "bbbb", "--keys", "count/count")

    assert (code, sorted(out.splitlines())) == (0, ["+ 'key-40'", "+ 'key-41'", "- 'key-0'", "~ 'key-7'"])
    assert err == "2 added, 1 changed, 1 removed in count/count.\n"
    lines = pystate("savepoints", "diff", "aaaa", "bbbb", "--keys", "count/count", "--json").out.splitlines()
    assert {"change": "changed", "key": "key-7"} in [json.loads(line) for line in lines]
    assert pystate("savepoints", "diff", "aaaa", "aaaa", "--keys", "count/count").err == (
        "No key has changed in count/count.\n"
    )


@pytest.mark.parametrize("command", [("inspect",), ("verify",), ("dispose",), ("diff", "cccc")])
def test_ids_that_mean_none_or_several(history, pystate, command):
    write_savepoint(history, snapshot_id="aaaa33334444")

    several = pystate("savepoints", *command, "aaaa")
    assert (several.code, several.out) == (2, "")
    assert several.err == (
        'error: "aaaa" may mean any of 2 snapshots:\n'
        f"  file:{history}/savepoint-83f146-aaaa11112222\n"
        f"  file:{history}/savepoint-83f146-aaaa33334444\n"
        "  try: give more digits of the id, or the path\n"
    )
    none = pystate("savepoints", *command, "ffff")
    assert none == (
        1,
        "",
        'error: There is no file "ffff", and no snapshot whose id begins so.\n'
        f"  at: {history}\n"
        "  try: pystate savepoints list --all\n",
    )


@pytest.mark.parametrize(
    ("words", "code", "sentence"),
    [
        (("inspect", "no/such"), 1, "Cannot find checkpoint or savepoint file/directory"),
        (("inspect", "zz"), 1, "Cannot find checkpoint or savepoint file/directory"),
        (("inspect", "nosuch://x/y"), 1, "There is no filesystem"),
        (("inspect", ""), 2, "is a variable of your script not set?"),
        (("verify", ""), 2, "is a variable of your script not set?"),
        (("dispose", ""), 2, "is a variable of your script not set?"),
        (("list", " "), 2, "is a variable of your script not set?"),
        (("inspect",), 2, "Missing argument"),
        (("diff", "aaaa"), 2, "Missing argument"),
        (("diff", "aaaa", "bbbb", "--keys", "count"), 2, "must be an operator's uid and a state's name"),
        (("diff", "aaaa", "bbbb", "--keys", "count/none"), 2, "Neither snapshot has a keyed state"),
        (("gc", "--older-than", "soon"), 2, "is no duration"),
        (("nosuch",), 2, "No such command"),
    ],
)
def test_wrong_calls_are_one_sentence(history, pystate, words, code, sentence):
    outcome = pystate("savepoints", *words)

    assert (outcome.code, outcome.out) == (code, "")
    assert outcome.err.startswith("error: ")
    assert sentence in outcome.err
    assert "Traceback" not in outcome.err
