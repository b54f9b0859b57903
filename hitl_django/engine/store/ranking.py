"""Vectors and their cosine similarity to a query.

A vector is scaled to length 1 and stored in 32-bit floats. The similarity of two vectors is
therefore the sum of their products. If numpy is installed, numpy computes the same results faster.
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
    """Return a vector, scaled to length 1. A vector of zeros is returned unchanged.

    Raises:
        ValueError: the sequence is empty, or a number isn't finite.
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
    """Return candidates with their scores, most similar first.

    The score of a candidate with several vectors is the score of its most similar vector.
    Candidates without vectors come last in their original order, with the score None.

    Raises:
        ValueError: a vector and the query have different lengths.
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
    """Return the similarity of each vector to the query: 1 for equal, 0 for unrelated vectors."""
    numpy = _find_numpy()
    if numpy is None or not vectors:
        return [sum(map(mul, query, vector)) for vector in vectors]
    stacked = numpy.frombuffer(b"".join(vectors), dtype="f").reshape(len(vectors), len(query))
    scores: list[float] = (stacked @ numpy.array(query, dtype="d")).tolist()
    return scores


@cache
def _find_numpy() -> Any:
    return None if find_spec("numpy") is None else import_module("numpy")
