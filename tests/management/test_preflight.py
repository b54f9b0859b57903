"""``hitl preflight``: runs that a deployment would park."""

from __future__ import annotations

import io
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, TypedDict
from uuid import uuid4

import pytest
from django.core.management import CommandError, call_command

from hitl_django import START, StateGraph, interrupt, services
from hitl_django.engine.types import Send
from hitl_django.graph_registry import registry
from hitl_django.management import preflight as module
from hitl_django.models import Run
from hitl_django.testing import GraphEnvironment

pytestmark = pytest.mark.django_db


class State(TypedDict, total=False):
    answer: Any


def build(node: str, shape: str = "plain", state: Any = State) -> StateGraph[Any]:
    """Build a graph with an interrupting node: directly, sent, in a subgraph, or before a join."""

    def ask(state: Any) -> Any:
        return {"answer": interrupt("Continue?")}

    graph = StateGraph(state).add_node(node, ask)
    if shape == "plain":
        return graph.add_edge(START, node)
    if shape == "below":
        outer = StateGraph(state).add_node("outer", graph.add_edge(START, node).compile())
        return outer.add_edge(START, "outer")
    if shape == "fan":
        sends = [Send(node, {}), Send(node, {"answer": "secret"})]
        return graph.add_conditional_edges(START, lambda state: sends, [node])
    graph.add_node("beside", lambda state: None).add_edge(START, "beside")
    graph.add_node("end", lambda state: None).add_edge(START, node)
    return graph.add_edge(["beside", node], "end")


@pytest.fixture
def deploy() -> Iterator[Any]:
    """Register a version of the graph "deployed" with a node of the given name."""

    def register(
        node: str | None,
        shape: str = "plain",
        state: Any = State,
        renamed: Any = None,
        **terms: Any,
    ) -> None:
        registry.unregister("deployed")
        if node is None:
            return
        if shape == "below" and renamed:
            inner = StateGraph(state).add_node(
                node, lambda state: {"answer": interrupt("Continue?")}
            )
            below = inner.add_edge(START, node).compile(renamed=renamed)
            outer = StateGraph(state).add_node("outer", below).add_edge(START, "outer")
            registry.register("deployed", **terms)(lambda: outer)
            return
        registry.register("deployed", renamed=renamed, **terms)(lambda: build(node, shape, state))

    yield register
    registry.unregister("deployed")


def preflight(*arguments: str) -> tuple[str, str]:
    out = io.StringIO()
    try:
        call_command("hitl", "preflight", *arguments, stdout=out)
    except CommandError as error:
        return out.getvalue(), str(error)
    return out.getvalue(), ""


def retry(*arguments: str) -> tuple[str, str]:
    out = io.StringIO()
    try:
        call_command("hitl", "retry", *arguments, stdout=out)
    except CommandError as error:
        return out.getvalue(), str(error)
    return out.getvalue(), ""


def test_preflight_reports_runs_paused_at_a_removed_node(deploy: Any) -> None:
    deploy("ask")
    with GraphEnvironment() as hitl:
        run = hitl.start("deployed", {})
        over = hitl.start("deployed", {})
        hitl.decide(run=over, type="respond", value="yes")
        assert preflight() == ("All active runs are compatible.\n", "")
        deploy("review")
        said, failure = preflight()
        assert said.startswith(f"{run.id}  deployed: ")
        assert "ask" in said
        assert str(over.id) not in said
        assert failure == "1 run would be parked."
        line = json.loads(preflight("--json", "--graph", "deployed")[0])
        assert (line["run"], line["graph"]) == (str(run.id), "deployed")
        assert preflight("--graph", "approval")[1] == ""
        # The report predicts the result.
        hitl.decide(run=run, type="respond", value="yes")
        hitl.assert_parked(run, "ask")


def test_preflight_reports_runs_of_a_removed_graph(deploy: Any) -> None:
    deploy("ask")
    with GraphEnvironment() as hitl:
        hitl.start("deployed", {})
        hitl.start("deployed", {})
    deploy(None)
    said, failure = preflight()
    first, second, summary = said.splitlines()
    assert first.split()[1] == second.split()[1] == "deployed:"
    assert summary.startswith("2 runs of deployed 1: Graph 'deployed' is not registered")
    assert failure == "2 runs would be parked."
    assert set(Run.objects.values_list("state", flat=True)) == {"interrupted"}


