"""Plots as SVG: lines over days, and stacked bars.

Elements have classes but no styles, so the page's stylesheet sets the colours for light and dark
themes. Lines also differ in their dashes. A table next to each plot contains the same numbers.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from django.utils.html import format_html, format_html_join

#: Size in units of the drawing. The page scales the drawing.
WIDTH, HEIGHT = 400, 190
LEFT, RIGHT, TOP, BOTTOM = 44, 8, 10, 24
#: Maximum numbers of grid lines and of labels.
LEVELS, NAMES = 4, 4

Point = tuple[float, float]


@dataclass(frozen=True, slots=True)
class Series:
    """A line with a name and one value per place.

    None leaves a gap.
    """

    name: Any
    values: Sequence[float | None]


def draw_lines(
    ident: str,
    title: Any,
    description: Any,
    places: Sequence[Any],
    series: Sequence[Series],
    *,
    describe_level: Callable[[float], Any] = str,
    steps: Sequence[float] = (),
) -> str:
    """Return a line plot over places, such as days.

    ``describe_level`` formats the value of a grid line. ``steps`` are the allowed distances between
    grid lines. Distances larger than the largest step are round numbers.
    """
    largest = max((value for one in series for value in one.values if value is not None), default=0)
    step = _choose_step(largest, steps)
    top = max(step, math.ceil(largest / step) * step)

    def place(index: int, value: float) -> Point:
        across = (WIDTH - LEFT - RIGHT) * (index / max(1, len(places) - 1))
        return LEFT + across, TOP + (HEIGHT - TOP - BOTTOM) * (1 - value / top)

    levels = [step * n for n in range(round(top / step) + 1)]
    parts = [
        *(_draw_level(place(0, level)[1], describe_level(level)) for level in levels),
        *_draw_names(places, place),
        *(_draw_series(number, one, place) for number, one in enumerate(series)),
    ]
    return _draw(ident, (WIDTH, HEIGHT), parts, title=title, desc=description)


def draw_shares(ident: str, title: Any, shares: Sequence[tuple[str, int]]) -> str:
    """Return a bar that is divided in proportion to the counts.

    Each part has its own class.
    """
    total, parts, x = sum(count for _name, count in shares), [], 0.0
    for name, count in shares:
        width = 100 * count / total if total else 0
        if count:
            bar = '<rect class="hitl-share hitl-share-{}" x="{}" y="0" width="{}" height="10"/>'
            parts.append(format_html(bar, name, _format(x), _format(width)))
        x += width
    return _draw(ident, (100, 10), parts, fit="none", title=title)


def _draw(
    ident: str, size: tuple[int, int], parts: Sequence[str], fit: str = "xMidYMid", **words: Any
) -> str:
    named = [(tag, f"{ident}-{tag}", text) for tag, text in words.items()]
    return format_html(
        '<svg xmlns="http://www.w3.org/2000/svg" class="hitl-plot" role="img" viewBox="0 0 {} {}"'
        ' preserveAspectRatio="{}" aria-labelledby="{}">{}{}</svg>',
        *size,
        fit,
        " ".join(key for _tag, key, _text in named),
        format_html_join("", '<{0} id="{1}">{2}</{0}>', named),
        _join(parts),
    )


def _choose_step(largest: float, steps: Sequence[float]) -> float:
    least = largest / LEVELS
    for step in steps:
        if step >= least:
            return step
    power = 10 ** max(0, math.floor(math.log10(least)) if least > 0 else 0)
    return next(power * n for n in (1, 2, 5, 10, 20) if power * n >= least)


def _draw_level(y: float, label: Any) -> str:
    return format_html(
        '<path class="hitl-level" d="M{} {}H{}"/>'
        '<text class="hitl-scale" x="{}" y="{}" text-anchor="end">{}</text>',
        LEFT,
        _format(y),
        WIDTH - RIGHT,
        LEFT - 6,
        _format(y + 4),
        label,
    )


def _draw_names(places: Sequence[Any], place: Callable[[int, float], Point]) -> Iterator[str]:
    last = len(places) - 1
    shown = sorted({round(last * n / (NAMES - 1)) for n in range(NAMES)}) if last > 0 else [0]
    for index in shown:
        yield format_html(
            '<text class="hitl-scale" x="{}" y="{}" text-anchor="{}">{}</text>',
            _format(place(index, 0)[0]),
            HEIGHT - 7,
            "start" if index == 0 else "end" if index == last else "middle",
            places[index],
        )


def _draw_series(number: int, series: Series, place: Callable[[int, float], Point]) -> str:
    """Draw a line.

    The line is interrupted at a gap. A single value is drawn as a dot.
    """
    runs: list[list[Point]] = [[]]
    for index, value in enumerate(series.values):
        if value is None:
            runs.append([])
        else:
            runs[-1].append(place(index, value))
    drawn = []
    for run in filter(None, runs):
        if len(run) == 1:
            dot = '<circle class="hitl-dot" cx="{}" cy="{}" r="2.5"/>'
            drawn.append(format_html(dot, *map(_format, run[0])))
        else:
            path = "L".join(f"{_format(x)} {_format(y)}" for x, y in run)
            drawn.append(format_html('<path d="M{}"/>', path))
    return format_html('<g class="hitl-series hitl-series-{}">{}</g>', number, _join(drawn))


def _join(parts: Sequence[str]) -> str:
    return format_html_join("", "{}", ((part,) for part in parts))


def _format(value: float) -> str:
    return f"{value:.1f}".removesuffix(".0")
