"""Graphs over HTTP: descriptions, diagrams and permissions."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any
from xml.etree import ElementTree

import pytest
from django.contrib.auth.models import Group
from django.db import connection
from django.test.utils import CaptureQueriesContext

from hitl_django import services, testing
from hitl_django.graph_registry import registry
from hitl_django.models import Checkpoint, Interrupt, Run
from hitl_django.permissions import ModelPermissionPolicy
from tests import graphs

from .conftest import API

pytestmark = pytest.mark.django_db


class NoInvoices(ModelPermissionPolicy):
    """A project's policy that hides one graph from users who may not start it."""

    def visible_runs(self, user: Any, runs: Any) -> Any:
        return super().visible_runs(user, runs).exclude(graph="invoice")

    def visible_interrupts(self, user: Any, interrupts: Any) -> Any:
        return super().visible_interrupts(user, interrupts).exclude(graph="invoice")


def test_graph_detail_contains_input_and_output_schemas_and_diagram(api: Any, invoice: str) -> None:
    graph = api.get("graph", invoice).json()
    assert graph["input_schema"]["properties"]["amount"]["type"] == "integer"
    assert "answer" in graph["output_schema"]["properties"]
    assert graph["durability"] == "sync"
    assert graph["mermaid"].startswith("flowchart TD\n")
    assert "ask" in graph["mermaid"]
    assert api.client.get(graph["diagram"])["Content-Type"] == "image/svg+xml"


def test_unbuildable_graph_returns_409_with_code_graph_broken_and_other_graphs_are_listed(
    api: Any, invoice: str, asked: Any, make_user: Any
) -> None:
    interrupt = asked()

    def build() -> Any:
        raise LookupError("no key in the vault")

    registry.unregister(invoice)  # the version deployed before
    how = {"version": "4", "title": "Pay an invoice", "durability": "exit"}
    registry.register(invoice, **how)(build)
    try:
        listed = {graph["name"]: graph for graph in api.get("graphs").json()["results"]}
        broken = listed.pop(invoice)
        assert listed
        assert not [graph for graph in listed.values() if graph["fault"] is not None]
        assert broken["durability"] == "exit"
        assert (broken["version"], broken["title"]) == ("4", "Pay an invoice")
        assert (broken["fingerprint"], broken["input_schema"]) == (None, None)
        assert broken["fault"] == "LookupError: no key in the vault"
        for graph in API(make_user("start_run")).get("graphs").json()["results"]:
            assert "vault" not in str(graph["fault"])
        for refused in (
            api.get("graph", invoice),
            api.get("graph-diagram", invoice),
            api.post("runs", body={"graph": invoice, "input": {"amount": 1}}),
            api.get("thread-state", interrupt.thread.thread_id),
        ):
            assert (refused.status_code, refused.json()["code"]) == (409, "graph_broken")
            assert "vault" not in refused.json()["detail"]
        assert api.get("run", interrupt.run_id).status_code == 200
    finally:
        registry.unregister(invoice)


def names(api: Any) -> list[str]:
    return [graph["name"] for graph in api.get("graphs").json()["results"]]


@pytest.mark.promise("P18")
def test_graph_becomes_visible_with_a_visible_run_or_interrupt(
    make_user: Any, make_interrupt: Any, invoice: str
) -> None:
    readers = [API(make_user(permission)) for permission in ("view_run", "view_interrupt")]
    for reader in readers:
        assert invoice not in names(reader)
        assert reader.get("graph", invoice).status_code == 404
    make_interrupt()
    for reader in readers:
        assert invoice in names(reader)
        assert reader.get("graph", invoice).status_code == 200
    assert names(API(make_user("view_thread"))) == []


@pytest.mark.promise("P18")
def test_graph_whose_rows_are_hidden_by_policy_returns_404(
    as_role: Any, make_interrupt: Any, invoice: str, settings: Any
) -> None:
    make_interrupt()
    settings.HITL = {"POLICY": f"{__name__}.NoInvoices"}
    reviewer = as_role("reviewer")
    assert invoice not in names(reviewer)
    for name in ("graph", "graph-diagram"):
        assert reviewer.get(name, invoice).status_code == 404
        assert as_role("starter").get(name, invoice).status_code == 200


