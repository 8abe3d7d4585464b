"""docs/cli.md: every command and option of the application is on the page, and the outputs on it are real ones.

The commands on the page are run one after the other against a job manager with fake drivers. With PYSTATE_UPDATE_DOCS=1 the
page is rewritten.
"""

from __future__ import annotations

import difflib
import os
import re
import shlex
from collections.abc import Iterator
from typing import Any

import pytest
import typer.main

from pystate_cli.command_line import application
from tests.ops.jobmanager.harness import REPOSITORY
from tests.runtime.checkpoint.stats.statistics import Statistics

PAGE = REPOSITORY / "docs" / "cli.md"
OPTIONS = re.compile(r"<!-- options: ([a-z -]+) -->\n(.*?)<!-- end -->", re.DOTALL)
EXAMPLE = re.compile(r"```console\n(.*?)```", re.DOTALL)
UPDATE = "PYSTATE_UPDATE_DOCS" in os.environ
HIDDEN_EVERYWHERE = ("--help",)


def commands() -> Iterator[tuple[str, Any]]:
    """Yield the words of each command of the application, and the command."""
    group: Any = typer.main.get_command(application())
    for name, command in group.commands.items():
        if not hasattr(command, "commands"):
            yield name, command
            continue
        for inner, subcommand in command.commands.items():
            yield (name if inner == "show" and name == "config" else f"{name} {inner}"), subcommand


def option_lines(command: Any) -> str:
    """Return a line per argument and option."""
    lines = []
    for parameter in command.params:
        if parameter.param_type_name == "argument":
            shown = parameter.metavar or parameter.name.upper()
        elif set(parameter.opts) & set(HIDDEN_EVERYWHERE):
            continue
        else:
            value = f" {parameter.metavar}" if parameter.metavar else ""
            shown = ", ".join(f"{name}{value if name == parameter.opts[-1] else ''}" for name in parameter.opts)
        lines.append(f"- `{shown}`: {' '.join((parameter.help or '').split())}")
    return "".join(f"{line}\n" for line in lines)


def test_every_command_and_option_is_on_the_page():
    text = PAGE.read_text("utf-8")
    known = dict(commands())
    if UPDATE:
        text = OPTIONS.sub(lambda found: f"<!-- options: {found[1]} -->\n{option_lines(known[found[1]])}<!-- end -->", text)
        PAGE.write_text(text, "utf-8")

    told = {found[1]: found[2] for found in OPTIONS.finditer(text)}

    assert sorted(told) == sorted(known)
    for name, command in known.items():
        assert told[name] == option_lines(command), f"the options of {name} have changed: PYSTATE_UPDATE_DOCS=1"
        assert f"\n## pystate {name.split()[0]}\n" in text


@pytest.fixture
def scene(manager, tmp_path, monkeypatch):
    """A project in an empty folder, with a job manager whose drivers are fakes."""
    monkeypatch.setenv("FAKE_DRIVER_ARGUMENTS", "--name word-count --restart 3 50 --application local-1795000000001")
    (tmp_path / "flink-conf.yaml").write_text(
        "state.backend: rocksdb\nexecution.checkpointing.interval: 30s\ntaskmanager.numberOfTaskSlots: 4\nour.own.key: 1\n"
    )
    return manager


def plain(text: str, tmp_path: Any) -> str:
    """Replace what differs from run to run: ids, moments, lengths of time, folders, ports."""
    text = text.replace(str(tmp_path), "/projects")
    text = re.sub(r"\b[0-9a-f]{32}\b", "<id>", text)
    text = re.sub(r"savepoint-[0-9a-f]{6}-[0-9a-f]{12}", "savepoint-<id>", text)
    text = re.sub(r"\d{4}-\d\d-\d\dT[\d:.]+(?:[+-]\d\d:\d\d|Z)", "<time>", text)
    text = re.sub(r"\d\d\.\d\d\.\d{4} \d\d:\d\d:\d\d|\d{4}-\d\d-\d\d \d\d:\d\d:\d\d(?: \w+)?", "<time>", text)
    text = re.sub(r"(?m)^(pystate [\d.]+) \([0-9a-f]{12}\)$", r"\1 (<commit>)", text)
    text = re.sub(r"\b\d+(?:\.\d+)? m?s\b", "<length>", text)
    return re.sub(r"127\.0\.0\.1:\d+", "<address>", text)


def test_the_outputs_on_the_page_are_real(scene, pystate, tmp_path):
    text = PAGE.read_text("utf-8")
    written = []
    for example in EXAMPLE.finditer(text):
        shown = example[1]
        lines = []
        for line in re.findall(r"^\$ (.*)$", shown, re.MULTILINE):
            lines.append(f"$ {line}\n")
            if line.startswith("cd "):
                os.chdir(line[3:])
                continue
            assert line.startswith("pystate "), line
            outcome = pystate(*shlex.split(line.partition("  #")[0])[1:])
            lines.append(outcome.err + outcome.out)
            if outcome.code:
                lines.append(f"(exit code {outcome.code})\n")
            prepare(scene, line)
        real = "".join(lines)
        written.append(real.replace(str(tmp_path), "/projects"))
        if not UPDATE:
            expected, found = (plain(one, tmp_path).splitlines() for one in (shown, real))
            assert found == expected, "\n".join(difflib.unified_diff(expected, found, "page", "real", lineterm=""))
    assert len(written) > 15
    if UPDATE:
        blocks = iter(written)
        PAGE.write_text(EXAMPLE.sub(lambda _: f"```console\n{next(blocks)}```", text), "utf-8")


def prepare(manager: Any, line: str) -> None:
    """Let the job get on after a command of the page."""
    if line.startswith("pystate run -d"):
        job = manager.request("GET", "/jobs")[1]["jobs"][-1]["id"]
        manager.wait_for(job, "RUNNING")
        statistics = Statistics(folder="/data/checkpoints/word-count")
        statistics.run(1, 2, at=statistics.now - 20_000).run(3, savepoint=True).trigger(4).acknowledge(4, "count", 0)
        statistics.write(manager.home.job(job).checkpoints)
