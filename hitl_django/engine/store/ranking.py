"""Vectors, and which of them are near to a query's: cosine similarity.

A vector is kept with a length of one, in 32-bit floats: the similarity is then a sum of products.
numpy does that where it is installed, in less time; the results are the same.
"""

from __future__ import annotations

import math
from array import array
from collections.abc import Iterable, Sequence
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from operator import itemgetter, mul
from typing import Any, TypeAlias, TypeVar

Vector: TypeAlias = "array[float]"
T = TypeVar("T")


def make_vector(numbers: Iterable[Any]) -> Vector:
    """Return numbers as a vector of length one, or of zeros where they all are.

    Raises ValueError for none at all, and for what isn't finite.
    """
    found = [float(number) for number in numbers]
    if not found:
        raise ValueError("Embedding is empty.")
    length = math.hypot(*found)
    if not math.isfinite(length):
        raise ValueError("Embedding contains a non-finite number.")
    return array("f", [number / length for number in found] if length else found)


def rank_candidates(
    query: Vector, candidates: Iterable[tuple[T, Sequence[Vector]]]
) -> list[tuple[T, float | None]]:
    """Return the candidates with their scores, the nearest first.

    A candidate with several vectors counts by its nearest; those without any come last, with None,
    in the order in which they came. Raises ValueError for a vector of another length.
    """
    scored, unscored = list[T](), list[T]()
    vectors, counts = list[Vector](), list[int]()
    for candidate, own in candidates:
        if own:
            scored.append(candidate)
            vectors += own
            counts.append(len(own))
        else:
            unscored.append(candidate)
    for vector in vectors:
        if len(vector) != len(query):
            raise ValueError(
                f"The query embedding has {len(query)} dimensions, but a stored item has "
                f"{len(vector)}. Store the items again after changing the embedding model."
            )
    scores = iter(score_vectors(query, vectors))
    best = [max(next(scores) for _ in range(count)) for count in counts]
    ranked = sorted(zip(scored, best, strict=True), key=itemgetter(1), reverse=True)
    return [*ranked, *((candidate, None) for candidate in unscored)]


def score_vectors(query: Vector, vectors: Sequence[Vector]) -> list[float]:
    """Return for each vector how near it is to the query: 1 is the same, 0 has nothing of it."""
    numpy = _find_numpy()
    if numpy is None or not vectors:
        return [sum(map(mul, query, vector)) for vector in vectors]
    stacked = numpy.frombuffer(b"".join(vectors), dtype="f").reshape(len(vectors), len(query))
    scores: list[float] = (stacked @ numpy.array(query, dtype="d")).tolist()
    return scores


@cache
def _find_numpy() -> Any:
    return None if find_spec("numpy") is None else import_module("numpy")
