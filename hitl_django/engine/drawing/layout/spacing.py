"""Horizontal positions of the items (boxes and bends of edges) in a layer.

Items are placed near their neighbors in the adjacent layers, and don't overlap.
"""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median

from .ordering import Layers, Neighbours

ROUNDS = 6
#: The weight of bends, which keeps long edges straight.
STRAIGHT = 6.0


def place_items(
    layers: Layers,
    above: Neighbours,
    below: Neighbours,
    widths: Sequence[float],
    is_bend: Sequence[bool],
    gap: float,
) -> list[float]:
    """Return the horizontal position of each item's center.

    ``above`` and ``below`` contain each item's neighbors in the adjacent layers. ``gap`` is the
    minimum distance between two items of a layer.
    """
    found = [0.0] * len(widths)
    for layer in layers:
        _settle(layer, [0.0] * len(layer), widths, is_bend, gap, found)
    for turn in range(ROUNDS):
        down = turn % 2 == 0
        for layer in layers if down else reversed(layers):
            near = above if down else below
            wanted = [_middle(item, near, found) for item in layer]
            _settle(layer, wanted, widths, is_bend, gap, found)
    for layer in layers:
        wanted = [(_middle(item, above, found) + _middle(item, below, found)) / 2 for item in layer]
        _settle(layer, wanted, widths, is_bend, gap, found)
    return found


def _middle(item: int, neighbours: Neighbours, found: Sequence[float]) -> float:
    near = neighbours[item]
    return median([found[one] for one in near]) if near else found[item]


def _settle(
    layer: Sequence[int],
    wanted: Sequence[float],
    widths: Sequence[float],
    is_bend: Sequence[bool],
    gap: float,
    found: list[float],
) -> None:
    """Write the positions of a layer's items to ``found``: close to ``wanted``, without overlap.

    The positions minimize the squared distances to the wanted positions. Overlapping neighbors form
    a pool, which is placed at the mean of their wanted positions. Pools are merged until no two
    pools overlap.
    """
    offsets, offset = [], 0.0
    for position, item in enumerate(layer):
        if position:
            offset += (widths[layer[position - 1]] + widths[item]) / 2 + gap
        offsets.append(offset)
    pools: list[tuple[float, float, int]] = []  # mean, weight, items
    for position, item in enumerate(layer):
        mean, weight, size = (
            wanted[position] - offsets[position],
            STRAIGHT if is_bend[item] else 1.0,
            1,
        )
        while pools and pools[-1][0] > mean:
            other, heavy, many = pools.pop()
            mean = (mean * weight + other * heavy) / (weight + heavy)
            weight, size = weight + heavy, size + many
        pools.append((mean, weight, size))
    position = 0
    for mean, _, size in pools:
        for _ in range(size):
            found[layer[position]] = mean + offsets[position]
            position += 1
