"""`pystate new`: the project it makes works."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys

import pytest

from pystate.common.configuration.loaded_configuration import load_configuration
from pystate.common.files.home import PystateHome
from pystate_cli.programs.project_files import module_name
from pystate_cli.programs.templates.catalog import templates
from tests.forks import run_module
from tests.ops.jobmanager.harness import PYTHON_PATH

pytestmark = pytest.mark.usefixtures("forked_programs")


def run(folder, *command, **variables):
    environment = {**os.environ, "PYTHONPATH": PYTHON_PATH, **variables}
    return subprocess.run([sys.executable, *command], cwd=folder, env=environment, capture_output=True, text=True)


def test_the_test_of_a_new_project_passes(pystate, tmp_path):
    code, out, err = pystate("new", "word-count")

    project = tmp_path / "word-count"
    assert (code, out) == (0, f"{project}\n")
    assert "  word-count/word_count.py\n" in err
    assert "\ncd word-count\npip install 'pystate-spark[test]'\npython -m pytest\n" in err, (
        "what the next command needs comes first"
    )
    done = run(project, "-m", "pytest", "-q", "-p", "no:cacheprovider")
    assert done.returncode == 0, done.stdout
    assert "2 passed" in done.stdout


@pytest.mark.parametrize("template", sorted(templates().keys() - {"count"}))
def test_the_test_of_each_template_passes_and_its_settings_are_read(pystate, tmp_path, monkeypatch, template):
    if template == "lakehouse":
        pytest.importorskip("deltalake")  # its test writes a table
    code, _, err = pystate("new", "my-job", "--template", template)

    project = tmp_path / "my-job"
    assert code == 0, err
    with (tmp_path / "out").open("wb") as out:
        command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider"]
        # plugins that happen to be installed here take longer to import than the test runs
        variables = {**os.environ, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
        ended = run_module(command, env=variables, cwd=project, stdout=out, stderr=out)
    told = (tmp_path / "out").read_text()
    assert ended.returncode == 0, told
    assert "2 passed" in told
    monkeypatch.chdir(project)
    assert load_configuration(home=PystateHome()).notices == []
    assert pystate("check", "my_job.py")[0] == 0, "as its page says"
    readme = (project / "README.md").read_text()
    commands = [line for line in readme.splitlines() if line.startswith("    ") and " # " in line]
    assert len({line.index("  # ") for line in commands}) == 1, "remarks stand below each other"
    assert f"    {err.splitlines()[-1]} " in "\n".join(commands), "the first command is one of the page"
    for text in (err, readme):
        installs = [line.partition("  # ")[0].strip() for line in text[: text.index("python -m pytest")].splitlines()[1:]]
        found = [line for line in installs if line.startswith("pip install") and "[test]" not in line]
        clients = {"kafka": ["pip install 'pystate-spark[kafka]'"], "lakehouse": ["pip install 'pystate-spark[delta]'"]}
        assert found == clients.get(template, []), "what the test and the first run need is said before them"
    assert {"pystate check my_job.py", "pystate dev my_job.py"} <= {line.partition("  # ")[0].strip() for line in commands}
    for path in (path for path in project.rglob("*") if path.suffix in (".py", ".md", ".toml")):
        assert not re.search(r"\{(module|name|spark|about|commands|clients)\}", path.read_text("utf-8"))


def test_a_template_that_is_not_there(pystate):
    code, _, err = pystate("new", "my-job", "--template", "streams")
    assert code == 2
    assert "There is no template 'streams'." in err
    assert "one of count, files, kafka, lakehouse, windows;" in err


@pytest.mark.slow
@pytest.mark.parametrize(
    ("template", "arguments"),
    [
        ("windows", ("input", "--once")),
        ("files", ("input", "output", "--once")),
        ("lakehouse", ("input", "tables", "--once")),
    ],
)
def test_the_job_of_a_template_runs(pystate, tmp_path, own_home, template, arguments):
    pystate("new", "my-job", "--template", template)

    project = tmp_path / "my-job"
    done = run(project, "my_job.py", *arguments, PYSTATE_HOME=str(own_home))

    assert done.returncode == 0, done.stderr
    if template == "windows":
        assert "(12:00,kitchen,21.0)" in done.stdout
    elif template == "lakehouse":
        shown = run(project, "show.py")
        assert "    alice 2 1000\n" in shown.stdout, shown.stderr
        assert len(shown.stdout.splitlines()) == 2 + 5 + 3
    else:
        lines = [line for file in project.glob("output/lines/**/balances*.json") for line in file.read_text().splitlines()]
        assert '{"account": "alice", "bookings": 2, "cents": 1000}' in lines
        assert len(lines) == 5


def test_the_settings_and_the_plan_of_a_new_project(pystate, tmp_path, monkeypatch):
    pystate("new", "word-count")
    monkeypatch.chdir(tmp_path / "word-count")

    loaded = load_configuration(home=PystateHome())
    code, out, err = pystate("info", "word_count.py")

    assert str(loaded.source) == "conf/flink-conf.toml"
    assert loaded.notices == []
    assert code == 0, err
    assert [node["uid"] for node in json.loads(out)["nodes"] if not node["uid"].startswith("auto-")] == [
        "text-files",
        "count-words",
    ]


@pytest.mark.parametrize("template", sorted(templates()))
def test_the_source_and_all_that_keeps_state_in_a_template_has_a_uid(pystate, tmp_path, monkeypatch, template):
    pystate("new", "my-job", "--template", template)
    monkeypatch.chdir(tmp_path / "my-job")

    code, out, err = pystate("info", "-D", "pipeline.auto-generate-uids=false", "my_job.py")

    assert code == 0, err
    sources = [node["uid"] for node in json.loads(out)["nodes"] if node["pact"] == "Data Source"]
    assert sources
    assert not [uid for uid in sources if uid.startswith("auto-")], "Spark may read it, and then no option asks for its uid"


@pytest.mark.slow
def test_the_job_of_a_new_project_runs(pystate, tmp_path, own_home):
    pystate("new", "word-count")

    done = run(tmp_path / "word-count", "word_count.py", "input", "--once", PYSTATE_HOME=str(own_home))

    assert done.returncode == 0, done.stderr
    assert "(to,2)" in done.stdout
    assert "(question,1)" in done.stdout


@pytest.mark.parametrize("name", ["class", "json", "two words", "-x", "pystate", "a/..", "ö"])
def test_names_that_can_not_be(pystate, name):
    assert pystate("new", "--", name).code == 2


def test_a_folder_that_is_there(pystate, tmp_path):
    (tmp_path / "mine").mkdir()
    assert pystate("new", "mine").code == 0, "an empty one is taken"
    code, _, err = pystate("new", "mine")
    assert (code, err) == (2, f"error: {tmp_path}/mine is there already.\n  try: choose another name\n")
    (tmp_path / "file").touch()
    assert pystate("new", "file").code == 2


@pytest.mark.parametrize(("name", "module"), [("word-count", "word_count"), ("2nd.job", "job_2nd_job"), ("Ab", "ab")])
def test_the_programs_name(name, module):
    assert module_name(name) == module
