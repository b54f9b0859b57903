"""NUL characters in the state and in displayed values."""

from __future__ import annotations

from typing import Any, TypedDict

import pytest

from hitl_django import START, StateGraph, interrupt, services
from hitl_django.graph_registry import registry
from hitl_django.models import Interrupt, Run, RunEvent
from hitl_django.testing import inline


class Texts(TypedDict, total=False):
    text: str
    longer: str


def ask(state: Texts) -> dict[str, Any]:
    return {"longer": state["text"] + interrupt({"title": "Go on?"})}


@pytest.mark.promise("P14")
@pytest.mark.django_db(transaction=True)
def test_nul_character_in_state_is_stored_and_escaped_in_events_admin_and_api(
    admin_client: Any,
) -> None:
    registry.register("texts")(lambda: StateGraph(Texts).add_node(ask).add_edge(START, "ask"))
    with inline() as advance:
        run = services.start("texts", {"text": "a\0b"}, events=("values", "updates"))
        advance()
        services.decide(Interrupt.objects.get(run_id=run.id).pk, "respond", "c")
        advance()
    assert Run.objects.get(pk=run.id).state == "succeeded"
    assert services.run_result(run.id) == {"text": "a\0b", "longer": "a\0bc"}
    shown = RunEvent.objects.filter(run=run.id, kind="updates").latest("seq")
    assert shown.data == {"ask": {"longer": "a\\u0000bc"}}
    for page in (f"/admin/hitl_django/run/{run.id}/change/", f"/hitl/api/v1/runs/{run.id}/events/"):
        found = admin_client.get(page)
        assert found.status_code == 200
        assert b"\0" not in found.content