def test_preflight_summary_counts_runs_by_reason_and_merges_reasons_above_the_limit(
    deploy: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "PAGE", 2)
    deploy("ask")
    with GraphEnvironment() as hitl:
        for _ in range(5):
            hitl.start("deployed", {})
    deploy("review")
    said, failure = preflight("--limit", "1")
    named, summary = said.splitlines()
    assert named.endswith("deployed: node 'ask' was removed")
    assert summary == "5 runs of deployed 1: node 'ask' was removed"
    assert failure == "5 runs would be parked."
    assert preflight("--summary")[0] == f"{summary}\n"
    assert json.loads(preflight("--summary", "--json")[0]) == {
        "graph": "deployed", "version": "1", "reason": "node 'ask' was removed", "runs": 5,
    }  # fmt: skip
    monkeypatch.setattr(module, "REASONS", 0)
    assert preflight("--summary")[0] == "5 runs of deployed 1: other reasons\n"


def test_preflight_accepts_renamed_migrated_and_pinned_graphs(deploy: Any) -> None:
    deploy("ask")
    with GraphEnvironment() as hitl:
        run = hitl.start("deployed", {})
    deploy("review", renamed={"ask": "review"})
    assert preflight()[1] == ""
    deploy("ask", version="2", migrate_state=lambda state, version: state)
    assert preflight()[1] == ""
    deploy("ask", version="2", migrate_state=lambda state, version: state["gone"])
    assert "migrate_state failed from version '1' to version '2': KeyError" in preflight()[0]
    Run.objects.filter(pk=run.id).update(options={"pinned": True})
    deploy("ask", version="2")
    assert "pinned to version '1' of graph 'deployed', which is not registered" in preflight()[0]
    deploy("ask", version="1", pin=True)
    assert preflight()[1] == ""


@pytest.mark.parametrize("shape", ["plain", "fan", "below", "joined"])
def test_preflight_report_from_export_equals_report_from_database_and_export_has_no_values(
    deploy: Any, tmp_path: Path, shape: str, django_db_blocker: Any
) -> None:
    deploy("ask", shape=shape)
    with GraphEnvironment() as hitl:
        hitl.start("deployed", {"answer": ["secret"]})
        hitl.start("steps", {"log": []})
    export = str(tmp_path / "structures.jsonl")
    assert re.fullmatch(
        "Exported (1 active run|2 active runs)\\.\n", preflight("--export", export)[0]
    )
    assert "secret" not in Path(export).read_text()
    refused = []
    for node, renamed in (("ask", {}), ("review", {"ask": "review"}), ("review", {})):
        deploy(node, shape=shape, renamed=renamed)
        from_database = preflight()
        with django_db_blocker.block():
            from_export = preflight("--structures", export)
        assert from_export == from_database
        refused.append(bool(from_export[1]))
    assert refused == [False, False, True]


def test_preflight_from_export_reports_changed_state_type_as_unknown(
    deploy: Any, tmp_path: Path
) -> None:
    deploy("ask")
    with GraphEnvironment() as hitl:
        hitl.start("deployed", {"answer": 1})
    export = str(tmp_path / "structures.jsonl")
    preflight("--export", export)

    class Numbered(TypedDict, total=False):
        answer: int

    deploy("ask", state=Numbered)
    assert preflight()[1] == ""
    assert "answer' changed from" in preflight("--structures", export)[0]
    assert "isn't in the export" in preflight("--structures", export)[0]


def test_preflight_with_invalid_export_or_conflicting_options_raises_command_error(
    tmp_path: Path,
) -> None:
    wrong = tmp_path / "wrong"
    wrong.write_text('{"kind": "run"}\n')
    assert preflight("--structures", str(wrong))[1].startswith("line 1 is not a valid export: ")
    assert preflight("--structures", str(tmp_path / "none"))[1].startswith("Can't open ")
    assert (
        "--export and --structures can't be combined."
        in preflight("--structures", "a", "--export", "b")[1]
    )


def test_retry_command_queues_parked_runs_up_to_the_limit(deploy: Any) -> None:
    deploy("ask")
    with GraphEnvironment() as hitl:
        runs = [hitl.start("deployed", {}) for _ in range(3)]
        Run.objects.filter(pk__in=[run.id for run in runs]).update(state="parked", error="x")
        said = retry("--state", "parked", "--graph", "deployed", "--limit", "2")
        assert said == ("2 runs queued.\n", "")
        assert Run.objects.filter(state="queued").count() == 2
        said = retry("--state", "parked", "--json")
        assert json.loads(said[0]) == {"run": str(runs[2].id), "error": None}
        assert retry("--state", "failed")[0] == "0 runs queued.\n"


def test_retry_command_names_a_run_that_cannot_be_retried(
    deploy: Any, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    gone = uuid4()
    monkeypatch.setattr(services, "list_retryable", lambda *args, **options: iter([gone]))
    said, failure = retry("--state", "parked")
    assert said == "0 runs queued.\n"
    assert failure == "1 run could not be queued."
    assert str(gone) in capsys.readouterr().err
