"""The notebook, or the IPython shell, in which a program runs; without importing IPython where there is none."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable
from typing import Any, NamedTuple


class CellRun(NamedTuple):
    """One execution of one cell.

    Attributes:
        cell: The cell's id.
        execution: The number of the execution; a later one of the cell has a higher number.
    """

    cell: str
    execution: int


def running_shell() -> Any:
    """Return the IPython shell of this process; None if there is none."""
    ipython = sys.modules.get("IPython")
    find = getattr(ipython, "get_ipython", None)
    return None if find is None else find()


def current_cell() -> CellRun | None:
    """Return the cell that is executed; None outside of notebooks, and where the notebook doesn't say which cell it is."""
    shell = running_shell()
    if not hasattr(shell, "get_parent"):
        return None
    cell = (shell.get_parent().get("metadata") or {}).get("cellId")
    return None if cell is None else CellRun(str(cell), int(shell.execution_count))


def after_this_cell(told: Callable[[bool], object]) -> None:
    """Call a function once, at the end of the cell that is executed, with whether it was interrupted.

    It isn't called outside of notebooks.
    """
    shell = running_shell()
    if shell is None:
        return

    def ended(result: Any) -> None:
        shell.events.unregister("post_run_cell", ended)
        told(isinstance(result.error_in_exec, KeyboardInterrupt))

    shell.events.register("post_run_cell", ended)


def live_display(html: str, text: str) -> Callable[[str, str], None] | None:
    """Show something in the output of the cell that is executed, and return what replaces it.

    It returns None in a terminal, which shows the text and can't replace it.
    """
    shell = running_shell()
    if shell is None or not hasattr(shell, "kernel"):
        print(text)
        return None
    handle = importlib.import_module("IPython.display").display(_bundle(html, text), raw=True, display_id=True)
    return lambda html, text: handle.update(_bundle(html, text), raw=True)


def _bundle(html: str, text: str) -> dict[str, str]:
    return {"text/html": html, "text/plain": text}
