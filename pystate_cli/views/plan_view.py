"""The plan of a program as a tree, with the partitioning of elements."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from pystate_cli.console.formats import printable
from pystate_cli.tables.fitted_table import shortened

if TYPE_CHECKING:
    from rich.console import RenderableType

_STYLES = {"Data Source": "cyan", "Data Sink": "magenta"}
_TEE, _CORNER, _BAR = ("├─ ", "└─ ", "│  ")
_ASCII = {_TEE: "+- ", _CORNER: "`- ", _BAR: "|  "}


def plan_view(answer: Mapping[str, Any], width: int, *, unicode: bool) -> RenderableType:
    """Return the tree for a terminal of that width.

    A step with several inputs is drawn below the first of them; the others refer to it.

    Args:
        answer: `name`, `parallelism`, and `plan` with Flink's `nodes`.
        width: Columns of the terminal.
        unicode: Whether it shows more than ASCII.
    """
    from rich.console import Group
    from rich.text import Text

    nodes = answer["plan"]["nodes"]
    times = "×" if unicode else "x"
    title = Text(printable(str(answer["name"])), style="bold")
    steps = f"{len(nodes)} steps" if len(nodes) != 1 else "1 step"
    title.append(f"  {steps}, parallelism {answer['parallelism']}", style="dim not bold")
    lines = [title]
    tree = _Tree(nodes)
    for prefix, node, ship, again in tree.lines():
        line = Text(prefix if unicode else _in_ascii(prefix), style="dim")
        way = f"{ship.lower()} {'→' if unicode else '->'} " if ship else ""
        tail = f" {times}{node['parallelism']}"
        uid = "" if node["uid"].startswith("auto-") else f"  uid {printable(node['uid'])}"
        if again:
            tail, uid = "  (see above)", ""
        room = width - len(prefix) - len(way) - len(tail)
        name = shortened(printable(node["type"]), max(8, room), unicode=unicode)
        line.append(way, style="dim")
        line.append(name, style="dim" if again else _STYLES.get(node["pact"], "bold"))
        line.append(tail, style="dim" if again else "green")
        if line.cell_len + len(uid) <= width:
            line.append(uid, style="dim")
        lines.append(line)
    return Group(*lines)


def plan_lines(answer: Mapping[str, Any], *, unicode: bool) -> list[str]:
    """Return the same tree as plain lines of any width, for a pipe."""
    times, arrow = ("×", "→") if unicode else ("x", "->")
    lines = [f"{printable(str(answer['name']))}, parallelism {answer['parallelism']}"]
    for prefix, node, ship, again in _Tree(answer["plan"]["nodes"]).lines():
        way = f"{ship.lower()} {arrow} " if ship else ""
        tail = "  (see above)" if again else f" {times}{node['parallelism']}"
        lines.append(f"{prefix if unicode else _in_ascii(prefix)}{way}{printable(node['type'])}{tail}")
    return lines


def _in_ascii(prefix: str) -> str:
    for mark, plain in _ASCII.items():
        prefix = prefix.replace(mark, plain)
    return prefix


class _Tree:
    """Nodes by their downstream nodes."""

    def __init__(self, nodes: list[dict[str, Any]]) -> None:
        self._nodes = nodes
        self._followers: dict[int, list[tuple[dict[str, Any], str]]] = {node["id"]: [] for node in nodes}
        for node in nodes:
            for edge in node.get("predecessors", ()):
                self._followers[edge["id"]].append((node, edge["ship_strategy"]))
        self._drawn: set[int] = set()

    def lines(self) -> Iterator[tuple[str, dict[str, Any], str | None, bool]]:
        """Yield prefix, node, partitioning of its input, and whether it was drawn before."""
        for node in self._nodes:
            if not node.get("predecessors"):
                yield "", node, None, False
                yield from self._below(node, "")

    def _below(self, node: dict[str, Any], prefix: str) -> Iterator[tuple[str, dict[str, Any], str | None, bool]]:
        followers = self._followers[node["id"]]
        for number, (follower, ship) in enumerate(followers, 1):
            is_last = number == len(followers)
            again = follower["id"] in self._drawn
            self._drawn.add(follower["id"])
            yield prefix + (_CORNER if is_last else _TEE), follower, ship, again
            if not again:
                yield from self._below(follower, prefix + ("   " if is_last else _BAR))