@pytest.fixture
def of_some() -> Iterator[None]:
    registry.register("for support", startable_by=["support"])(graphs.approval)
    registry.register("for code", api=False)(graphs.approval)
    yield
    for name in ("for support", "for code"):
        registry.unregister(name)


@pytest.mark.promise("P18")
@pytest.mark.usefixtures("of_some")
def test_graph_startable_by_groups_is_started_by_members_and_returns_403_to_other_users(
    make_user: Any,
) -> None:
    member = make_user()
    member.groups.add(Group.objects.create(name="support"))
    body = {"graph": "for support", "input": {"text": "x"}}
    assert API(member).post("runs", body=body).status_code == 202
    assert names(API(member)) == ["for support"]
    assert API(member).get("graph", "for support").json()["may_start"] is True

    other = API(make_user("start_run", "view_run"))
    refused = other.post("runs", body=body)
    assert (refused.status_code, refused.json()["code"]) == (403, "permission_denied")
    listed = {graph["name"]: graph for graph in other.get("graphs").json()["results"]}
    assert listed["for support"]["may_start"] is False  # the user can view a run of this graph
    assert listed["approval"]["may_start"] is True


@pytest.mark.promise("P18")
@pytest.mark.usefixtures("of_some")
def test_graph_closed_to_api_cannot_be_started_or_forked_and_its_interrupts_can_be_decided(
    make_user: Any, api: Any
) -> None:
    body = {"graph": "for code", "input": {"text": "x"}}
    for somebody in (API(make_user("start_run")), api):
        assert "for code" not in names(somebody)
        refused = somebody.post("runs", body=body)
        assert (refused.status_code, refused.json()["code"]) == (403, "permission_denied")
        assert somebody.get("graph", "for code").status_code == 404
    assert not Run.objects.exists()

    with testing.inline() as advance:
        run = services.start("for code", {"text": "x"}, by=make_user(), skip_permission_checks=True)
        advance()
        interrupt = Interrupt.objects.get(run_id=run.id)
        decided = api.post("decisions", interrupt.pk, body={"type": "approve"})
        assert decided.status_code == 202
        advance()
    assert api.get("graph", "for code").json()["may_start"] is False
    checkpoint = Checkpoint.objects.filter(thread__thread_id=run.thread_id).latest("checkpoint_id")
    fork = {"checkpoint": checkpoint.checkpoint_id, "values": {"text": "y"}}
    assert api.post("thread-fork", run.thread_id, body=fork).status_code == 403


def test_graph_list_query_count_is_constant_for_one_and_six_interrupts(
    as_role: Any, make_interrupt: Any, invoice: str
) -> None:
    reviewer = as_role("reviewer")
    counts = set()
    for rows in (1, 5):
        for _ in range(rows):
            make_interrupt()
        with CaptureQueriesContext(connection) as queries:
            names(reviewer)
        counts.add(len(queries))
    assert len(counts) == 1


def test_graph_diagram_is_sandboxed_svg_without_scripts(api: Any, invoice: str) -> None:
    response = api.get("graph-diagram", invoice)
    assert response["Content-Security-Policy"] == "default-src 'none'; sandbox"
    assert response["X-Content-Type-Options"] == "nosniff"
    assert response["Cache-Control"] == "private, no-cache"
    root = ElementTree.fromstring(response.content)
    assert root.tag == "{http://www.w3.org/2000/svg}svg"
    assert "script" not in response.content.decode()


def test_graph_diagram_with_thread_parameter_marks_the_paused_node(
    api: Any, asked: Any, invoice: str
) -> None:
    thread_id = asked().thread.thread_id
    drawn = api.get("graph-diagram", invoice, query=f"thread={thread_id}").content.decode()
    assert "paused" in drawn
    assert "paused" not in api.get("graph-diagram", invoice).content.decode()


@pytest.mark.promise("P18")
def test_graph_diagram_with_thread_of_other_graph_or_hidden_thread_returns_404(
    api: Any, as_role: Any, make_run: Any, asked: Any, invoice: str
) -> None:
    other = make_run(graph="letter", state=Run.State.SUCCEEDED).thread.thread_id
    ours = asked().thread.thread_id
    for client, thread_id in ((api, other), (api, "nothing"), (as_role("starter"), ours)):
        response = client.get("graph-diagram", invoice, query=f"thread={thread_id}")
        assert response.status_code == 404
    assert Interrupt.objects.count() == 1
