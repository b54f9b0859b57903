"""The layout of boxes and edges on a plane, in layers from top to bottom.

The module implements Sugiyama's method: reverse upward edges, assign boxes to layers, split long
edges at the layers in between, order the boxes within each layer to reduce crossings, then position
each box near its neighbors. The result is deterministic. An edge with a label passes through an
additional layer for the label.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise

from .layers import LayerLink, rank_items, turn_back_links
from .ordering import order_layers
from .spacing import place_items
from .text_size import LINE

GAP, ROW_GAP, LANE, LOOP = 26.0, 30.0, 14.0, 22.0
#: The maximum number of bends of long edges, per box and in total. Longer edges are routed around
#: the outside of the graph.
BENDS_PER_BOX, BENDS = 6, 200
LANES = 12
#: Edges start and end in the middle of boxes up to this width.
NARROW = 40.0

Point = tuple[float, float]


@dataclass(slots=True)
class Wire:
    """An edge between two boxes, with its points and the position of its label.

    ``source`` and ``target`` are the indexes of the boxes.
    """

    source: int
    target: int
    label_width: float = 0.0
    points: list[Point] = field(default_factory=list)
    label_at: Point | None = None
    back: bool = False


@dataclass(slots=True)
class _Route:
    """The path of a wire from its upper box to its lower box.

    ``passes`` lists the boxes and bends on the path, one per layer, as indexes. ``labelled`` is the
    position in ``passes`` of the bend with the label, or -1.
    """

    wire: Wire
    link: LayerLink
    passes: list[int] = field(default_factory=list)
    labelled: int = -1


@dataclass(frozen=True, slots=True)
class Plane:
    """The size of the drawing area, and the center of each box."""

    width: float
    height: float
    middles: list[Point]


def lay_out(sizes: Sequence[Point], wires: Sequence[Wire]) -> Plane:
    """Return the positions of the boxes, and set the points of each wire.

    The first box is at the top.
    """
    layout = _Layout(sizes, wires)
    layout.reserve_loop_space()
    layout.route()
    layout.place()
    layout.draw()
    return layout.plane()


class _Layout:
    def __init__(self, sizes: Sequence[Point], wires: Sequence[Wire]) -> None:
        self.count, self.wires = len(sizes), wires
        self.sizes = sizes
        self.widths = [width for width, _ in sizes]
        self.heights = [height for _, height in sizes]
        self.loops = [wire for wire in wires if wire.source == wire.target]
        self.routes: list[_Route] = []
        self.outside: list[Wire] = []
        self.layers: list[list[int]] = []
        self.above: list[list[int]] = []
        self.below: list[list[int]] = []
        self.tops: list[float] = []
        self.right = 0.0

    def reserve_loop_space(self) -> None:
        for wire in self.loops:
            # The space is added on both sides, so that edges still lead to the middle of the box.
            self.widths[wire.source] += 2 * (LOOP + wire.label_width)

    def route(self) -> None:
        """Assign boxes to layers, and add bends where long edges cross a layer."""
        routes, met = [], set()
        for wire in self.wires:
            if wire.source == wire.target:
                continue
            pair = frozenset((wire.source, wire.target))
            length = 2 if wire.label_width or pair in met else 1
            met.add(pair)
            routes.append(_Route(wire, LayerLink(wire.source, wire.target, length)))
        links = [route.link for route in routes]
        turn_back_links(self.count, links)
        ranks = rank_items(self.count, links, 0)
        self.layers = [[] for _ in range(max(ranks, default=0) + 1)]
        for item, rank in enumerate(ranks):
            self.layers[rank].append(item)
        left = BENDS_PER_BOX * self.count + BENDS
        routes.sort(key=lambda route: ranks[route.link.lower] - ranks[route.link.upper])
        for route in routes:
            first, last = ranks[route.link.upper], ranks[route.link.lower]
            left -= last - first - 1
            if left < 0:
                self.outside.append(route.wire)
                continue
            self._bend(route, first, last)
            self.routes.append(route)
        self._connect()

    def _bend(self, route: _Route, first: int, last: int) -> None:
        route.passes = [route.link.upper]
        # The label is at the beginning of the wire.
        at = last - 1 if route.link.turned else first + 1
        for rank in range(first + 1, last):
            bend = len(self.widths)
            is_labelled = route.wire.label_width > 0 and rank == at
            self.widths.append(route.wire.label_width if is_labelled else 0.0)
            self.heights.append(LINE if is_labelled else 0.0)
            self.layers[rank].append(bend)
            if is_labelled:
                route.labelled = len(route.passes)
            route.passes.append(bend)
        route.passes.append(route.link.lower)

    def _connect(self) -> None:
        self.above = [[] for _ in self.widths]
        self.below = [[] for _ in self.widths]
        for route in self.routes:
            for upper, lower in pairwise(route.passes):
                self.below[upper].append(lower)
                self.above[lower].append(upper)

    def place(self) -> None:
        self.layers = order_layers(self.layers, self.above, self.below)
        is_bend = [item >= self.count for item in range(len(self.widths))]
        self.x = place_items(self.layers, self.above, self.below, self.widths, is_bend, GAP)
        lefts = [x - width / 2 for x, width in zip(self.x, self.widths, strict=True)]
        leftmost = min(lefts, default=0.0)
        self.x = [x - leftmost for x in self.x]
        self.right = max((x + w / 2 for x, w in zip(self.x, self.widths, strict=True)), default=0.0)
        top = 0.0
        self.y = [0.0] * len(self.widths)
        self.floors: list[float] = []
        for layer in self.layers:
            height = max((self.heights[item] for item in layer), default=0.0)
            for item in layer:
                self.y[item] = top + height / 2
            self.tops.append(top)
            self.floors.append(top + height)
            top += height + ROW_GAP
        self.rank = {item: rank for rank, layer in enumerate(self.layers) for item in layer}

    def draw(self) -> None:
        leave, enter = self._ports(down=True), self._ports(down=False)
        for number, route in enumerate(self.routes):
            upper, lower = route.passes[0], route.passes[-1]
            points = [(self.x[upper] + leave[number], self.y[upper] + self.heights[upper] / 2)]
            for bend in route.passes[1:-1]:
                rank = self.rank[bend]
                points += [(self.x[bend], self.tops[rank]), (self.x[bend], self.floors[rank])]
            points.append((self.x[lower] + enter[number], self.y[lower] - self.heights[lower] / 2))
            route.wire.back = route.link.turned
            route.wire.points = points[::-1] if route.link.turned else points
            if route.labelled >= 0:
                bend = route.passes[route.labelled]
                route.wire.label_at = (self.x[bend], self.y[bend])
        self._draw_loops()
        self._draw_outside()

    def _ports(self, *, down: bool) -> list[float]:
        """Return the horizontal distance of each route's end from the center of the box.

        With ``down``, the end is where the route leaves its upper box. Otherwise, the end is where
        the route enters its lower box.
        """
        ends: dict[int, list[tuple[float, int]]] = {}
        for number, route in enumerate(self.routes):
            box, towards = route.passes[0 if down else -1], route.passes[1 if down else -2]
            ends.setdefault(box, []).append((self.x[towards], number))
        offsets = [0.0] * len(self.routes)
        for box, several in ends.items():
            width = self.sizes[box][0]
            step = 0.0 if width < NARROW else min(18.0, 0.7 * width / len(several))
            for place, (_, number) in enumerate(sorted(several)):
                offsets[number] = (place - (len(several) - 1) / 2) * step
        return offsets

    def _draw_loops(self) -> None:
        for wire in self.loops:
            width, height = self.sizes[wire.source]
            side, y = self.x[wire.source] + width / 2, self.y[wire.source]
            out, reach = side + LOOP - 6, min(height / 4, 14.0)
            wire.points = [(side, y - reach), (out, y - reach), (out, y + reach), (side, y + reach)]
            wire.back = True
            if wire.label_width:
                wire.label_at = (out + 4 + wire.label_width / 2, y)

    def _draw_outside(self) -> None:
        lanes: dict[int, float] = {}
        for wire in self.outside:
            # Wires to the same box share a vertical lane.
            lane = lanes.setdefault(wire.target, self.right + LANE * (len(lanes) % LANES + 1))
            ends = []
            for box in (wire.source, wire.target):
                ends.append((self.x[box] + self.sizes[box][0] / 2, self.y[box]))
            (x, y), (to_x, to_y) = ends
            wire.points = [(x, y), (lane, y), (lane, to_y), (to_x, to_y)]
            wire.back = y > to_y
        self.right = max([self.right, *lanes.values()])

    def plane(self) -> Plane:
        middles = list(zip(self.x, self.y, strict=True))[: self.count]
        return Plane(self.right, self.floors[-1] if self.floors else 0.0, middles)
