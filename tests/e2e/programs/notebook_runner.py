"""Runs the cells of a notebook in this process, without IPython: `python -m tests.e2e.programs.notebook_runner NOTEBOOK...`.

What a cell ends with is shown as IPython would show it: a stub takes `_ipython_display_`, `_repr_html_` and `repr`. One line
of JSON per cell goes to stdout, with the kinds of what was shown. All cells run in one namespace, that of `__main__`.
"""

from __future__ import annotations

import ast
import json
import linecache
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any


class Events:
    def __init__(self) -> None:
        self.functions: list[Any] = []

    def register(self, _event: str, function: Any) -> None:
        self.functions.append(function)

    def unregister(self, _event: str, function: Any) -> None:
        self.functions.remove(function)


class Shell:
    """A notebook's shell, and its display module."""

    def __init__(self) -> None:
        self.events, self.execution_count, self.kernel, self.cell = Events(), 0, object(), ""
        self.shown: list[dict[str, str]] = []

    def get_parent(self) -> dict[str, Any]:
        return {"metadata": {"cellId": self.cell}}

    def display(self, bundle: dict[str, str], *, raw: bool, display_id: bool) -> Any:
        at = len(self.shown)
        self.shown.append(bundle)
        return SimpleNamespace(update=lambda newer, raw: self.shown.__setitem__(at, newer))

    def show(self, value: Any) -> None:
        if hasattr(value, "_ipython_display_"):
            value._ipython_display_()
        elif value is not None:
            html = getattr(value, "_repr_html_", lambda: None)()
            self.shown.append({"text/plain": repr(value), **({} if html is None else {"text/html": html})})

    def run(self, cell: str, source: str, namespace: dict[str, Any]) -> None:
        self.cell, file = cell, f"<cell {cell}>"
        self.execution_count += 1
        linecache.cache[file] = (len(source), None, source.splitlines(keepends=True), file)
        tree = ast.parse(source, file)
        last = tree.body.pop() if tree.body and isinstance(tree.body[-1], ast.Expr) else None
        exec(compile(tree, file, "exec"), namespace)  # noqa: S102 - cells of our own
        if isinstance(last, ast.Expr):
            self.show(eval(compile(ast.Expression(last.value), file, "eval"), namespace))  # noqa: S307
        for function in list(self.events.functions):
            function(SimpleNamespace(error_in_exec=None))


def main(notebook: str) -> None:
    shell = Shell()
    sys.modules["IPython"] = SimpleNamespace(get_ipython=lambda: shell)  # type: ignore[assignment]
    sys.modules["IPython.display"] = shell  # type: ignore[assignment]
    namespace = sys.modules["__main__"].__dict__
    for cell in json.loads(Path(notebook).read_text("utf-8"))["cells"]:
        if cell["cell_type"] == "code":
            before = len(shell.shown)
            shell.run(cell["id"], "".join(cell["source"]), namespace)
            print(json.dumps({"cell": cell["id"], "shown": shell.shown[before:]}), flush=True)
    print(json.dumps({"cell": "end", "shown": shell.shown}), flush=True)


if __name__ == "__main__":
    main(sys.argv[1])
