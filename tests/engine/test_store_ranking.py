"""Vectors and their ranking, equal with and without numpy."""

from __future__ import annotations

from importlib.util import find_spec
from random import Random

import pytest

from hitl_django.engine.store import ranking
from hitl_django.engine.store.ranking import make_vector, rank_candidates, score_vectors


def test_make_vector_scales_its_numbers_to_unit_length() -> None:
    assert list(make_vector([3, 4])) == pytest.approx([0.6, 0.8])
    assert list(make_vector([0, 0.0])) == [0.0, 0.0]
    assert list(make_vector([1e300, 1e300])) == pytest.approx([0.5**0.5] * 2)


def test_make_vector_without_numbers_raises_value_error() -> None:
    with pytest.raises(ValueError, match="Embedding is empty"):
        make_vector([])


@pytest.mark.parametrize("wrong", [[float("nan"), 1.0], [float("inf")]])
def test_make_vector_with_nan_or_infinity_raises_value_error(wrong: list[float]) -> None:
    with pytest.raises(ValueError, match="non-finite number"):
        make_vector(wrong)


def test_rank_candidates_orders_candidates_by_their_nearest_vector() -> None:
    near, far, between = make_vector([1, 0]), make_vector([0, 1]), make_vector([1, 1])
    found = rank_candidates(near, [("none", []), ("one", [between]), ("two", [far, near])])
    assert [name for name, _ in found] == ["two", "one", "none"]
    assert [score for _, score in found] == [pytest.approx(1.0), pytest.approx(0.5**0.5), None]


def test_rank_candidates_returns_equally_near_candidates_in_input_order() -> None:
    vector = make_vector([1, 2])
    assert [name for name, _ in rank_candidates(vector, [(n, [vector]) for n in "bac"])] == [*"bac"]
    assert rank_candidates(vector, []) == []


@pytest.mark.skipif(find_spec("numpy") is None, reason="numpy isn't installed")
def test_score_vectors_returns_equal_scores_with_and_without_numpy(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    chance = Random(1)
    vectors = [make_vector(chance.gauss(0, 1) for _ in range(384)) for _ in range(50)]
    query = make_vector(chance.gauss(0, 1) for _ in range(384))
    fast = score_vectors(query, vectors)
    monkeypatch.setattr(ranking, "_find_numpy", lambda: None)
    assert score_vectors(query, vectors) == pytest.approx(fast, abs=1e-12)
    assert isinstance(fast[0], float)
