"""Draws the pictures of docs/concepts.md from docs/images/concepts.txt.

python docs/images/render_concepts.py
"""

from __future__ import annotations

from html import escape
from pathlib import Path

FOLDER = Path(__file__).parent
CELL = 20
STYLE = """
  rect.paper { fill: #fbfbfd; }
  rect.box { fill: #eef1fa; stroke: #5c6bc0; stroke-width: 1.5; }
  rect.dark { fill: #3f51b5; stroke: #303f9f; }
  rect.round { fill: #ffffff; stroke: #7986cb; stroke-width: 1.2; }
  line { stroke: #37474f; stroke-width: 1.6; }
  line.dash { stroke-dasharray: 5 4; }
  text { font: 14px system-ui, sans-serif; fill: #263238; }
  text.on-dark { fill: #ffffff; }
  text.middle { text-anchor: middle; dominant-baseline: central; }
"""
ARROWS = ("arrow", "dash")


def pictures(text: str) -> dict[str, str]:
    """Return the SVG of each picture of a text, by name."""
    found = {}
    for part in text.split("\n== ")[1:]:
        title, *lines = part.splitlines()
        name, width, height = title.split()
        found[name] = _svg(float(width), float(height), [line for line in lines if line.strip()])
    return found


def _svg(width: float, height: float, lines: list[str]) -> str:
    shapes = "\n".join(_shape(line) for line in lines)
    size = f"{(width + 2) * CELL:g} {(height + 1) * CELL:g}"
    marker = '<marker id="tip" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" orient="auto">'
    return f"""<svg xmlns="http://www.w3.org/2000/svg" viewBox="-{CELL} -{CELL / 2:g} {size}">
<style>{STYLE}</style>
<defs>{marker}<path d="M0,0 L8,4 L0,8 z" fill="#37474f"/></marker></defs>
<rect class="paper" x="-{CELL}" y="-{CELL / 2:g}" width="100%" height="100%" rx="8"/>
{shapes}
</svg>
"""


def _shape(line: str) -> str:
    kind, *words = line.split()
    if kind == "text":
        x, y = (CELL * float(word) for word in words[:2])
        return f'<text x="{x:g}" y="{y:g}">{escape(" ".join(words[2:]))}</text>'
    a, b, c, d = (CELL * float(word) for word in words[:4])
    if kind in ("line", *ARROWS):
        tip = ' marker-end="url(#tip)"' if kind in ARROWS else ""
        dash = ' class="dash"' if kind == "dash" else ""
        return f'<line{dash} x1="{a:g}" y1="{b:g}" x2="{c:g}" y2="{d:g}"{tip}/>'
    label = escape(" ".join(words[4:]))
    high = d > 3 * CELL and kind == "box" and c > 10 * CELL  # holds others: its name is at the top
    y = b + CELL if high else b + d / 2
    side = "on-dark middle" if kind == "dark" else "middle"
    round_by = min(c, d) / 2 if kind == "round" else 4
    return (
        f'<rect class="{kind}" x="{a:g}" y="{b:g}" width="{c:g}" height="{d:g}" rx="{round_by:g}"/>'
        f'<text class="{side}" x="{a + c / 2:g}" y="{y:g}">{label}</text>'
    )


def main() -> None:
    """Write the pictures."""
    for name, svg in pictures((FOLDER / "concepts.txt").read_text("utf-8")).items():
        (FOLDER / f"{name}.svg").write_text(svg, "utf-8")


if __name__ == "__main__":
    main()
