"""Flink's spellings: each option of the flink client is an option here, or is answered with what to do instead."""

from __future__ import annotations

import json
from functools import cache
from typing import Any

import pytest
import typer.main

from pystate_cli.command_line import application
from pystate_cli.command_table import COMMANDS
from pystate_cli.parser.flink_flags import FLAGS_WITHOUT_MEANING
from pystate_cli.parser.other_commands import OTHER_COMMANDS

CLUSTER = ("-m", "--jobmanager", "-yid", "--yarnapplicationId", "-z", "--zookeeperNamespace")
"""Options of the flink client's modes "default" and "yarn-cluster"."""

FLINK: dict[str, list[str]] = {
    "run": [
        "-c", "--class", "-C", "--classpath", "-cm", "--claimMode", "-d", "--detached", "-n", "--allowNonRestoredState",
        "-p", "--parallelism", "-py", "--python", "-pyarch", "--pyArchives", "-pyclientexec", "--pyClientExecutable",
        "-pyexec", "--pyExecutable", "-pyfs", "--pyFiles", "-pym", "--pyModule", "-pypath", "--pyPythonPath", "-pyreq",
        "--pyRequirements", "-rm", "--restoreMode", "-s", "--fromSavepoint", "-sae", "--shutdownOnAttachedExit", *CLUSTER,
    ],
    "info": ["-c", "--class", "-p", "--parallelism"],
    "list": ["-a", "--all", "-r", "--running", "-s", "--scheduled", *CLUSTER],
    "stop": ["-d", "--drain", "-detached", "-p", "--savepointPath", "-type", "--type", *CLUSTER],
    "cancel": ["-s", "--withSavepoint", *CLUSTER],
    "savepoint": ["-d", "--dispose", "-detached", "-j", "--jarfile", "-type", "--type", *CLUSTER],
    "checkpoint": ["-full", "--full", *CLUSTER],
}  # fmt: skip
GENERIC = ("-D", "-e", "--executor", "-t", "--target")
"""Options of the flink client's "Generic CLI mode", which each of its actions has."""

WITHOUT_SETTINGS = [("list",), ("stop", "beef"), ("cancel", "beef"), ("savepoint", "beef"), ("checkpoint", "beef")]
PYTHON = ("-py", "--python")  # moved to where the program stands before the options are read


@cache
def options_of(command: str) -> list[str]:
    group: Any = typer.main.get_command(application())
    return [name for parameter in group.commands[command].params for name in (*parameter.opts, *parameter.secondary_opts)]


@pytest.mark.parametrize(
    ("command", "name"), [(command, name) for command, names in FLINK.items() for name in (*names, *GENERIC)]
)
def test_an_option_of_flink_is_known(command, name):
    assert name in options_of(command) or name in FLAGS_WITHOUT_MEANING or name in PYTHON


@pytest.mark.parametrize(
    ("words", "flag"),
    [
        (("run", "-c", "Main", "job.py"), "-c"),
        (("run", "-pypath", "/a", "job.py"), "-pypath"),
        (("run", "-pyreq=requirements.txt", "job.py"), "-pyreq"),
        (("savepoint", "beef", "-j", "x.jar"), "-j"),
        (("list", "-z", "space"), "-z"),
        (("list", "-Dx=y"), "-D"),
        (("list", "-yid", "application_1"), "-yid"),
        *(((*words, flag, "x=y"), flag) for words in WITHOUT_SETTINGS for flag in GENERIC),
        (("run", "-yjm", "1024m", "job.py"), "-yjm"),
    ],
)
def test_an_option_without_meaning_is_answered_with_what_to_do(pystate, words, flag):
    assert pystate(*words) == (
        2,
        "",
        f"error: {flag} is an option of the flink client that has no meaning here.\n  try: {FLAGS_WITHOUT_MEANING[flag]}\n",
    )


def test_an_action_without_meaning_is_answered_with_what_to_do(pystate):
    assert pystate("run-application", "-t", "yarn-application", "job.jar") == (
        2,
        "",
        "error: run-application is no command of pystate.\n"
        "  try: pystate run -d runs each job in a driver process of its own, which is what application mode is for\n",
    )


@pytest.mark.parametrize(("word", "command"), [("help", "--help"), ("ps", "list"), ("kill", "cancel"), ("resume", "run -s")])
def test_a_word_of_another_tool_is_answered_with_the_command_that_does_it(pystate, word, command):
    code, out, err = pystate(word, "x")

    assert (code, out) == (2, "")
    assert err.startswith(f"error: {word} is no command of pystate.\n  try: pystate {command}")


def test_words_of_other_tools_are_no_commands_and_lead_to_commands():
    assert not set(OTHER_COMMANDS) & set(COMMANDS)
    for hint in OTHER_COMMANDS.values():
        assert any(f"pystate {name}" in hint for name in (*COMMANDS, "--help"))


def test_a_program_may_have_such_options_of_its_own(manager, pystate):
    assert pystate("run", "-d", manager.job_file, "-c", "Main", "-z", "x", "--finish", "0").code == 0


def test_the_target_is_an_option_as_in_flink(manager, pystate):
    assert pystate("run", "-d", "-t", "local", manager.job_file, "--finish", "0").code == 0
    code, _, err = pystate("run", "-d", "--target", "spark", manager.job_file)
    assert code == 1
    assert err.startswith("error: execution.target = spark needs a cluster, but pystate.spark.master is not set.")
    code, _, err = pystate("run", "-d", "--target", "yarn-session", manager.job_file)
    assert code == 2
    assert err.startswith("error: The value 'yarn-session' of 'execution.target' is not allowed.")


def test_the_options_of_python_are_flinks(manager, pystate, tmp_path):
    (tmp_path / "lib").mkdir()
    words = ("-pyfs", tmp_path / "lib", "-pyexec", "python3", "-pyarch", "data.zip#data")
    done = pystate("run", "-d", *words, manager.job_file, "--finish", "0")
    assert done.code == 0
    submission = json.loads(manager.home.job(done.out.strip()).submission.read_text())
    given = {key: value for key, value in submission["configuration"].items() if key.startswith("python.")}
    assert given == {
        "python.files": str(tmp_path / "lib"), "python.executable": "python3", "python.archives": "data.zip#data"
    }  # fmt: skip
