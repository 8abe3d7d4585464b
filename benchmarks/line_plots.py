"""Small line plots in one SVG, without a library."""

from html import escape

WIDTH, HEIGHT, GAP, LEFT, TOP = 380, 150, 34, 64, 30
COLOURS = ("#1f77b4", "#d62728", "#2ca02c", "#9467bd", "#ff7f0e", "#8c564b")


def line_plots(title, horizontal, plots, columns=3):
    """Return an SVG.

    Args:
        title: Above all of them.
        horizontal: What the horizontal axis shows.
        plots: For each its title and its lines: a name and its points, (x, y), each. Vertical axes begin at 0.
        columns: So many beside each other.
    """
    rows = -(-len(plots) // columns)
    wide, high = columns * (WIDTH + GAP + LEFT), TOP + rows * (HEIGHT + 2 * GAP)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{wide}" height="{high}" viewBox="0 0 {wide} {high}" '
        'font-family="sans-serif" font-size="11"><rect width="100%" height="100%" fill="white"/>',
        f'<text x="{LEFT}" y="20" font-size="15">{escape(title)}</text>',
    ]
    for number, (name, lines) in enumerate(plots):
        x, y = number % columns * (WIDTH + GAP + LEFT) + LEFT, TOP + number // columns * (HEIGHT + 2 * GAP) + GAP
        parts.append(f'<g transform="translate({x},{y})">{_plot(name, horizontal, lines)}</g>')
    return "".join([*parts, "</svg>\n"])


def _plot(title, horizontal, lines):
    points = [point for _, line in lines for point in line]
    most_x, most_y = max((x for x, _ in points), default=0) or 1, max((y for _, y in points), default=0) * 1.05 or 1
    parts = [
        f'<text y="-8" font-size="12">{escape(title)}</text>',
        f'<rect width="{WIDTH}" height="{HEIGHT}" fill="none" stroke="#999"/>',
    ]
    for share in (0, 0.5, 1):
        at = HEIGHT * (1 - share)
        parts.append(f'<text x="-6" y="{at + 4:.0f}" text-anchor="end">{most_y * share:,.4g}</text>')
        parts.append(f'<text x="{WIDTH * share:.0f}" y="{HEIGHT + 14}" text-anchor="middle">{most_x * share:,.3g}</text>')
    parts.append(f'<text x="{WIDTH / 4:.0f}" y="{HEIGHT + 14}" text-anchor="middle" fill="#666">{escape(horizontal)}</text>')
    for number, (name, line) in enumerate(lines):
        colour = COLOURS[number % len(COLOURS)]
        path = " ".join(f"{x / most_x * WIDTH:.1f},{HEIGHT * (1 - y / most_y):.1f}" for x, y in line)
        parts.append(f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="1.2"/>')
        if len(lines) > 1:
            parts.append(f'<text x="{6 + number * 90}" y="{HEIGHT - 6}" fill="{colour}">{escape(name)}</text>')
    return "".join(parts)
