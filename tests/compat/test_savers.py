"""The same graphs leave the same behind in memory and in the database."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from hitl_django.saver import DjangoSaver

from .driving import Case, transcript
from .engines import OURS, Engine
from .test_cases import CASES

pytestmark = [pytest.mark.filterwarnings("ignore"), pytest.mark.django_db]

#: Our names, with every graph stored in the database.
STORED: Engine = SimpleNamespace(**{**vars(OURS), "InMemorySaver": DjangoSaver})

RUNS = [
    pytest.param(case, way, id=f"{case.name}-{way}")
    for case in CASES
    for way in ("invoke", "stream")
    if way in case.ways
]


@pytest.mark.parametrize(("case", "way"), RUNS)
def test_a_graph_does_the_same_in_the_database(case: Case, way: str) -> None:
    assert transcript(STORED, case, way) == transcript(OURS, case, way)
