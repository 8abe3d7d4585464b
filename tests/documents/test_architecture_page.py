"""docs/architecture.md and CONTRIBUTING.md against the code: packages, layers, files, names in them, threads, targets."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import tomli

REPOSITORY = Path(__file__).parents[2]
RUNTIME = REPOSITORY / "runtime" / "pystate"
ARCHITECTURE = (REPOSITORY / "docs" / "architecture.md").read_text("utf-8")
CONTRIBUTING = (REPOSITORY / "CONTRIBUTING.md").read_text("utf-8")
SEAM = (REPOSITORY / "docs" / "design" / "008-one-seam-for-engines.md").read_text("utf-8")
PAGES = {"architecture": ARCHITECTURE, "contributing": CONTRIBUTING, "seam": SEAM}
CONTRACTS = tomli.loads((REPOSITORY / "pyproject.toml").read_text("utf-8"))["tool"]["importlinter"]["contracts"]
DRAWING = re.compile(r"^```layers of ([\w.]+)\n(.*?)^```$", re.DOTALL | re.MULTILINE)
SPAN = re.compile(r"`([^`\n]+)`")
PATH = re.compile(r"(?P<path>[\w.*-]*(?:/[\w.*-]+)*(?:\.(?:py|md|toml|in|lock)|(?<=\w)/))(?:::(?P<name>\w+))?")
FOLDER = re.compile(r"(?!build/)\w+(?:/\w+)+")
COMMAND = re.compile(r"`make ([a-z-]+)")
OF_SPARK = {"DataSource"}


def chapter(page: str, title: str) -> str:
    return page.partition(f"\n## {title}\n")[2].partition("\n## ")[0]


def rows(text: str) -> list[list[str]]:
    """Return the rows of a chapter's tables, without heads."""
    cells = [[cell.strip() for cell in line.strip("|").split("|")] for line in text.splitlines() if line.startswith("|")]
    heads = {index - 1 for index, row in enumerate(cells) if set("".join(row)) == {"-"}}
    return [row for index, row in enumerate(cells) if index not in heads and index - 1 not in heads]


def packages(root: Path, prefix: str = "") -> set[str]:
    return {prefix + file.parent.relative_to(root).as_posix() for file in root.glob("**/*/__init__.py")}


def places(path: str) -> list[Path]:
    """Return what a path of a page may mean: below the root, or below the library's folder."""
    return [found for base in (REPOSITORY, RUNTIME) for found in base.glob(path.rstrip("/"))]


def named(page: str) -> set[tuple[str, str | None]]:
    """Return the files and folders that a page names, each with the name in it or None."""
    found: set[tuple[str, str | None]] = set()
    for span in SPAN.findall(page):
        match = PATH.fullmatch(span)
        if match is not None:
            found.add((match["path"], match["name"]))
        elif FOLDER.fullmatch(span):
            found.add((span, None))
    return found


def test_every_package_is_on_the_map_and_no_other() -> None:
    on_the_map = [row[0].strip("`") for row in rows(chapter(ARCHITECTURE, "Packages"))]
    assert len(on_the_map) == len(set(on_the_map))
    assert set(on_the_map) == packages(RUNTIME) | packages(REPOSITORY / "pystate_cli", "pystate_cli/")


def test_the_layers_drawn_are_those_of_the_contracts() -> None:
    drawn = {container: text.splitlines() for container, text in DRAWING.findall(ARCHITECTURE)}
    held = {contract["containers"][0]: contract["layers"] for contract in CONTRACTS if "containers" in contract}
    assert drawn == held


@pytest.mark.parametrize("page", PAGES)
def test_every_file_that_is_named_is_there_with_what_is_named_in_it(page: str) -> None:
    mentioned = named(PAGES[page])
    assert len(mentioned) >= 1
    for path, name in sorted(mentioned, key=str):
        found = places(path)
        assert found, f"there is no {path}"
        if name is not None:
            assert re.search(rf"^\s*(?:def|class) {name}\b", found[0].read_text("utf-8"), re.MULTILINE), (
                f"{path} has no {name}"
            )


@pytest.mark.parametrize("page", PAGES)
def test_every_class_and_module_that_is_named_is_there(page: str) -> None:
    text = "\n".join(
        file.read_text("utf-8") for root in ("runtime", "pystate_cli") for file in (REPOSITORY / root).glob("**/*.py")
    )
    classes = set(re.findall(r"^class (\w+)", text, re.MULTILINE))
    for span in SPAN.findall(PAGES[page]):
        if re.fullmatch(r"(?:[A-Z][a-z]+){2,}", span):
            assert span in classes | OF_SPARK, f"there is no class {span}"
        for module in re.findall(r"^(?:python -m )?pystate((?:\.\w+)+)$", span):
            assert (RUNTIME / module[1:].replace(".", "/")).is_dir() or places(f"{module[1:].replace('.', '/')}.py"), span


def test_the_threads_have_the_names_that_are_told() -> None:
    told = [row for row in rows(chapter(ARCHITECTURE, "Processes")) if len(row) == 4]
    assert len(told) > 5
    for name, _, file, _ in told:
        (place,) = places(file.strip("`"))
        assert re.search(rf'= ?"{name.strip("`")}"', place.read_text("utf-8")), f"{file} names no thread {name}"


def test_each_rule_of_spark_has_a_guard_and_a_test() -> None:
    rules = rows(chapter(ARCHITECTURE, "Rules of Spark, and their guards"))
    assert [row[0] for row in rules] == [str(number) for number in range(1, 18)]
    for number, _, guard, tests in rules:
        guards, tested = named(guard), named(tests)
        assert number == "13" or guards
        assert all(places(path)[0].is_relative_to(RUNTIME) for path, _ in guards)
        assert tested
        assert all(path.startswith("tests/") and name is not None and name.startswith("test_") for path, name in tested)


def test_what_is_to_be_made_has_a_target() -> None:
    phony = re.search(r"^\.PHONY: (.*)$", (REPOSITORY / "Makefile").read_text("utf-8"), re.MULTILINE)
    assert phony is not None
    commands = set(COMMAND.findall(CONTRIBUTING)) | set(COMMAND.findall(ARCHITECTURE))
    assert commands <= set(phony[1].split())
    assert commands >= {"setup", "test", "test-slow", "lint", "types", "servers", "conf", "lock"}


def test_folders_of_tests_mirror_those_of_the_sources_or_are_named_as_others() -> None:
    others = {place for place, _ in named(chapter(CONTRIBUTING, "Tests")) if place.startswith("tests/")}
    tests = sorted({file.parent for file in (REPOSITORY / "tests").glob("*/**/test_*.py")})
    for folder in (folder.relative_to(REPOSITORY).as_posix() for folder in tests):
        source = re.sub(r"^tests/cli\b", "pystate_cli", folder).removeprefix("tests/")
        named_one = others & {folder, *(parent.as_posix() for parent in Path(folder).parents)}
        assert places(source) or named_one, (
            f"{folder} mirrors no folder, and CONTRIBUTING.md names neither it nor what it is in"
        )
