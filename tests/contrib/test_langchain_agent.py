"""A LangChain agent as a node, with the middleware's requests in the review queue."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from django.contrib.auth import get_user_model
from django.test import Client
from django.urls import reverse
from langchain.agents import create_agent
from langchain.agents.middleware import HumanInTheLoopMiddleware
from langchain_core.language_models.fake_chat_models import GenericFakeChatModel
from langchain_core.messages import AIMessage
from langchain_core.tools import tool

from hitl_django import START, StateGraph, decide, register, start, testing
from hitl_django.engine.state.messages import MessagesState
from hitl_django.graph_registry import registry
from hitl_django.models import Interrupt, Run
from tests.reading import values_of

pytestmark = [pytest.mark.django_db, pytest.mark.filterwarnings("ignore")]

sent: list[str] = []


@tool
def send_mail(to: str, text: str) -> str:
    """Send a mail."""
    sent.append(f"{to}: {text}")
    return f"sent to {to}"


@tool
def look_up(name: str) -> str:
    """Look an address up."""
    return f"{name}@example.org"


class Model(GenericFakeChatModel):
    """A chat model that says what it is told to; tools are bound by taking note of nothing."""

    def bind_tools(self, tools: Any, **options: Any) -> Model:
        return self


def call(tool: str, number: int, /, **args: Any) -> AIMessage:
    calls = [{"name": tool, "args": args, "id": f"call-{number}", "type": "tool_call"}]
    return AIMessage("", tool_calls=calls)


@pytest.fixture
def text() -> str:
    return "Hello"


@pytest.fixture(autouse=True)
def agent(text: str) -> Iterator[None]:
    """Register a graph whose one node is an agent that looks an address up and send a mail."""
    sent.clear()
    said = [
        call("look_up", 1, name="ann"),
        call("send_mail", 2, to="ann@example.org", text=text),
        AIMessage("Done."),
    ]
    middleware = HumanInTheLoopMiddleware(interrupt_on={"send_mail": True})
    graph = StateGraph(MessagesState).add_edge(START, "agent")
    graph.add_node(
        "agent",
        create_agent(
            Model(messages=iter(said)), tools=[send_mail, look_up], middleware=[middleware]
        ),
    )
    register("mailer")(lambda: graph)
    yield
    registry.unregister("mailer")


def read_messages(run: Any) -> list[tuple[str, str]]:
    found = Run.objects.get(pk=run.id)
    assert found.state == "succeeded", found.error
    return [(message.type, message.text) for message in values_of(found.thread)["messages"]]


@pytest.mark.parametrize("text", ["Hel\0lo"])
def test_langchain_tool_call_with_nul_is_shown_escaped_and_executed_unchanged(text: str) -> None:
    with testing.inline() as advance:
        run = start("mailer", {"messages": [{"role": "user", "content": "Greet Ann"}]})
        advance()
        interrupt = Interrupt.objects.get(run=run.id)
        assert interrupt.payload["action_requests"][0]["args"]["text"] == "Hel\\x00lo"
        assert interrupt.dialect == "hitl_request"
        decide(interrupt.pk, "approve")
        advance()
    assert sent == [f"ann@example.org: {text}"]


def test_langchain_tool_call_is_executed_after_approval() -> None:
    with testing.inline() as advance:
        run = start("mailer", {"messages": [{"role": "user", "content": "Greet Ann"}]})
        advance()
        interrupt = Interrupt.objects.get(run=run.id)
        assert (interrupt.title, interrupt.dialect) == (
            "Send mail: ann@example.org",
            "hitl_request",
        )
        assert interrupt.allowed_decisions == ["approve", "edit", "reject", "respond"]
        assert sent == []
        decide(interrupt.pk, "approve")
        advance()
    assert sent == ["ann@example.org: Hello"]
    assert read_messages(run) == [
        ("human", "Greet Ann"),
        ("ai", ""),
        ("tool", "ann@example.org"),
        ("ai", ""),
        ("tool", "sent to ann@example.org"),
        ("ai", "Done."),
    ]


def test_langchain_tool_call_edited_by_reviewer_is_executed_with_edited_arguments() -> None:
    with testing.inline() as advance:
        run = start("mailer", {"messages": "Greet Ann"})
        advance()
        interrupt = Interrupt.objects.get(run=run.id)
        action = {"name": "send_mail", "args": {"to": "bob@example.org", "text": "Hi"}}
        answer = {"decisions": [{"type": "edit", "edited_action": action}]}
        decide(interrupt.pk, resume=answer)
        advance()
    assert sent == ["bob@example.org: Hi"]
    (kind, result), last = read_messages(run)[-2:]
    assert (kind, last) == ("tool", ("ai", "Done."))
    assert result.endswith("sent to bob@example.org")


def test_langchain_tool_call_rejected_over_the_api_is_not_executed() -> None:
    reviewer = get_user_model().objects.create_superuser("rita")
    client = Client()
    client.force_login(reviewer)
    with testing.inline() as advance:
        run = start("mailer", {"messages": "Greet Ann"})
        advance()
        interrupt = Interrupt.objects.get(run=run.id)
        here = reverse("hitl_django:interrupt", args=[interrupt.pk])
        said = client.post(
            reverse("hitl_django:decisions", args=[interrupt.pk]),
            {"type": "reject", "reason": "Ann has left."},
            content_type="application/json",
            headers={"If-Match": client.get(here)["ETag"]},
        )
        assert said.status_code == 202, said.content
        advance()
    assert sent == []
    messages = read_messages(run)
    assert any(kind == "tool" and "Ann has left." in text for kind, text in messages)
    assert messages[-1] == ("ai", "Done.")
