"""The tree of versions: jobs, their savepoints, the jobs that were started from those."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from pystate.common.text.figures import format_size, local_time
from pystate_cli.console.formats import printable
from pystate_cli.tables.fitted_table import shortened

if TYPE_CHECKING:
    from rich.console import RenderableType
    from rich.text import Text
    from rich.tree import Tree

    from pystate.ops.catalog.tree import JobNode, Node, SnapshotNode

_INDENT = 4
_JOB_DIGITS = 8
_CODE_DIGITS = 7
Part = tuple[str, str]
"""A piece of a line, and its style."""


def tree(forest: Sequence[Node], width: int, *, unicode: bool) -> RenderableType:
    """Return the trees for a terminal of that width."""
    from rich.console import Group
    from rich.tree import Tree

    trees = []
    for root in forest:
        top = Tree(_text(root, width, unicode=unicode), guide_style="dim")
        _grow(top, root, width - _INDENT, unicode=unicode)
        trees.append(top)
    return Group(*trees)


def _grow(branch: Tree, node: Node, width: int, *, unicode: bool) -> None:
    for child in _children(node):
        _grow(branch.add(_text(child, width, unicode=unicode)), child, width - _INDENT, unicode=unicode)


def _text(node: Node, width: int, *, unicode: bool) -> Text:
    from rich.text import Text

    text, room = Text(no_wrap=True, overflow="crop"), width
    for part, style in _parts(node):
        shown = shortened(part, max(0, room), unicode=unicode)
        text.append(shown, style)
        room -= len(shown)
    return text


def plain_tree(forest: Sequence[Node]) -> list[str]:
    """Return the trees in ASCII, for programs."""
    lines = []
    for root in forest:
        lines.append(_line(root))
        lines += _branches(root, "")
    return lines


def _branches(node: Node, prefix: str) -> Iterator[str]:
    children = _children(node)
    for number, child in enumerate(children):
        last = number == len(children) - 1
        yield f"{prefix}{'`-- ' if last else '|-- '}{_line(child)}"
        yield from _branches(child, prefix + ("    " if last else "|   "))


def _line(node: Node) -> str:
    return "".join(part for part, _ in _parts(node))


def _children(node: Node) -> Sequence[Node]:
    from pystate.ops.catalog.tree import JobNode

    return node.snapshots if isinstance(node, JobNode) else node.jobs


def _parts(node: Node) -> Iterator[Part]:
    from pystate.ops.catalog.tree import JobNode

    return _job_parts(node) if isinstance(node, JobNode) else _snapshot_parts(node)


def _job_parts(job: JobNode) -> Iterator[Part]:
    yield printable(job.name), "bold"
    yield f"  job {job.job_id[:_JOB_DIGITS]}", ""
    if job.code_fingerprint is not None:
        yield f"  code {job.code_fingerprint[:_CODE_DIGITS]}", "dim"
    if job.new_code is not None:
        yield ("  new code", "green") if job.new_code else ("  same code", "dim")


def _snapshot_parts(node: SnapshotNode) -> Iterator[Part]:
    one = node.summary
    yield printable(node.snapshot_id), "yellow" if one is None or one.is_savepoint else "cyan"
    if one is None:
        yield "  not here", "dim"
        return
    yield f"  {local_time(one.timestamp_ms).strftime('%Y-%m-%d %H:%M:%S')}", ""
    yield f"  {format_size(one.size)}", ""
    if one.message:
        yield f"  {printable(one.message)}", "green"
