"""What two sequences have in common, found within a bound on the work.

The algorithm is Myers' (An O(ND) Difference Algorithm, 1986): long and alike is cheap, and where
two sequences differ so much that it gets expensive, there is little to be said about how.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass

#: Steps after which what lies between the first and the last difference counts as replaced.
MOST_WORK = 2_000_000


class Effort:
    """The steps that may still be made, of one alignment or of several together."""

    __slots__ = ("left",)

    def __init__(self, left: int = MOST_WORK) -> None:
        self.left = left


@dataclass(frozen=True, slots=True)
class Block:
    """``old[i:j]`` stands where ``new[k:l]`` does; where ``same``, they are equal."""

    same: bool
    i: int
    j: int
    k: int
    l: int  # noqa: E741  (four neighbours of the alphabet)


def align(
    old: Sequence[Hashable], new: Sequence[Hashable], effort: Effort | None = None
) -> list[Block]:
    """Returns the sequences as blocks that are the same and blocks that differ, in turn."""
    first = _common(old, new)
    last = _common(old[first:][::-1], new[first:][::-1])
    rest = old[first : len(old) - last], new[first : len(new) - last]
    middle = _walk(*rest, Effort() if effort is None else effort)
    pairs = [(at, at) for at in range(first)]
    pairs += [(first + i, first + k) for i, k in middle]
    pairs += [(len(old) - last + at, len(new) - last + at) for at in range(last)]
    return _blocks(pairs, len(old), len(new))


def _common(old: Sequence[Hashable], new: Sequence[Hashable]) -> int:
    length = 0
    for one, other in zip(old, new, strict=False):
        if one != other:
            break
        length += 1
    return length


def _walk(
    old: Sequence[Hashable], new: Sequence[Hashable], effort: Effort
) -> list[tuple[int, int]]:
    """Returns the places that a shortest edit leaves alone; none where finding it takes too long.

    ``ends[k]`` is how far into ``old`` one gets on diagonal k with so many edits; ``trace`` keeps
    it for each number of edits, to find the way back.
    """
    if not old or not new:
        return []
    ends, trace = {1: 0}, []
    for edits in range(len(old) + len(new) + 1):
        if effort.left <= 0:
            return []
        trace.append(dict(ends))
        effort.left -= len(ends)
        for k in range(-edits, edits + 1, 2):
            i = _step(ends, k, edits)
            start = i
            while i < len(old) and i - k < len(new) and old[i] == new[i - k]:
                i += 1
            ends[k] = i
            effort.left -= 1 + i - start
            if i >= len(old) and i - k >= len(new):
                return _way_back(trace, len(old), len(new))
    return []


def _step(ends: dict[int, int], k: int, edits: int) -> int:
    down = k == -edits or (k != edits and ends[k - 1] < ends[k + 1])
    return ends[k + 1] if down else ends[k - 1] + 1


def _way_back(trace: list[dict[int, int]], i: int, j: int) -> list[tuple[int, int]]:
    pairs = []
    for edits in range(len(trace) - 1, -1, -1):
        ends, k = trace[edits], i - j
        start = _step(ends, k, edits) if edits else 0
        while i > start:
            i, j = i - 1, j - 1
            pairs.append((i, j))
        if edits:
            down = k == -edits or (k != edits and ends[k - 1] < ends[k + 1])
            i, j = (i, j - 1) if down else (i - 1, j)
    return pairs[::-1]


def _blocks(pairs: list[tuple[int, int]], old: int, new: int) -> list[Block]:
    blocks: list[Block] = []
    i = k = 0
    at = 0
    while at < len(pairs):
        begin = at
        while at + 1 < len(pairs) and pairs[at + 1] == (pairs[at][0] + 1, pairs[at][1] + 1):
            at += 1
        (start_i, start_k), (end_i, end_k) = pairs[begin], pairs[at]
        if (start_i, start_k) != (i, k):
            blocks.append(Block(False, i, start_i, k, start_k))
        i, k = end_i + 1, end_k + 1
        blocks.append(Block(True, start_i, i, start_k, k))
        at += 1
    if (i, k) != (old, new):
        blocks.append(Block(False, i, old, k, new))
    return blocks
