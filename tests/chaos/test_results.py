"""Equal stored bytes of a graph for all drivers and savers, with and without crashes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from hitl_django.checkpoints import DjangoSaver
from hitl_django.checkpoints.codec import pack
from hitl_django.engine.graph.pregel import Pregel
from tests.engine.crashing import Frail
from tests.engine.graphs import saved
from tests.engine.random_graphs import GraphSpec, build, graphs
from tests.engine.test_crashes import LIMITED, ORDERS, OURS, played

THREADS = (1, 2, 8)


def result(graph: Pregel, saver: Any, order: str, threads: int) -> tuple[str, bytes, str]:
    status, values = played(graph, saver, order, {**LIMITED, "max_concurrency": threads})
    return status, *pack(values)


@pytest.mark.django_db
@pytest.mark.promise("P17")
def test_random_graph_has_same_result_for_any_concurrency_crash_and_saver(
    amount: Callable[[int, int], int], figures: Callable[[str], None]
) -> None:
    @settings(
        max_examples=amount(25, 400),
        deadline=None,
        database=None,
        suppress_health_check=list(HealthCheck),
    )
    @given(spec=graphs(depth=1), order=ORDERS, data=st.data())
    def compare(spec: GraphSpec, order: str, data: st.DataObject) -> None:
        calm = Frail()
        expected = result(saved(build(OURS, spec), calm), calm, order, 1)
        for threads in THREADS:
            frail = Frail()
            frail.crash_at = data.draw(st.integers(1, calm.count), label="crash at")
            frail.crash_after = data.draw(st.booleans(), label="after storing")
            assert result(saved(build(OURS, spec), frail), frail, order, threads) == expected
        stored = DjangoSaver()
        try:
            assert result(saved(build(OURS, spec), stored), stored, order, 8) == expected
        finally:
            stored.delete_thread("thread")

    compare()
    runs = len(THREADS) + 2
    figures(f"{amount(25, 400)} graphs, each with {runs} drivers: equal bytes")
