"""A curve of learning as a picture: one line for each memory, a point for each round."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape

WIDTH, HEIGHT, LEFT, RIGHT, TOP, BOTTOM = 640, 360, 56, 190, 40, 44
COLOURS = ("#1f77b4", "#d62728", "#2ca02c", "#9467bd", "#ff7f0e", "#8c564b", "#17becf", "#7f7f7f")
#: A value and the ends of its interval.
Point = tuple[float, float, float]


def svg(lines: Mapping[str, Sequence[Point]], title: str, measure: str) -> str:
    """Return the lines, over rounds from 0 (before) on; measure: what the values in [0, 1] are."""
    values = [end for points in lines.values() for point in points for end in point]
    low = max(0.0, min(values, default=0.0) - 0.05)
    high = min(1.0, max(values, default=1.0) + 0.05)
    rounds = max((len(points) for points in lines.values()), default=1) - 1

    def x(number: float) -> float:
        return LEFT + (WIDTH - LEFT - RIGHT) * number / max(1, rounds)

    def y(value: float) -> float:
        return TOP + (HEIGHT - TOP - BOTTOM) * (high - value) / max(1e-9, high - low)

    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" '
        f'width="{WIDTH}" height="{HEIGHT}" font-family="sans-serif" font-size="11">',
        f'<rect width="{WIDTH}" height="{HEIGHT}" fill="white"/>',
        f'<text x="10" y="18" font-size="13">{escape(title)}</text>',
        f'<text x="10" y="34" fill="#555">{escape(measure)}, 95 % intervals</text>',
    ]
    for step in range(int(low * 10) + 1, int(high * 10) + 1):
        at = y(step / 10)
        parts += [
            f'<line x1="{LEFT}" y1="{at:.1f}" x2="{WIDTH - RIGHT}" y2="{at:.1f}" stroke="#ddd"/>',
            f'<text x="{LEFT - 8}" y="{at + 4:.1f}" text-anchor="end">{10 * step} %</text>',
        ]
    for number in range(rounds + 1):
        label = f"round {number}" if number else "before"
        below = HEIGHT - BOTTOM + 18
        parts.append(f'<text x="{x(number):.1f}" y="{below}" text-anchor="middle">{label}</text>')
    for place, (name, points) in enumerate(lines.items()):
        parts += _line(name, points, COLOURS[place % len(COLOURS)], place, (x, y))
    return "\n".join([*parts, "</svg>", ""])


def _line(
    name: str, points: Sequence[Point], colour: str, place: int, axes: tuple[object, object]
) -> list[str]:
    """Return the marks of one memory; axes: where a round and a value are."""
    x, y = axes
    assert callable(x) and callable(y)  # noqa: PT018, S101 - two functions of one picture
    way = " ".join(f"{x(number):.1f},{y(point[0]):.1f}" for number, point in enumerate(points))
    parts = [f'<polyline points="{way}" fill="none" stroke="{colour}" stroke-width="2"/>']
    for number, (value, low, high) in enumerate(points):
        at = x(number) + 3 * place  # beside each other, so that intervals can be told apart
        parts += [
            f'<line x1="{at:.1f}" y1="{y(low):.1f}" x2="{at:.1f}" y2="{y(high):.1f}" '
            f'stroke="{colour}" stroke-opacity="0.4"/>',
            f'<circle cx="{x(number):.1f}" cy="{y(value):.1f}" r="3" fill="{colour}"/>',
        ]
    beside, line = WIDTH - RIGHT + 30, TOP + 16 * place + 8
    parts.append(f'<text x="{beside}" y="{line}" fill="{colour}">{escape(name)}</text>')
    return parts
