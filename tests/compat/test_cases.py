"""Handwritten graphs in both engines, in every way in which they can be run."""

from __future__ import annotations

from contextlib import nullcontext

import pytest

from tests.clock import leaping

from . import (
    cases_asking,
    cases_below,
    cases_commands,
    cases_failing,
    cases_flow,
    cases_functional,
    cases_messages,
    cases_routes,
    cases_state,
    cases_streams,
    cases_subgraphs,
    cases_together,
    cases_travel,
    cases_updates,
)
from .differences import TABLE
from .driving import WAYS, Case, sampled, transcript
from .engines import LANGGRAPH, OURS

pytestmark = pytest.mark.filterwarnings("ignore")

CASES: list[Case] = [
    *cases_flow.CASES,
    *cases_asking.CASES,
    *cases_commands.CASES,
    *cases_state.CASES,
    *cases_subgraphs.CASES,
    *cases_travel.CASES,
    *cases_failing.CASES,
    *cases_functional.CASES,
    *cases_together.CASES,
    *cases_messages.CASES,
    *cases_streams.CASES,
    *cases_below.CASES,
    *cases_routes.CASES,
    *cases_updates.CASES,
]
ROWS = {row.name for row in TABLE}


@pytest.mark.parametrize(("case", "way"), sampled(CASES, WAYS))
def test_handwritten_graph_matches_langgraph_transcript(case: Case, way: str) -> None:
    with leaping() if case.leaps else nullcontext():
        assert transcript(OURS, case, way) == transcript(LANGGRAPH, case, way)


def test_handwritten_graph_case_names_are_unique_and_at_least_450() -> None:
    assert len({case.name for case in CASES}) == len(CASES) >= 450


def test_handwritten_graph_case_that_omits_results_names_a_documented_difference() -> None:
    for case in CASES:
        assert case.differs in ROWS if case.leaves_out else case.differs in ROWS | {""}, case.name
