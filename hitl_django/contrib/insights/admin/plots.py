"""Plots as SVG: lines over time, and bars that are divided into parts.

Elements have classes but no styles, so the page's stylesheet sets the colours for light and dark
themes. The drawing is as wide as the page allows: horizontal positions are percentages, so texts
keep their size. Lines also differ in their dashes. A table next to each plot contains the same
numbers.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from django.utils.html import format_html, format_html_join

#: Height of the drawing in pixels, and the margins. The left one is a padding of the stylesheet.
HEIGHT = 170
LEFT, TOP, BOTTOM = 52, 12, 34
#: Number of units across, which the page stretches.
WIDTH = 1000
#: Maximum numbers of grid lines and of labels.
LEVELS, NAMES = 3, 4

#: Attribute of a bar that repeats a number beside it.
HIDDEN = format_html('aria-hidden="{}"', "true")

Point = tuple[float, float]


@dataclass(frozen=True, slots=True)
class Series:
    """A line of a plot, with a name and one value for each position on the x-axis.

    None leaves a gap. The area below a filled line is colored.
    """

    name: Any
    values: Sequence[float | None]
    css: str = "a"
    is_filled: bool = False


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
    """Return a line plot. The scale of the y-axis begins at zero.

    ``ident`` is the prefix of the ids in the SVG. ``places`` are the labels on the x-axis, such as
    days. ``describe_level`` formats the value of a grid line. ``steps`` are the preferred distances
    between grid lines. If a larger distance is needed, it is a round number.
    """
    largest = max((value for one in series for value in one.values if value is not None), default=0)
    step = _choose_step(largest, steps)
    top = max(step, math.ceil(largest / step) * step)

    def place(index: int, value: float) -> Point:
        height = HEIGHT - TOP - BOTTOM
        return WIDTH * index / max(1, len(places) - 1), TOP + height * (1 - value / top)

    levels = [(place(0, step * n)[1], step * n) for n in range(round(top / step) + 1)]
    lines = [part for one in series for part in _draw_series(one, place)]
    return format_html(
        '<svg class="hitl-plot hitl-lines" role="img" height="{}" aria-labelledby="{}">{}{}'
        '<svg viewBox="0 0 {} {}" width="100%" height="{}" preserveAspectRatio="none">{}</svg>'
        "{}</svg>",
        HEIGHT,
        f"{ident}-title {ident}-desc",
        _name(ident, title=title, desc=description),
        _join(_draw_level(y, describe_level(level)) for y, level in levels),
        WIDTH,
        HEIGHT,
        HEIGHT,
        _join(lines),
        _join(_draw_names(places)),
    )


def draw_bar(parts: Sequence[tuple[str, float]], ident: str = "", title: Any = "") -> str:
    """Return a bar that is divided into parts, each with its CSS class and its share in percent.

    ``ident`` is the prefix of the ids in the SVG. A bar without a title is hidden from screen
    readers.
    """
    drawn, x = [], 0.0
    for css, share in parts:
        if share:
            rect = '<rect class="{}" x="{}" width="{}" height="8"/>'
            drawn.append(format_html(rect, css, _format(x), _format(share)))
        x += share
    named = format_html('role="img" aria-labelledby="{}-title"', ident) if title else HIDDEN
    return format_html(
        '<svg class="hitl-meter" viewBox="0 0 100 8" preserveAspectRatio="none" {}>{}{}</svg>',
        named,
        _name(ident, title=title) if title else "",
        _join(drawn),
    )


def _name(ident: str, **words: Any) -> str:
    named = [(tag, f"{ident}-{tag}", text) for tag, text in words.items()]
    return format_html_join("", '<{0} id="{1}">{2}</{0}>', named)


def _choose_step(largest: float, steps: Sequence[float]) -> float:
    least = largest / LEVELS
    for step in steps:
        if step >= least:
            return step
    power = 10 ** max(0, math.floor(math.log10(least)) if least > 0 else 0)
    tenths = (power * n for n in (10, 20, 25, 30, 40, 50, 100, 200))
    return next(step // 10 for step in tenths if step >= 10 * least and step % 10 == 0)


def _draw_level(y: float, label: Any) -> str:
    return format_html(
        '<line class="g" x1="0" x2="100%" y1="{0}" y2="{0}"/>'
        '<text class="hitl-level" x="{1}" y="{2}">{3}</text>',
        _format(y),
        -LEFT,
        _format(y + 4),
        label,
    )


def _draw_names(places: Sequence[Any]) -> Iterator[str]:
    last = len(places) - 1
    shown = sorted({round(last * n / (NAMES - 1)) for n in range(NAMES)}) if last > 0 else [0]
    for index in shown:
        yield format_html(
            '<text x="{}%" y="{}" text-anchor="{}">{}</text>',
            _format(100 * index / max(1, last)),
            HEIGHT - 12,
            "start" if index == 0 else "end" if index == last else "middle",
            places[index],
        )


def _draw_series(series: Series, place: Callable[[int, float], Point]) -> Iterator[str]:
    """Yield the SVG elements of a line.

    ``place`` returns the coordinates for an index and a value. The line is interrupted at a gap. A
    single value between two gaps is drawn as a dot.
    """
    runs: list[list[Point]] = [[]]
    for index, value in enumerate(series.values):
        if value is None:
            runs.append([])
        else:
            runs[-1].append(place(index, value))
    floor = _format(place(0, 0)[1])
    for run in filter(None, runs):
        path = "L".join(f"{_format(x)} {_format(y)}" for x, y in run)
        if len(run) == 1:
            # A line without a length: a circle would be stretched with the drawing.
            yield format_html('<path class="{} hitl-dot" d="M{}h0"/>', series.css, path)
            continue
        if series.is_filled:
            start, end = _format(run[0][0]), _format(run[-1][0])
            fill = '<path class="f{0}" d="M{1}L{2} {3}L{4} {3}Z"/>'
            yield format_html(fill, series.css, path, end, floor, start)
        yield format_html('<path class="{}" d="M{}"/>', series.css, path)


def _join(parts: Iterable[str]) -> str:
    return format_html_join("", "{}", ((part,) for part in parts))


def _format(value: float) -> str:
    return f"{value:.1f}".removesuffix(".0")
