"""`make sizes`: a report of the largest files, classes and functions, and of folders with many files. It judges nothing."""

from __future__ import annotations

import ast
from collections import Counter
from pathlib import Path
from statistics import median

REPOSITORY = Path(__file__).parents[1]
SOURCES = ("runtime", "pystate_cli")
ROWS = 10


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


if __name__ == "__main__":
    print(report())
