"""What the documents tell people to type exists: every command, every option."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import typer.main

from pystate_cli.command_line import application

ROOT = Path(__file__).parents[2]
ROOT_PAGES = [ROOT / name for name in ("README.md", "README.zh.md", "CONTRIBUTING.md")]
PAGES = sorted([*ROOT_PAGES, *ROOT.glob("docs/*.md"), *ROOT.glob("docs/design/*.md")])
COMMAND = re.compile(r"^\$ pystate (.+)$|`pystate ([^`\n]+)`", re.MULTILINE)
LINK = re.compile(r"\]\(([^)#\s]+)?(?:#([^)\s]+))?\)")
WORD = re.compile(r"[a-z-]+")


def typed(page: Path) -> Iterator[str]:
    for line in COMMAND.finditer(page.read_text("utf-8")):
        yield line[1] or line[2]


@cache
def whole_command_line() -> Any:
    return typer.main.get_command(application())


def parse(text: str) -> tuple[Any, list[str], list[str]]:
    """Return the command, its words, and the options that it is given."""
    words = shlex.split(text.split(" | ")[0].split(" > ")[0].replace("...", ""), comments=True)
    words = [word.strip("[]") for word in words]
    command = whole_command_line()
    path = []
    while hasattr(command, "commands") and words and words[0] in command.commands:
        path.append(words.pop(0))
        command = command.commands[path[-1]]
    if path == ["config"]:
        command = command.commands["show"]  # what `config KEY` means
    # what stands after a program is the program's
    program = next((index for index, word in enumerate(words) if word.endswith(".py")), len(words))
    options = [
        word.split("=")[0] for word in words[: program if path == ["run"] else None] if re.match(r"--?[a-zA-Z]", word)
    ]
    return command, path, options


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_what_is_to_be_typed_exists(page):
    for text in typed(page):
        if "|" in text.split(" ")[0] or text.startswith("-"):  # a list of verbs, or the program's own options
            continue
        command, path, options = parse(text)
        first = text.split()[0].strip(".…")
        assert path or not WORD.fullmatch(first), f"{page.name}: there is no `pystate {first}`"
        known = {name for parameter in command.params for name in (*parameter.opts, *parameter.secondary_opts)} | {
            "-h",
            "--help",
        }
        for option in options:
            assert option in known, f"{page.name}: `pystate {' '.join(path)}` has no {option}"


GUARANTEES = re.compile(r"## Guarantees\n(.*?)\n## ", re.DOTALL)
WAYS_OUT = ("print", "for_each_batch", "add_sink", "sink_to")
"""The methods of a stream that let its elements leave the job."""


def test_the_guarantees_name_every_way_out_of_a_job():
    from pystate.datastream import DataStream, DataStreamSink

    methods = {name: method for name, method in vars(DataStream).items() if not name.startswith("_")}
    ways = [name for name, method in methods.items() if returned(method) == DataStreamSink.__name__]
    assert sorted(ways) == sorted(WAYS_OUT)
    chapter = GUARANTEES.search((ROOT / "README.md").read_text("utf-8"))
    assert chapter is not None
    features = GUARANTEES.search((ROOT / "docs" / "features.md").read_text("utf-8"))
    assert features is not None
    chinese = (ROOT / "README.zh.md").read_text("utf-8").partition("## 保证")[2].partition("\n## ")[0]
    for way in WAYS_OUT:
        assert f"`{way}`" in chapter[1]
        assert f"`{way}`" in features[1]
        assert f"`{way}`" in chinese


def returned(method: Any) -> str:
    return str(getattr(method, "__annotations__", {}).get("return"))


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_lead_somewhere(page):
    for target, anchor in LINK.findall(page.read_text("utf-8")):
        if target.startswith(("http:", "https:", "mailto:")):
            continue
        other = (page.parent / target) if target else page
        assert other.exists(), f"{page.name}: {target} isn't there"
        if anchor and other.suffix == ".md":
            headings = re.findall(r"^#+ (.+)$", other.read_text("utf-8"), re.MULTILINE)
            anchors = {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}
            assert anchor in anchors, f"{page.name}: {other.name} has no section #{anchor}"
