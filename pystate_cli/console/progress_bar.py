"""Progress bars: a savepoint that is written, a savepoint that is read."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from pystate.common.text.figures import format_size

if TYPE_CHECKING:
    from rich.progress import Progress


@contextlib.contextmanager
def progress_bar(screen: Any, text: str, *, unicode: bool) -> Iterator[Callable[[int, int, int, str], None]]:
    """Show a bar of acknowledged subtasks and the bytes written; it is gone at the end.

    Args:
        screen: A console of rich on a terminal.
        text: What is waited for.
        unicode: Whether the terminal shows more than ASCII.
    """
    with _progress(screen, unicode=unicode) as progress:
        task = progress.add_task(text, total=None, figures="")

        def show(acknowledged: int, total: int, size: int, waits: str) -> None:
            figures = f"{acknowledged}/{total} acknowledged  {format_size(size)}" if total else ""
            progress.update(task, completed=acknowledged, total=total or None, figures=waits or figures)

        yield show


@contextlib.contextmanager
def bytes_bar(screen: Any, text: str, total: int, *, unicode: bool) -> Iterator[Callable[[int], object]]:
    """Show a bar of bytes; it is gone at the end.

    Args:
        screen: A console of rich on a terminal.
        text: What is done.
        total: All bytes.
        unicode: Whether the terminal shows more than ASCII.
    """
    with _progress(screen, unicode=unicode) as progress:
        task = progress.add_task(text, total=total, figures="")

        def show(done: int) -> None:
            progress.update(task, completed=done, figures=f"{format_size(done)} of {format_size(total)}")

        yield show


def _progress(screen: Any, *, unicode: bool) -> Progress:
    from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

    columns = (
        SpinnerColumn("dots" if unicode else "line"),
        TextColumn("{task.description}"),
        BarColumn(bar_width=24),
        TextColumn("{task.fields[figures]}"),
        TimeElapsedColumn(),
    )
    return Progress(*columns, console=screen, transient=True, redirect_stdout=False, redirect_stderr=False)
