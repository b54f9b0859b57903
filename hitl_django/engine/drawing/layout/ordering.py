"""Ordering of the items (boxes and bends of edges) in each layer to reduce crossings."""

from __future__ import annotations

from bisect import bisect_right, insort
from collections.abc import Sequence
from itertools import pairwise

SWEEPS = 8

Layers = list[list[int]]
Neighbours = Sequence[Sequence[int]]


def order_layers(layers: Layers, above: Neighbours, below: Neighbours) -> Layers:
    """Return the layers, each ordered by the median position of the items' neighbors.

    ``above`` and ``below`` contain each item's neighbors in the adjacent layers. The algorithm goes
    through all layers from top to bottom and back a fixed number of times. It returns the order
    with the fewest crossings. The result is deterministic.
    """
    best, fewest = layers, count_crossings(layers, below)
    layers = [list(layer) for layer in layers]
    for sweep in range(SWEEPS):
        if not fewest:
            break
        down = sweep % 2 == 0
        for position in range(1, len(layers)) if down else range(len(layers) - 2, -1, -1):
            fixed = layers[position - 1 if down else position + 1]
            _sort(layers[position], fixed, above if down else below)
        found = count_crossings(layers, below)
        if found < fewest:
            best, fewest = [list(layer) for layer in layers], found
    return best


def _sort(layer: list[int], fixed: Sequence[int], neighbours: Neighbours) -> None:
    places = {item: place for place, item in enumerate(fixed)}
    # An item without neighbors keeps its position.
    middles = {
        item: _median([places[one] for one in neighbours[item]], place)
        for place, item in enumerate(layer)
    }
    layer.sort(key=middles.__getitem__)


def _median(places: list[int], otherwise: float) -> float:
    if not places:
        return otherwise
    places.sort()
    half = len(places) // 2
    return places[half] if len(places) % 2 else (places[half - 1] + places[half]) / 2


def count_crossings(layers: Layers, below: Neighbours) -> int:
    """Return the number of crossing pairs of edges between adjacent layers."""
    total = 0
    for upper, lower in pairwise(layers):
        places = {item: place for place, item in enumerate(lower)}
        met: list[int] = []
        for item in upper:
            ends = sorted(places[one] for one in below[item])
            for end in ends:
                total += len(met) - bisect_right(met, end)
            for end in ends:
                insort(met, end)
    return total
