"""A flame graph of collapsed stacks, such as `row_hops.py --flame FOLDER` writes.

    python benchmarks/flame_graph.py STACKS PICTURE.svg [--title TEXT] [--least 0.004]

A line of STACKS is `outer;...;inner COUNT`. Each box is a function with what it calls above it; its width is its share of
the samples. Boxes with a share below `--least` are left out. The full names are tool tips.
"""

import argparse
import html
import re
from pathlib import Path

WIDTH, HEIGHT, LETTER = 1200, 17, 6.6
COLOURS = {
    "pystate/state": "#d9a441",
    "pystate/slot": "#e0703c",
    "pystate": "#c9563f",
    "pyspark": "#6f8fb0",
    "pyarrow": "#7fa86f",
}
OTHERS = "#b5aa9c"


class Frame:
    """A function, called by the one below it."""

    def __init__(self, name):
        self.name = name
        self.count = 0
        self.calls = {}

    def add(self, names, count):
        self.count += count
        if names:
            self.calls.setdefault(names[0], Frame(names[0])).add(names[1:], count)


def function_of(frame):
    """Return a frame's name without the number of its line, so that lines of one function are one box."""
    return re.sub(r":\d+\)$", ")", frame)


def read(path):
    root = Frame("all")
    for line in path.read_text().splitlines():
        stack, _, count = line.rpartition(" ")
        root.add([function_of(frame) for frame in stack.split(";")], int(count))
    return root


def boxes(frame, left, level, whole, least):
    """Yield (left, level, width, frame), with widths as shares."""
    share = frame.count / whole
    if share < least:
        return
    yield left, level, share, frame
    for call in sorted(frame.calls.values(), key=lambda one: one.name):
        yield from boxes(call, left, level + 1, whole, least)
        left += call.count / whole


def picture(root, title, least):
    found = list(boxes(root, 0.0, 0, root.count, least))
    top = (2 + max(level for _, level, _, _ in found)) * HEIGHT + 8
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{top + 6}"'
        ' font-family="monospace" font-size="11">',
        f'<rect width="100%" height="100%" fill="#fdfaf5"/><text x="6" y="14">{html.escape(title)}</text>',
    ]
    for left, level, share, frame in found:
        colour = next((colour for part, colour in COLOURS.items() if part in frame.name), OTHERS)
        x, y, width = left * WIDTH, top - (level + 1) * HEIGHT, share * WIDTH
        name = html.escape(f"{frame.name}, {share:.1%}")
        shown = html.escape(frame.name[: int((width - 6) / LETTER)]) if width > 5 * LETTER else ""
        lines.append(
            f'<g><title>{name}</title><rect x="{x:.1f}" y="{y}" width="{max(0.5, width - 0.6):.1f}" height="{HEIGHT - 1}"'
            f' fill="{colour}" rx="1"/><text x="{x + 3:.1f}" y="{y + 12}">{shown}</text></g>'
        )
    return "\n".join([*lines, "</svg>", ""])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("stacks", type=Path)
    parser.add_argument("picture", type=Path)
    parser.add_argument("--title", default="")
    parser.add_argument("--least", type=float, default=0.004)
    given = parser.parse_args()
    given.picture.write_text(picture(read(given.stacks), given.title, given.least))


if __name__ == "__main__":
    main()
