"""The plan of a job as a drawing: SVG that shows itself in a browser, light and dark, without anything else."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any
from xml.sax.saxutils import escape

from pystate_cli.console.formats import printable
from pystate_cli.tables.fitted_table import shortened

_WIDTH, _HEIGHT = 212, 58
_GAP_X, _GAP_Y, _MARGIN = 92, 24, 16
_TITLE = 34
_CHARACTERS = 24
_LINE, _MOST_LINES = 17, 6
_SWEEPS = 4
_STYLE = """
svg { font-family: system-ui, "Segoe UI", Roboto, "Noto Sans", "Noto Sans CJK SC", sans-serif;
background: #fff; color: #16202b; }
.title { font-size: 15px; font-weight: 650; fill: currentColor; } .soft { font-size: 11px; fill: #556270; }
.name { font-size: 13px; font-weight: 600; fill: currentColor; } .edge { fill: none; stroke: #8b97a4; stroke-width: 1.5; }
rect { fill: #f6f7f9; stroke: #8b97a4; } .source rect { stroke: #0f766e; } .sink rect { stroke: #7a5bb0; }
.head { fill: #8b97a4; } .ship { text-anchor: middle; paint-order: stroke; stroke: #fff; stroke-width: 3px; }
@media (prefers-color-scheme: dark) {
svg { background: #0f1419; color: #e6ebf0; } .ship { stroke: #0f1419; }
.soft { fill: #9fadba; } rect { fill: #1d2630; stroke: #5d6b78; }
.source rect { stroke: #4fd1c0; } .sink rect { stroke: #b79aee; } .edge { stroke: #5d6b78; } .head { fill: #5d6b78; }
}"""


@dataclass
class _Place:
    """A node, or the point where an edge passes a layer.

    Attributes:
        layer: The layer, from the left.
        node: The node; None for an edge that passes.
        before: What it is reached from.
        row: Its place in the layer.
        height: That of the rows of the drawing: of its highest box.
    """

    layer: int
    node: Mapping[str, Any] | None = None
    before: list[_Place] = field(default_factory=list)
    row: float = 0.0
    height: int = _HEIGHT

    @property
    def x(self) -> float:
        return _MARGIN + self.layer * (_WIDTH + _GAP_X)

    @property
    def middle(self) -> float:
        return _TITLE + _MARGIN + self.row * (self.height + _GAP_Y) + self.height / 2


def plan_svg(answer: Mapping[str, Any]) -> str:
    """Return the drawing.

    Args:
        answer: `name`, `parallelism`, and `plan` with Flink's `nodes`, each after those that it follows.
    """
    nodes = answer["plan"]["nodes"]
    row = max((_height(node) for node in nodes), default=_HEIGHT)
    layers, edges = _layers(nodes, row)
    _order(layers)
    title = f"{answer['name']}, parallelism {answer['parallelism']}"
    rows = max((place.row for layer in layers for place in layer), default=0) + 1
    width = 2 * _MARGIN + max(len(layers), 1) * (_WIDTH + _GAP_X) - _GAP_X
    height = _TITLE + 2 * _MARGIN + rows * (row + _GAP_Y) - _GAP_Y
    return "\n".join(
        (
            f'<svg xmlns="http://www.w3.org/2000/svg" width="{width:g}" height="{height:g}" '
            f'viewBox="0 0 {width:g} {height:g}" role="img">',
            f"<title>{_text(title)}</title><style>{_STYLE}</style>",
            '<defs><marker id="head" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" orient="auto">'
            '<path class="head" d="M0,0 L8,4 L0,8 z"/></marker></defs>',
            f'<text class="title" x="{_MARGIN}" y="{_MARGIN + 12}">{_text(title)}</text>',
            *(_edge(way, ship) for way, ship in edges),
            *(_box(place) for layer in layers for place in layer if place.node is not None),
            "</svg>",
        )
    )


def _layers(nodes: list[dict[str, Any]], height: int) -> tuple[list[list[_Place]], list[tuple[list[_Place], str]]]:
    """Return the layers, a node to the right of all that feed it, and each edge as the places that it goes through."""
    places: dict[Any, _Place] = {}
    layers: list[list[_Place]] = []
    edges = []

    def put(place: _Place) -> _Place:
        while len(layers) <= place.layer:
            layers.append([])
        layers[place.layer].append(place)
        place.height = height
        return place

    for node in nodes:
        inputs = [(places[one["id"]], one["ship_strategy"]) for one in node.get("predecessors", ())]
        layer = max((place.layer + 1 for place, _ in inputs), default=0)
        places[node["id"]] = found = put(_Place(layer, node))
        for origin, ship in inputs:
            way = [origin]
            for passed in range(origin.layer + 1, layer):
                way.append(put(_Place(passed, before=[way[-1]])))
            found.before.append(way[-1])
            edges.append(([*way, found], ship))
    return layers, edges


def _order(layers: list[list[_Place]]) -> None:
    """Give each place a row, near those it is connected with, so that few edges cross."""
    after: dict[int, list[_Place]] = {}
    for layer in layers:
        for place in layer:
            for one in place.before:
                after.setdefault(id(one), []).append(place)
    for layer in layers:
        _place_rows(layer)
    for _ in range(_SWEEPS):
        for layer in layers[1:]:
            layer.sort(key=lambda place: _mean(place.before, place.row))
            _place_rows(layer)
        for layer in reversed(layers[:-1]):
            layer.sort(key=lambda place: _mean(after.get(id(place), []), place.row))
            _place_rows(layer)
    tallest = max((len(layer) for layer in layers), default=0)
    for layer in layers:  # shorter layers in the middle of the drawing
        for place in layer:
            place.row += (tallest - len(layer)) / 2


def _place_rows(layer: list[_Place]) -> None:
    for row, place in enumerate(layer):
        place.row = row


def _mean(places: list[_Place], otherwise: float) -> float:
    return sum(place.row for place in places) / len(places) if places else otherwise


def _edge(way: list[_Place], ship: str) -> str:
    first, *rest = way
    x, y = first.x + _WIDTH, first.middle
    path = f"M{x:g},{y:g}"
    for place in rest:
        bend = (x + place.x) / 2
        path += f" C{bend:g},{y:g} {bend:g},{place.middle:g} {place.x:g},{place.middle:g}"
        x, y = place.x, place.middle
        if place.node is None:
            x += _WIDTH
            path += f" L{x:g},{y:g}"
    label_x, label_y = first.x + _WIDTH + _GAP_X / 2, (first.middle + rest[0].middle) / 2 - 4
    label = f'<text class="ship soft" x="{label_x:g}" y="{label_y:g}">{_text(ship.lower())}</text>' if ship else ""
    return f'<path class="edge" d="{path}" marker-end="url(#head)"/>{label}'


def _box(place: _Place) -> str:
    node = place.node or {}
    height = _height(node)
    x, y = place.x, place.middle - height / 2
    kind = {"Data Source": "source", "Data Sink": "sink"}.get(str(node["pact"]), "step")
    uid = str(node["uid"])
    below = f"\u00d7{node['parallelism']}" + ("" if uid.startswith("auto-") else f" \u00b7 {printable(uid)}")
    soft = shortened(below, _CHARACTERS + 3, unicode=True)
    names = "".join(
        f'<text class="name" x="{x + 11:g}" y="{y + 24 + _LINE * number:g}">{_text(line)}</text>'
        for number, line in enumerate(_lines(node))
    )
    return (
        f'<g class="{kind}"><title>{_text(printable(str(node["type"])))}</title>'
        f'<rect x="{x:g}" y="{y:g}" width="{_WIDTH}" height="{height}" rx="7"/>{names}'
        f'<text class="soft" x="{x + 11:g}" y="{y + height - 15:g}">{_text(soft)}</text></g>'
    )


def _lines(node: Mapping[str, Any]) -> list[str]:
    """Return the name of a node: of a task an operator on each line, in the order of its chain."""
    chained = printable(str(node["type"])).split(" -> ")
    if len(chained) > _MOST_LINES:
        chained = [*chained[: _MOST_LINES - 1], f"\u2026 {len(chained) - _MOST_LINES + 1} more"]
    return [shortened(name, _CHARACTERS, unicode=True) for name in chained]


def _height(node: Mapping[str, Any]) -> int:
    return _HEIGHT + _LINE * (len(_lines(node)) - 1)


def _text(words: str) -> str:
    return escape(printable(words), {'"': "&quot;"})
