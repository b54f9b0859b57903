"""``hitl preflight``: what a deploy would park is named before it."""

from __future__ import annotations

import io
import json
from collections.abc import Iterator
from typing import Any, TypedDict

import pytest
from django.core.management import CommandError, call_command

from hitl_django import START, StateGraph, interrupt
from hitl_django.graph_registry import registry
from hitl_django.models import Run
from hitl_django.testing import GraphEnvironment

pytestmark = pytest.mark.django_db


class State(TypedDict, total=False):
    answer: Any


def build(node: str) -> StateGraph[Any]:
    graph = StateGraph(State).add_node(node, lambda state: {"answer": interrupt("Go on?")})
    return graph.add_edge(START, node)


@pytest.fixture
def deploy() -> Iterator[Any]:
    """Registers the graph "deployed" as a version of the code has it: with a node of that name."""

    def register(node: str | None) -> None:
        registry.unregister("deployed")
        if node is not None:
            registry.register("deployed")(lambda: build(node))

    yield register
    registry.unregister("deployed")


def preflight(*arguments: str) -> tuple[str, str]:
    out = io.StringIO()
    try:
        call_command("hitl", "preflight", *arguments, stdout=out)
    except CommandError as error:
        return out.getvalue(), str(error)
    return out.getvalue(), ""


def test_runs_that_wait_at_a_node_that_is_gone_are_named(deploy: Any) -> None:
    deploy("ask")
    with GraphEnvironment() as hitl:
        run = hitl.start("deployed", {})
        over = hitl.start("deployed", {})
        hitl.decide(run=over, type="respond", value="yes")
        assert preflight() == ("All runs under way can go on.\n", "")
        deploy("review")
        said, failure = preflight()
        assert said.startswith(f"{run.id}  deployed: ")
        assert "ask" in said
        assert str(over.id) not in said
        assert failure == "1 run could not go on."
        line = json.loads(preflight("--json", "--graph", "deployed")[0])
        assert (line["run"], line["graph"]) == (str(run.id), "deployed")
        assert preflight("--graph", "approval")[1] == ""
        # What it says is what happens.
        hitl.decide(run=run, type="respond", value="yes")
        hitl.assert_parked(run, "ask")


def test_runs_of_a_graph_that_isn_t_there_are_named(deploy: Any) -> None:
    deploy("ask")
    with GraphEnvironment() as hitl:
        hitl.start("deployed", {})
        hitl.start("deployed", {})
    deploy(None)
    said, failure = preflight()
    first, second, summary = said.splitlines()
    assert first.split()[1] == second.split()[1] == "deployed:"
    assert summary.startswith("2 runs of deployed 1: No graph named 'deployed'")
    assert failure == "2 runs could not go on."
    assert set(Run.objects.values_list("state", flat=True)) == {"interrupted"}
