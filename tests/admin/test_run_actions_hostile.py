"""Escaping of untrusted text on the pages for operators."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypedDict

import pytest
from django.test import Client
from django.urls import reverse

from hitl_django import END, START, StateGraph, interrupt, services
from hitl_django.graph_registry import registry
from hitl_django.models import ChannelBlob, Checkpoint, PendingWrite, Run

from .conftest import page_of
from .test_hostile import TEXTS, assert_inert

pytestmark = [pytest.mark.promise("P19"), pytest.mark.any_database]


class State(TypedDict, total=False):
    text: str


@pytest.mark.parametrize("text", TEXTS)
def test_operator_pages_escape_hostile_node_names_payloads_and_entered_values(
    text: str, browse: Callable[[str], Client], advance: Callable[[], int]
) -> None:
    name = text.replace("|", "").replace(":", "")

    def ask(state: State) -> State:
        interrupt(text)
        return {"text": text}

    padding = " " * 50  # so that the value has a separate row

    graph = (
        StateGraph(State)
        .add_node("first", lambda state: {"text": text + padding})
        .add_node(name, ask)
    )
    graph.add_edge(START, "first")
    graph.add_conditional_edges("first", lambda state: text, {text: name, "no": END})
    registry.register("hostile", version="1")(lambda: graph)
    try:
        info = services.start("hostile", {"text": text})
        advance()
        Run.objects.update(
            error=text, traceback=text, started_by_label=text, graph_version=text[:50]
        )
        client = browse("engineer")
        newest = Checkpoint.objects.filter(ns="").order_by("-checkpoint_id")[0]
        at = newest.checkpoint_id
        thread = Run.objects.get().thread_id
        for url in (
            page_of(info.id, "run"),
            page_of(thread, "thread"),
            reverse("admin:hitl_django_run_cancel", args=[info.id]),
            reverse("admin:hitl_django_run_fork", args=[info.id, at]),
            page_of(newest.pk, "checkpoint"),
            page_of(ChannelBlob.objects.all()[0].pk, "channelblob"),
            page_of(PendingWrite.objects.all()[0].pk, "pendingwrite"),
        ):
            response: Any = client.get(url)
            assert response.status_code == 200
            assert_inert(response.content.decode())
        given = {"as_node": "", "values": text, "reason": text}
        refused: Any = client.post(reverse("admin:hitl_django_run_fork", args=[info.id, at]), given)
        assert_inert(refused.content.decode())
    finally:
        registry.unregister("hostile")
