"""The bar of a savepoint that is being written."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

from pystate_cli.formats import format_size


@contextlib.contextmanager
def progress_bar(screen: Any, text: str, *, unicode: bool) -> Iterator[Callable[[int, int, int], None]]:
    """Show a bar of acknowledged subtasks and the bytes written; it is gone at the end.

    Args:
        screen: A console of rich on a terminal.
        text: What is waited for.
        unicode: Whether the terminal shows more than ASCII.
    """
    from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

    columns = (
        SpinnerColumn("dots" if unicode else "line"),
        TextColumn("{task.description}"),
        BarColumn(bar_width=24),
        TextColumn("{task.fields[figures]}"),
        TimeElapsedColumn(),
    )
    with Progress(*columns, console=screen, transient=True, redirect_stdout=False, redirect_stderr=False) as progress:
        task = progress.add_task(text, total=None, figures="")

        def show(acknowledged: int, total: int, size: int) -> None:
            figures = f"{acknowledged}/{total} acknowledged  {format_size(size)}" if total else ""
            progress.update(task, completed=acknowledged, total=total or None, figures=figures)

        yield show
