"""What `make docs` adds to the pages: the reference that comes from code, and files that pages link to.

MkDocs calls the functions named `on_...`. They run in the environment of requirements/docs.lock, where pystate isn't
installed: what needs it
is written into build/docs before (`make docs`), and the API is read from the sources without importing them.
"""

from __future__ import annotations

import os
import posixpath
import re
from pathlib import Path, PurePosixPath
from typing import Any

from mkdocs.structure.files import File, Files

ROOT = Path(__file__).parents[2]
LINK = re.compile(r"(?<=\]\()(?!\w+:)([^)#\s]+)(#[^)\s]*)?(?=\))")
LANGUAGES = {".py": "python", ".sh": "bash", ".toml": "toml", ".sql": "sql", ".json": "json", ".log": "text"}
REPOSITORY = "repository"
"""Where files from outside of docs/ are on the site."""
NOT_SEARCHED = "---\nsearch:\n  exclude: true\n---\n\n"


# -------------------- files and nav


def on_config(config: Any) -> Any:
    """Replace entries of the nav that end with a slash by all pages of that folder."""
    config.nav = [_expanded(entry) for entry in config.nav]
    return config


def _expanded(entry: Any) -> Any:
    if isinstance(entry, dict):
        ((title, value),) = entry.items()
        if isinstance(value, list):
            return {title: [_expanded(one) for one in value]}
        if value.endswith("/"):
            pages = sorted(str(path.relative_to(ROOT / "docs")) for path in (ROOT / "docs" / value).glob("*.md"))
            if value == "reference/api/":
                pages = [f"{value}index.md", *(f"{value}{module}.md" for module in public_modules())]
            elif value == "design/":
                pages = [f"{value}index.md", *pages]
            return {title: sorted(pages, key=lambda page: not page.endswith("/index.md"))}
    return entry


def on_files(files: Files, config: Any) -> Files:
    """Add the pages that nobody writes."""
    generated = {
        "reference/options.md": (ROOT / "build" / "docs" / "options.md").read_text("utf-8"),
        "design/index.md": _list_of_notes(),
        **api_pages(),
        **linked_files(),
    }
    for path, text in generated.items():
        files.append(File.generated(config, path, content=text))
    return files


def _list_of_notes() -> str:
    notes = sorted((ROOT / "docs" / "design").glob("*.md"))
    lines = [f"- [{_title(note.read_text('utf-8'))}]({note.name})" for note in notes]
    return "\n".join(
        ["# Design notes", "", "Why things are as they are: what was decided, what for, and what it costs.", "", *lines, ""]
    )


def _title(text: str) -> str:
    found = re.search(r"^# (.+)$", text, re.MULTILINE)
    return found[1] if found else ""


# -------------------- API


def public_modules() -> list[str]:
    """Return the modules whose names are public (tests/public_names.txt), those first that more people need."""
    names = (ROOT / "tests" / "public_names.txt").read_text("utf-8").split()
    modules = sorted({name.rpartition(".")[0] for name in names})
    kept = [module for module in modules if not _holds_nothing_of_its_own(module, modules, names)]
    return sorted(kept, key=lambda module: (not module.startswith("pystate.datastream"), module))


def _holds_nothing_of_its_own(module: str, modules: list[str], names: list[str]) -> bool:
    """Return whether a package above it exports all of its names too: PyFlink's second path to the same thing."""
    own = {name.rpartition(".")[2] for name in names if name.rpartition(".")[0] == module}
    parents = [other for other in modules if module.startswith(f"{other}.")]
    return any(own <= {name.rpartition(".")[2] for name in names if name.rpartition(".")[0] == other} for other in parents)


def api_pages() -> dict[str, str]:
    """Return a page for each public module, filled in by mkdocstrings, and a list of them."""
    pages = {f"reference/api/{module}.md": f"# {module}\n\n::: {module}\n" for module in public_modules()}
    names = (ROOT / "tests" / "public_names.txt").read_text("utf-8").split()
    lines = [
        "# API",
        "",
        "What programs may import, from the docstrings of the code. All else is private, and may change at any time.",
        "",
    ]
    lines += ["| module | names |", "|---|---|"]
    for module in public_modules():
        own = [name.rpartition(".")[2] for name in names if name.rpartition(".")[0] == module]
        lines.append(f"| [{module}]({module}.md) | {', '.join(f'`{name}`' for name in own)} |")
    return {"reference/api/index.md": "\n".join([*lines, ""]), **pages}


# -------------------- files that stand outside of docs/


def linked_files() -> dict[str, str]:
    """Return a page for each file or folder outside of docs/ that a page links to."""
    pages: dict[str, str] = {}
    for page in (ROOT / "docs").rglob("*.md"):
        for target, _ in LINK.findall(page.read_text("utf-8")):
            path = (page.parent / target).resolve()
            if path.exists() and not path.is_relative_to(ROOT / "docs") and path.is_relative_to(ROOT):
                pages[page_of(path)] = NOT_SEARCHED + content_of(path)
    return pages


def page_of(path: Path) -> str:
    """Return where a file from outside of docs/ is on the site."""
    inside = path.relative_to(ROOT).as_posix()
    if path.is_dir():
        return f"{REPOSITORY}/{inside}/index.md"
    return f"{REPOSITORY}/{inside}" if path.suffix == ".md" else f"{REPOSITORY}/{inside}.md"


def content_of(path: Path) -> str:
    """Return a file as a page: Markdown as it is, a folder as its list, all else as code."""
    inside = path.relative_to(ROOT).as_posix()
    if path.is_dir():
        files = [one for one in sorted(path.rglob("*")) if one.suffix in LANGUAGES or one.suffix == ".md"]
        return "\n\n".join([f"# {inside}", *(_code(one, f"## {one.relative_to(path).as_posix()}") for one in files)])
    return path.read_text("utf-8") if path.suffix == ".md" else _code(path, f"# {inside}")


def _code(path: Path, heading: str) -> str:
    return f"{heading}\n\n````{LANGUAGES.get(path.suffix, 'text')}\n{path.read_text('utf-8').rstrip()}\n````\n"


def on_page_markdown(markdown: str, page: Any, config: Any, files: Files) -> str:
    """Lead links out of docs/ to those pages; a link from such a page to what the site lacks becomes text."""
    uri = PurePosixPath(page.file.src_uri)
    outside = uri.parts[0] == REPOSITORY
    folder = ROOT.joinpath(*uri.parts[1:]).parent if outside else (ROOT / "docs" / uri).parent

    def led(found: re.Match[str]) -> str:
        label, target, anchor = found[1], found[2], found[3] or ""
        path = Path(os.path.normpath(folder / target))
        if path.is_relative_to(ROOT / "docs"):
            wanted = path.relative_to(ROOT / "docs").as_posix() + ("/index.md" if path.is_dir() else "")
        elif path.is_relative_to(ROOT) and path.exists():
            wanted = page_of(path)
        else:
            return found[0]
        if outside and files.get_file_from_path(wanted) is None:
            return label
        return f"[{label}]({posixpath.relpath(wanted, uri.parent.as_posix())}{anchor})"

    parts = re.split(r"(^(`{3,}).*?^\2`*$)", markdown, flags=re.MULTILINE | re.DOTALL)
    # re.split hands out text, block, fence, text, ...: blocks stay as they are
    return "".join(
        re.sub(r"(?<!\!)\[((?:[^\[\]]|\[[^\]]*\])+)\]\((?!\w+:)([^)#\s]+)(#[^)\s]*)?\)", led, part)
        if index % 3 == 0
        else part
        for index, part in enumerate(parts)
        if index % 3 != 2
    )
