"""Random graphs with crashes and responses in any order: the same final state."""

from __future__ import annotations

import os
from types import SimpleNamespace
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import hitl_django
from hitl_django.engine.graph.pregel import Pregel
from hitl_django.engine.savers.checkpoint import BaseCheckpointSaver
from hitl_django.engine.types import RunnableConfig, Send

from .crashing import Crash, Frail, store_answer
from .graphs import CONFIG, saved
from .random_graphs import GraphSpec, build, graphs

OURS = SimpleNamespace(
    END=hitl_django.END,
    START=hitl_django.START,
    Command=hitl_django.Command,
    Send=Send,
    StateGraph=hitl_django.StateGraph,
    interrupt=hitl_django.interrupt,
)

#: The same graphs in each run. ENGINE_GRAPHS=2000 generates that many new graphs.
WANTED = os.environ.get("ENGINE_GRAPHS", "")
PROFILE = settings(
    max_examples=int(WANTED or settings().max_examples),
    derandomize=not WANTED,
    deadline=None,
    database=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
LIMITED = {**CONFIG, "recursion_limit": 40}


def played(
    graph: Pregel, saver: BaseCheckpointSaver, order: str, config: RunnableConfig = LIMITED
) -> tuple[str, Any]:
    """Execute a thread to its end like a worker, and return its status and values."""
    submitted = False
    for _ in range(200):
        try:
            if not submitted:
                submitted = True
                graph.submit({"log": ["input"], "total": 0}, CONFIG)
            outcome = graph.advance(config)
        except Crash:
            submitted = saver.get_tuple(CONFIG) is not None
            continue
        if outcome.status != "interrupted":
            return outcome.status, graph.get_state(CONFIG).values
        numbers = range(len(outcome.pending_interrupts))
        for number in {"all": numbers, "first": numbers[:1], "last": numbers[-1:]}[order]:
            asked = outcome.pending_interrupts[number].interrupt.value
            store_answer(graph, outcome, f"re {asked}", number)
    raise AssertionError("The run came to no end.")


ORDERS = st.sampled_from(["all", "first", "last"])


@PROFILE
@given(spec=graphs(depth=1), order=ORDERS, place=st.integers(0, 999), after=st.booleans())
def test_random_graph_crashed_at_any_commit_ends_with_same_state_as_uncrashed_run(
    spec: GraphSpec, order: str, place: int, after: bool
) -> None:
    calm = Frail()
    whole = played(saved(build(OURS, spec), calm), calm, order)
    saver = Frail()
    # The number of commits for parallel tasks depends on their order, so the position of the crash
    # is drawn as a share of all commits.
    saver.crash_at = 1 + place * calm.count // 1000
    saver.crash_after = after
    assert played(saved(build(OURS, spec), saver), saver, order) == whole


@PROFILE
@given(spec=graphs(depth=0), order=ORDERS)
def test_random_graph_answered_in_different_orders_ends_with_same_state(
    spec: GraphSpec, order: str
) -> None:
    # All interrupts of a step are pending before the step ends, regardless of the first response.
    one, other = Frail(), Frail()
    assert played(saved(build(OURS, spec), one), one, order) == played(
        saved(build(OURS, spec), other), other, "all"
    )
