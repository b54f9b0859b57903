"""Interrupts of a restricted graph, hidden from other users in all data of the engine."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any, TypedDict

import pytest
from django.contrib.auth import get_user_model
from django.contrib.auth.models import Group, Permission
from django.test import Client

from hitl_django import END, START, StateGraph, interrupt, services, testing
from hitl_django.graph_registry import registry
from hitl_django.graph_registry.registry import ReviewPolicy
from hitl_django.models import Checkpoint, Interrupt, PendingWrite, Run
from hitl_django.models.events import MODES, SUBGRAPHS
from hitl_django.services.runs.shown_interrupts import ShownInterrupts

from .people import EVERY

pytestmark = pytest.mark.django_db

SECRETS = ("zqtitleqz", "zqpayloadqz", "zqschemaqz")
SCHEMA = {"type": "object", "properties": {"zqschemaqz": {"type": "string"}}}


class State(TypedDict, total=False):
    name: str
    answer: Any


def ask(state: State) -> State:
    payload = {"title": "zqtitleqz", "text": "zqpayloadqz"}
    return {"answer": interrupt(payload, response_schema=SCHEMA)}


def build() -> StateGraph:
    inner = StateGraph(State).add_node("ask", ask).add_edge(START, "ask").add_edge("ask", END)
    graph = StateGraph(State).add_node("ask", ask).add_node("inner", inner.compile())
    graph.add_node("plain", lambda state: {"name": "went on"})
    graph.add_edge(START, "plain").add_edge("plain", "ask").add_edge("plain", "inner")
    return graph.add_edge("ask", END).add_edge("inner", END)


@pytest.fixture
def run() -> Iterator[Run]:
    with registry.hide_graphs():
        registry.register("vault", review=ReviewPolicy(groups=["keepers"]))(build)
        with testing.inline() as advance:
            started = services.start("vault", {"name": "n"}, events=[*MODES, SUBGRAPHS])
            advance()
        yield Run.objects.select_related("thread").get(pk=started.id)


@pytest.fixture
def read_all(run: Run) -> Callable[[Any], dict[str, str]]:
    """Return all responses with the engine's data of the run, by URL."""
    thread = run.thread.thread_id
    get = [
        f"/hitl/api/v1/threads/{thread}/state/",
        f"/hitl/api/v1/runs/{run.pk}/",
        f"/hitl/api/v1/runs/{run.pk}/events/",
        f"/agent/threads/{thread}",
        f"/agent/threads/{thread}/state",
        f"/agent/threads/{thread}/state?subgraphs=true",
        f"/agent/threads/{thread}/history",
        f"/agent/threads/{thread}/runs/{run.pk}/join",
        f"/agent/threads/{thread}/runs/{run.pk}/stream?stream_mode=values,updates,tasks,checkpoints",
        f"/admin/hitl_django/thread/{run.thread.pk}/change/",
        *(
            f"/admin/hitl_django/{row._meta.model_name}/{row.pk}/change/"
            for model in (Checkpoint, PendingWrite)
            for row in model.objects.all()
        ),
    ]
    post: dict[str, dict[str, Any]] = {
        "/agent/threads/search": {},
        f"/agent/threads/{thread}/history": {},
        f"/agent/threads/{thread}/state/checkpoint": {"checkpoint": {}, "subgraphs": True},
    }

    def read(user: Any) -> dict[str, str]:
        client = Client(headers={"Last-Event-ID": "-1"})
        client.force_login(user)
        found = {path: client.get(path) for path in get if "events" not in path}
        client = Client()
        client.force_login(user)
        found |= {path: client.get(path) for path in get if "events" in path}
        for path, body in post.items():
            found[f"POST {path}"] = client.post(
                path, json.dumps(body), content_type="application/json"
            )
        assert {response.status_code for response in found.values()} == {200}
        return {
            path: b"".join(response.streaming_content).decode()
            if response.streaming
            else response.content.decode()
            for path, response in found.items()
        }

    return read


def make_user(name: str, *groups: str) -> Any:
    user = get_user_model().objects.create_user(name, is_staff=True)
    user.user_permissions.set(Permission.objects.filter(codename__in=EVERY))
    user.groups.set([Group.objects.get_or_create(name=group)[0] for group in groups])
    return user


def test_interrupts_of_graph_reserved_for_groups_are_shown_to_these_groups_only(
    run: Run, read_all: Callable[[Any], dict[str, str]]
) -> None:
    assert Interrupt.objects.count() == 2
    keeper, outsider = read_all(make_user("kim", "keepers")), read_all(make_user("otto", "others"))
    leaks = {
        path: secret for path, text in outsider.items() for secret in SECRETS if secret in text
    }
    assert not leaks
    shown = {path for path, text in keeper.items() if "zqpayloadqz" in text}
    expected = [path for path in keeper if "/agent/" in path or "/events/" in path]
    assert shown.issuperset(expected)
    assert any("pendingwrite" in path or "checkpoint/" in path for path in shown)
    # The run's status and its state are visible.
    state = json.loads(outsider[f"/agent/threads/{run.thread.thread_id}/state"])
    assert (state["next"], state["interrupts"]) == (["ask", "inner"], [])
    assert state["values"] == {"name": "went on"}


def test_interrupt_in_state_without_database_row_is_hidden_from_group_members(
    run: Run, read_all: Callable[[Any], dict[str, str]]
) -> None:
    Interrupt.objects.all().delete()
    texts = read_all(make_user("kim", "keepers"))
    assert not [path for path, text in texts.items() if "zqpayloadqz" in text]
    assert "zqpayloadqz" in str(services.thread_state(run.thread.thread_id))


def test_stream_ends_with_interrupts_whose_rows_were_stored_after_their_event(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    client = Client(headers={"Last-Event-ID": "-1"})
    client.force_login(make_user("kim", "keepers"))
    monkeypatch.setattr(ShownInterrupts, "look_up", lambda *_: None)
    response = client.get(f"/agent/runs/{run.pk}/stream?stream_mode=values")
    sent = response.getvalue().decode().strip().split("\n\n")
    frames = [frame for frame in sent if not frame.startswith(":")]  # Without comments.
    assert frames[-1].startswith("event: end")
    assert "zqpayloadqz" in frames[-2]
    assert not [frame for frame in frames[:-2] if "zqpayloadqz" in frame]
