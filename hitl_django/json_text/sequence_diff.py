"""Shortest edit script between two sequences, with a limited number of steps.

The algorithm is Myers' (An O(ND) Difference Algorithm, 1986). It is fast for long, similar
sequences. For very different sequences, the limit is reached, and the whole sequence is treated as
replaced.

``difflib.SequenceMatcher`` can be limited only by the length of its input. An element that occurs n
times takes about n² steps, and every second element of a text is a space. For two texts of 3,000
words with three changes, difflib takes 3 s, and this module 3 ms. With ``autojunk``, difflib is
fast, but finds only 48 of the 612 elements common to two texts of 300 words.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass

#: After this number of steps, everything between the first and the last difference is treated as
#: replaced.
MAX_STEPS = 2_000_000


class StepBudget:
    """The number of steps that remain for one or several comparisons."""

    __slots__ = ("left",)

    def __init__(self, left: int = MAX_STEPS) -> None:
        self.left = left


@dataclass(frozen=True, slots=True)
class Block:
    """A replacement of ``old[i:j]`` by ``new[k:l]``, or an equal part if ``same`` is true."""

    same: bool
    i: int
    j: int
    k: int
    l: int  # noqa: E741  (four neighbours of the alphabet)


def align_sequences(
    old: Sequence[Hashable], new: Sequence[Hashable], budget: StepBudget | None = None
) -> list[Block]:
    """Return alternating blocks of equal and different elements of two sequences.

    ``budget`` limits the number of steps.
    """
    first = _count_equal(old, new)
    last = _count_equal(old[first:][::-1], new[first:][::-1])
    rest = old[first : len(old) - last], new[first : len(new) - last]
    middle = _find_matches(*rest, StepBudget() if budget is None else budget)
    pairs = [(at, at) for at in range(first)]
    pairs += [(first + i, first + k) for i, k in middle]
    pairs += [(len(old) - last + at, len(new) - last + at) for at in range(last)]
    return _make_blocks(pairs, len(old), len(new))


def _count_equal(old: Sequence[Hashable], new: Sequence[Hashable]) -> int:
    length = 0
    for one, other in zip(old, new, strict=False):
        if one != other:
            break
        length += 1
    return length


def _find_matches(
    old: Sequence[Hashable], new: Sequence[Hashable], budget: StepBudget
) -> list[tuple[int, int]]:
    """Return the pairs of matching positions in a shortest edit script.

    The result is empty if the budget has too few steps. ``ends[k]`` is the furthest position in
    ``old`` on diagonal k with a given number of edits. ``trace`` stores ``ends`` for each number of
    edits, in order to reconstruct the path.
    """
    if not old or not new:
        return []
    ends, trace = {1: 0}, []
    for edits in range(len(old) + len(new) + 1):
        if budget.left <= 0:
            return []
        trace.append(dict(ends))
        budget.left -= len(ends)
        for k in range(-edits, edits + 1, 2):
            i = _step(ends, k, edits)
            start = i
            while i < len(old) and i - k < len(new) and old[i] == new[i - k]:
                i += 1
            ends[k] = i
            budget.left -= 1 + i - start
            if i >= len(old) and i - k >= len(new):
                return _trace_back(trace, len(old), len(new))
    return []


def _step(ends: dict[int, int], k: int, edits: int) -> int:
    down = k == -edits or (k != edits and ends[k - 1] < ends[k + 1])
    return ends[k + 1] if down else ends[k - 1] + 1


def _trace_back(trace: list[dict[int, int]], i: int, j: int) -> list[tuple[int, int]]:
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


def _make_blocks(pairs: list[tuple[int, int]], old: int, new: int) -> list[Block]:
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
