"""Rates with their intervals as pictures (SVG): lines over an axis, or bars in groups."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from html import escape

from ldm.text import printable

WIDTH, HEIGHT, LEFT, RIGHT, TOP, BOTTOM = 640, 360, 56, 190, 40, 56
COLOURS = ("#1f77b4", "#d62728", "#2ca02c", "#9467bd", "#ff7f0e", "#8c564b", "#17becf", "#7f7f7f")
#: Characters of a line's name that fit.
NAME = 30
#: Place on the axis, value in [0, 1], and the ends of its interval.
Point = tuple[float, float, float, float]
#: A value in [0, 1], and the ends of its interval.
Rate = tuple[float, float, float]
Scale = Callable[[float], float]


def svg(
    lines: Mapping[str, Sequence[Point]],
    title: str,
    measure: str,
    ticks: Mapping[float, str],
    axis: str = "",
) -> str:
    """Return the picture. measure: name of the values. ticks: place on the axis → its label."""
    values = [end for points in lines.values() for point in points for end in point[1:]]
    low = max(0.0, min(values, default=0.0) - 0.05)
    high = min(1.0, max(values, default=1.0) + 0.05)
    first, last = min(ticks, default=0.0), max(ticks, default=1.0)

    def x(place: float) -> float:
        return LEFT + (WIDTH - LEFT - RIGHT) * (place - first) / max(1e-9, last - first)

    def y(value: float) -> float:
        return TOP + (HEIGHT - TOP - BOTTOM) * (high - value) / max(1e-9, high - low)

    parts = _begun(WIDTH, HEIGHT, title, measure)
    for step in range(int(low * 10) + 1, int(high * 10) + 1):
        at = y(step / 10)
        parts += [
            f'<line x1="{LEFT}" y1="{at:.1f}" x2="{WIDTH - RIGHT}" y2="{at:.1f}" stroke="#ddd"/>',
            f'<text x="{LEFT - 8}" y="{at + 4:.1f}" text-anchor="end">{10 * step} %</text>',
        ]
    below = HEIGHT - BOTTOM + 18
    parts += [
        f'<text x="{x(place):.1f}" y="{below}" text-anchor="middle">{_text(label)}</text>'
        for place, label in ticks.items()
    ]
    if axis:
        middle = (LEFT + WIDTH - RIGHT) / 2
        parts.append(
            f'<text x="{middle:.1f}" y="{HEIGHT - 14}" text-anchor="middle" fill="#555">'
            f"{_text(axis)}</text>"
        )
    for number, (name, points) in enumerate(lines.items()):
        parts += _line(name, sorted(points), number, x, y)
    return "\n".join([*parts, "</svg>", ""])


def bars(groups: Mapping[str, Mapping[str, Rate]], title: str, measure: str) -> str:
    """Return a picture of groups of bars. groups: name → series → its rate."""
    width, height, top, base = 720, 300, 74, 258
    series = list(next(iter(groups.values())))
    colours = dict(zip(series, ("#1a7f37", "#9aa4af", "#d0a215", *COLOURS), strict=False))
    step = (width - 60) / len(groups)
    bar = step * 0.8 / len(series)

    def y(value: float) -> float:
        return base - (base - top) * value

    parts = _begun(width, height, title, measure)
    for place, name in enumerate(series):
        at = 10.0 + 170 * place
        parts.append(f'<rect x="{at}" y="48" width="11" height="11" fill="{colours[name]}"/>')
        parts.append(f'<text x="{at + 16}" y="58">{_text(name)}</text>')
    for value in (0.0, 0.5, 1.0):
        at = y(value)
        parts.append(f'<line x1="48" x2="{width - 8}" y1="{at}" y2="{at}" stroke="#ddd"/>')
        parts.append(f'<text x="42" y="{at + 4}" text-anchor="end">{100 * value:.0f} %</text>')
    for number, (group, rates) in enumerate(groups.items()):
        left = 54 + step * number
        for place, name in enumerate(series):
            value, low, high = rates[name]
            at = left + bar * place
            parts += [
                f'<rect x="{at:.1f}" y="{y(value):.1f}" width="{bar - 3:.1f}" '
                f'height="{base - y(value):.1f}" fill="{colours[name]}"/>',
                f'<line x1="{at + bar / 2:.1f}" x2="{at + bar / 2:.1f}" y1="{y(low):.1f}" '
                f'y2="{y(high):.1f}" stroke="#333" stroke-opacity="0.55"/>',
                f'<text x="{at + bar / 2 - 1:.1f}" y="{y(high) - 4:.1f}" text-anchor="middle" '
                f'font-size="11">{100 * value:.0f}</text>',
            ]
        middle, below = left + bar * len(series) / 2, base + 18
        label = f'<text x="{middle:.1f}" y="{below}" text-anchor="middle">{_text(group)}</text>'
        parts.append(label)
    return "\n".join([*parts, "</svg>", ""])


def _begun(width: int, height: int, title: str, measure: str) -> list[str]:
    """Return the beginning of a picture: its size, background and headings."""
    return [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" '
        f'width="{width}" height="{height}" font-family="sans-serif" font-size="11">',
        f'<rect width="{width}" height="{height}" fill="white"/>',
        f'<text x="10" y="18" font-size="13">{_text(title)}</text>',
        f'<text x="10" y="34" fill="#555">{_text(measure)}, 95 % intervals</text>',
    ]


def _line(name: str, points: Sequence[Point], number: int, x: Scale, y: Scale) -> list[str]:
    """Return the marks of one line. x, y: the scales of places and values."""
    colour = COLOURS[number % len(COLOURS)]
    way = " ".join(f"{x(place):.1f},{y(value):.1f}" for place, value, _, _ in points)
    parts = [f'<polyline points="{way}" fill="none" stroke="{colour}" stroke-width="2"/>']
    for place, value, low, high in points:
        at = x(place) + 3 * number  # beside each other, so that intervals can be told apart
        parts += [
            f'<line x1="{at:.1f}" y1="{y(low):.1f}" x2="{at:.1f}" y2="{y(high):.1f}" '
            f'stroke="{colour}" stroke-opacity="0.4"/>',
            f'<circle cx="{x(place):.1f}" cy="{y(value):.1f}" r="3" fill="{colour}"/>',
        ]
    beside, line = WIDTH - RIGHT + 30, TOP + 16 * number + 8
    shortly = name if len(name) <= NAME else f"{name[: NAME - 1]}…"
    parts.append(f'<text x="{beside}" y="{line}" fill="{colour}">{_text(shortly)}</text>')
    return parts


def _text(text: str) -> str:
    return escape(printable(text))
