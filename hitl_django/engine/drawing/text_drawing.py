"""ASCII art of graphs for terminals."""

from __future__ import annotations

from itertools import pairwise

from .layout.layout import Point
from .layout.text_size import LETTER
from .picture import Picture, PlacedEdge, PlacedNode

#: Lengths in the picture that correspond to one column and one row.
_ACROSS, _DOWN = LETTER, 12.0
_ENDS = {"start": "__start__", "end": "__end__"}


def write_text(picture: Picture) -> str:
    """Return a picture as ASCII art.

    Unconditional edges are drawn with stars, and other edges with dots.
    """
    canvas = _Canvas(picture.width, picture.height)
    for edge in picture.edges:
        canvas.draw_edge(edge)
    for edge in picture.edges:
        canvas.draw_label(edge)
    for node in picture.nodes:
        canvas.draw_node(node)
    return canvas.write()


class _Canvas:
    """A grid of characters. Positions are given in the units of a picture."""

    def __init__(self, width: float, height: float) -> None:
        # This includes space for the names of START and END, which are wider than their dots in a
        # picture.
        columns, rows = int(width / _ACROSS) + len(_ENDS["start"]), int(height / _DOWN) + 2
        self._lines = [[" "] * columns for _ in range(rows)]

    def write(self) -> str:
        lines = ["".join(line).rstrip() for line in self._lines]
        filled = [number for number, line in enumerate(lines) if line]
        if not filled:
            return ""
        left = min(len(line) - len(line.lstrip()) for line in lines if line)
        return "\n".join(line[left:] for line in lines[filled[0] : filled[-1] + 1])

    def draw_node(self, node: PlacedNode) -> None:
        left, top = _locate((node.x, node.y))
        right, bottom = _locate((node.x + node.width, node.y + node.height))
        if not node.holds:
            bottom = top + max(2, bottom - top - 1)
        middle = round((left + right) / 2)
        if node.kind != "node":
            name = _ENDS[node.kind]
            self._put(max(0, middle - len(name) // 2), (top + bottom) // 2, name)
            return
        border = f"+{'-' * (right - left - 1)}+"
        for row in range(top, bottom + 1):
            if row in (top, bottom):
                self._put(left, row, border)
            else:
                inside = " " * (right - left - 1)
                self._put(left, row, f"|{inside}|" if not node.holds else "|")
                self._put(right, row, "|")
        first = top + 1 if node.holds else (top + bottom + 2 - len(node.lines)) // 2
        for number, line in enumerate(node.lines):
            self._put(middle - len(line) // 2, first + number, line)

    def draw_edge(self, edge: PlacedEdge) -> None:
        mark = "*" if edge.leads == "always" else "."
        for start, end in pairwise(map(_locate, edge.points)):
            (x, y), (to_x, to_y) = start, end
            steps = max(abs(to_x - x), abs(to_y - y), 1)
            for step in range(steps + 1):
                across, down = (to_x - x) * step / steps, (to_y - y) * step / steps
                self._put(x + round(across), y + round(down), mark)

    def draw_label(self, edge: PlacedEdge) -> None:
        if edge.label_at is not None:
            x, y = _locate(edge.label_at)
            self._put(max(0, x - len(edge.shown) // 2), y, edge.shown)

    def _put(self, column: int, row: int, text: str) -> None:
        line = self._lines[row]
        for number, letter in enumerate(text, column):
            if number < len(line):
                line[number] = letter


def _locate(point: Point) -> tuple[int, int]:
    return round(point[0] / _ACROSS), round(point[1] / _DOWN)
