"""Assignment of items (the boxes of nodes) to layers.

First, edges that would lead upwards are reversed. Then each item is placed below its lowest
predecessor.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(slots=True)
class LayerLink:
    """An edge between two items. ``lower`` must be at least ``length`` layers below ``upper``."""

    upper: int
    lower: int
    length: int = 1
    turned: bool = False


def turn_back_links(count: int, links: Sequence[LayerLink]) -> None:
    """Reverse each link that closes a cycle, so that the remaining links contain no cycle.

    The function uses depth-first search with an explicit stack, because a chain of nodes may be
    longer than Python's recursion limit.
    """
    leaving: list[list[LayerLink]] = [[] for _ in range(count)]
    for link in links:
        leaving[link.upper].append(link)
    on_way, done = [False] * count, [False] * count
    for root in range(count):
        if done[root]:
            continue
        stack = [(root, iter(leaving[root]))]
        on_way[root] = True
        while stack:
            item, rest = stack[-1]
            for link in rest:
                if on_way[link.lower]:
                    link.upper, link.lower, link.turned = link.lower, link.upper, True
                elif not done[link.lower]:
                    on_way[link.lower] = True
                    stack.append((link.lower, iter(leaving[link.lower])))
                    break
            else:
                on_way[item], done[item] = False, True
                stack.pop()


def rank_items(count: int, links: Sequence[LayerLink], top: int) -> list[int]:
    """Return the index of each item's layer. The item ``top`` is in the first layer.

    The links must not form a cycle.
    """
    leaving: list[list[LayerLink]] = [[] for _ in range(count)]
    waiting = [0] * count
    for link in links:
        leaving[link.upper].append(link)
        waiting[link.lower] += 1
    ranks = [0] * count
    ready = [item for item in range(count) if not waiting[item]]
    sources = set(ready) - {top}
    for item in ready:
        for link in leaving[item]:
            ranks[link.lower] = max(ranks[link.lower], ranks[item] + link.length)
            waiting[link.lower] -= 1
            if not waiting[link.lower]:
                ready.append(link.lower)
    for item in sources:
        # An item without predecessors is placed directly above its successors instead of in the
        # first layer.
        below = [ranks[link.lower] - link.length for link in leaving[item]]
        ranks[item] = max(0, min(below, default=1))
    return ranks
