"""`make sizes`: a report of the largest files, classes and functions, of folders with many files, and the measures of
docs/design/016-five-wings.md. It judges nothing."""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Container
from pathlib import Path
from statistics import median

REPOSITORY = Path(__file__).parents[1]
SOURCES = ("runtime", "pystate_cli")
LIBRARY = REPOSITORY / "runtime" / "pystate"
ROWS = 10
MANY_MODULES, FEW_LINES = 25, 100


def report() -> str:
    """Return the report: lines of the largest files, classes and functions; files of the fullest folders."""
    files = {file: file.read_text("utf-8") for folder in SOURCES for file in (REPOSITORY / folder).rglob("*.py")}
    lines = Counter({str(file.relative_to(REPOSITORY)): text.count("\n") for file, text in files.items()})
    folders = Counter(str(file.parent.relative_to(REPOSITORY)) for file in files if file.name != "__init__.py")
    classes, functions = Counter[str](), Counter[str]()
    for file, text in files.items():
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, (ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)) and node.end_lineno is not None:
                of = classes if isinstance(node, ast.ClassDef) else functions
                of[f"{file.relative_to(REPOSITORY)}::{node.name}"] = node.end_lineno - node.lineno + 1
    parts = [f"{sum(lines.values()):,} lines in {len(files)} files; median of functions: {median(functions.values()):g}."]
    for title, found in (("files", lines), ("classes", classes), ("functions", functions), ("folders (files)", folders)):
        parts += ["", f"Largest {title}", *(f"{count:6}  {name}" for name, count in found.most_common(ROWS))]
    return "\n".join(parts)


def measures() -> str:
    """Return the last column of the table of measures in the note on the five wings."""
    modules = {_module(file): file for folder in SOURCES for file in (REPOSITORY / folder).rglob("*.py")}
    library = {name: file for name, file in modules.items() if file.is_relative_to(LIBRARY)}
    plain = {name: file for name, file in library.items() if file.name != "__init__.py"}
    lines = {name: file.read_text("utf-8").count("\n") for name, file in library.items()}
    folders = Counter(file.parent for file in plain.values())
    names = Counter(file.name for file in plain.values())
    importers: dict[str, set[str]] = {name: set() for name in library}
    for importer, file in modules.items():
        for imported in _imported(file, importers) - {importer}:
            importers[imported].add(importer)
    one = {name: next(iter(importers[name])) for name in plain if len(importers[name]) == 1}
    beside = [name for name in one if lines[name] < FEW_LINES and modules[one[name]].parent == modules[name].parent]
    found = {
        "lines of `runtime/pystate`": sum(lines.values()),
        "modules": len(plain),
        "packages": len(library) - len(plain),
        f"folders with more than {MANY_MODULES} modules": sum(count > MANY_MODULES for count in folders.values()),
        "largest folder": max(folders.values()),
        "modules of keyed state": sum(file.is_relative_to(LIBRARY / "core" / "state") for file in plain.values()),
        "modules with exactly one importer": len(one),
        f"of these below {FEW_LINES} lines and in the same folder": len(beside),
        "modules that share a file name": sum(count for count in names.values() if count > 1),
    }
    return "\n".join(
        ["Measures of docs/design/016-five-wings.md", *(f"{count:7,}  {what}" for what, count in found.items())]
    )


def _module(file: Path) -> str:
    root = LIBRARY.parent if file.is_relative_to(LIBRARY) else REPOSITORY
    return ".".join(file.relative_to(root).with_suffix("").parts).removesuffix(".__init__")


def _imported(file: Path, known: Container[str]) -> set[str]:
    found = set()
    for node in ast.walk(ast.parse(file.read_text("utf-8"))):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module is not None:
            whole = {alias.name: f"{node.module}.{alias.name}" for alias in node.names}
            found |= {name if name in known else node.module for name in whole.values()}
    return {name for name in found if name in known}


if __name__ == "__main__":
    print(report())
    print()
    print(measures())
