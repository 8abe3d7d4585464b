"""--json of every command: it is there, what it prints is JSON alone, and its keys have one spelling."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

import pytest

from pystate_cli.console.json_keys import DATA_KEYED, camel_case, with_our_keys
from tests.cli.parser.test_help_pages import commands
from tests.core.snapshot.snapshots import COUNT, write_savepoint
from tests.ops.jobmanager.harness import Manager, ManagerThread
from tests.runtime.checkpoint.stats.statistics import Statistics

pytestmark = pytest.mark.usefixtures("forked_programs")

CAMEL_CASE = re.compile(r"[a-z][a-zA-Z0-9]*|p\d+")
COMMANDS: dict[str, list[list[str]]] = {
    "run": [["-d", "PROGRAM"]],
    "check": [["WORD_COUNT", "input"]],
    "debug": [["--record", "'word'", "WORD_COUNT", "input"]],
    "info": [["WORD_COUNT", "input"]],
    "graph": [["JOB"], ["WORD_COUNT", "input"]],
    "list": [["-a"]],
    "ui": [[]],
    "watch": [["JOB"]],
    "logs": [["JOB"], ["JOB", "--tail", "1"]],
    "exceptions": [["FAILED"]],
    "metrics": [["JOB"]],
    "wait": [["JOB", "--for", "checkpoint"], ["FAILED"]],
    "stop": [["JOB", "-p", "/tmp/s"], ["JOB", "-p", "/tmp/s", "--detached"]],
    "cancel": [["JOB"], ["JOB", "-s", "/tmp/s"]],
    "rescale": [["JOB", "-p", "3", "--savepointPath", "/tmp/s"]],
    "savepoint": [["JOB", "/tmp/s"], ["JOB", "/tmp/s", "--detached"], ["-d", "aaaa"]],
    "savepoints list": [[]],
    "savepoints tree": [[]],
    "savepoints inspect": [["aaaa"]],
    "savepoints verify": [["aaaa"]],
    "savepoints diff": [["aaaa", "bbbb"], ["aaaa", "bbbb", "--keys", "count/count"]],
    "savepoints dispose": [["aaaa"]],
    "savepoints gc": [["--dry-run"]],
    "checkpoint": [["JOB"], ["JOB", "--detached"]],
    "checkpoints": [["JOB"], ["JOB", "1"], ["JOB", "--summary"]],
    "state read": [["aaaa", "count", "count"]],
    "query": [["JOB"], ["JOB", "query-name", "1"]],
    "cluster start": [[]],
    "cluster stop": [[]],
    "cluster status": [[]],
    "config show": [[], ["state.backend"]],
    "config import": [["flink-conf.yaml"], ["flink-conf.yaml", "-o", "-"]],
    "doctor": [[]],
    "new": [["word-count"]],
    "completion": [["bash"]],
    "version": [[]],
}
CHANGING = {
    *("run", "stop", "cancel", "rescale", "savepoint", "savepoints dispose", "checkpoint", "cluster start", "cluster stop"),
}
WITHOUT = {"dev"}
"""Goes on until it is ended, and tells a person what it does; the job that it runs is asked by the others."""
EXIT_CODES = {("wait", "FAILED"): 1, ("savepoints verify", "aaaa"): 0}


def test_every_command_has_it():
    group_free = {" ".join(path): command for path, command in commands() if not hasattr(command, "commands")}

    assert sorted(group_free) == sorted({*COMMANDS, *WITHOUT})
    for name in COMMANDS:
        command = group_free[name]
        assert any("--json" in parameter.opts for parameter in command.params), name


def made_scene(manager: Manager) -> dict[str, str]:
    """A job that runs, one that has failed, two savepoints, and a program."""
    job, failed = manager.submit("--name", "count-words"), manager.submit("--fail", "0")
    manager.wait_for(job, "RUNNING")
    manager.wait_for(failed, "FAILED")
    Statistics().run(1).run(2, savepoint=True).write(manager.home.job(job).checkpoints)
    savepoints = manager.home.root / "savepoints"
    write_savepoint(savepoints, snapshot_id="aaaa11112222", checkpoint_id=1)
    write_savepoint(savepoints, snapshot_id="bbbb11112222", checkpoint_id=2, content={COUNT: {"one": 1}})
    (savepoints / "savepoint-83f146-cccc11112222").mkdir()
    program = manager.home.root / "plan.py"
    program.write_text(
        "from pystate.datastream import StreamExecutionEnvironment\n"
        "env = StreamExecutionEnvironment.get_execution_environment()\n"
        "env.from_collection([1]).key_by(lambda x: x).map(lambda x: x).print()\nenv.execute()\n"
    )
    return {"JOB": job, "FAILED": failed, "PROGRAM": str(manager.job_file), "WORD_COUNT": str(program)}


@pytest.fixture(scope="module")
def kept_scene(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Manager, dict[str, str]]]:
    """A scene for all commands that leave it as it is."""
    manager = ManagerThread(tmp_path_factory.mktemp("kept") / "home").start()
    yield manager, made_scene(manager)
    manager.stop()


@pytest.fixture
def scene(request, name, monkeypatch, tmp_path) -> dict[str, str]:
    """The scene of a command: a fresh one where it changes something; with a project, and settings of a Flink."""
    (tmp_path / "flink-conf.yaml").write_text("state.backend: rocksdb\ntaskmanager.numberOfTaskSlots: 4\nour.own-key: 1\n")
    if name in CHANGING:
        return made_scene(request.getfixturevalue("manager"))
    manager, words = request.getfixturevalue("kept_scene")
    monkeypatch.setenv("PYSTATE_HOME", str(manager.home.root))
    return words


def keys_of(data: Any) -> Iterator[str]:
    if isinstance(data, dict):
        for key, value in data.items():
            yield key
            if key not in DATA_KEYED:
                yield from keys_of(value)
    elif isinstance(data, list):
        for each in data:
            yield from keys_of(each)


def documents(text: str) -> Iterator[Any]:
    decoder = json.JSONDecoder()
    while text.strip():
        document, end = decoder.raw_decode(text.lstrip())
        text = text.lstrip()[end:]
        yield document


@pytest.mark.parametrize(
    ("name", "words"), [(name, words) for name, calls in COMMANDS.items() for words in calls], ids=lambda value: str(value)
)
def test_stdout_is_json_with_one_spelling_of_keys(scene, pystate, name, words, monkeypatch, tmp_path):
    if name == "cluster stop":  # the job manager of the scene is this very process
        monkeypatch.setenv("PYSTATE_HOME", str(tmp_path / "another"))
    given = [scene.get(word, word) for word in words]
    path = [] if name == "config show" else name.split()[1:]

    code, out, err = pystate(name.split()[0], *path, "--json", *given)

    assert code == (1 if name == "doctor" and code else EXIT_CODES.get((name, words[0] if words else ""), 0)), err
    found = list(documents(out))
    assert found, "nothing was printed"
    wrong = [key for document in found for key in keys_of(document) if not CAMEL_CASE.fullmatch(key) and not is_data(key)]
    assert wrong == []


def is_data(key: str) -> bool:
    """Whether a key is the id of a vertex, or a state of jobs: what is counted, not what we call it."""
    return re.fullmatch(r"[0-9a-f]{32}|[A-Z]+", key) is not None


def test_an_attached_run_has_none(manager, pystate):
    code, out, err = pystate("run", "--json", manager.job_file)
    assert (code, out) == (2, "")
    assert err.startswith("error: --json needs -d: attached, stdout is what the job prints.")


@pytest.mark.parametrize(
    ("theirs", "ours"),
    [
        ("jid", "jobId"), ("job_id", "jobId"), ("start-time", "startTime"), ("end_to_end_duration", "endToEndDuration"),
        ("exceptionHistory", "exceptionHistory"), ("p99", "p99"), ("RUNNING", "RUNNING"), ("state.backend", "state.backend"),
        ("a" * 32, "a" * 32), ("checkpointed-size", "checkpointedSize"),
    ],
)  # fmt: skip
def test_the_spelling_of_keys(theirs, ours):
    assert camel_case(theirs) == ours


def test_what_is_keyed_by_names_of_others_stays_as_it_is():
    settings = {"configuration": {"my-own_key": {"a-b": 1}}, "a-b": [{"c-d": ({"e_f": 1},)}]}

    assert with_our_keys(settings) == {"configuration": {"my-own_key": {"a-b": 1}}, "aB": [{"cD": [{"eF": 1}]}]}
