"""The MCP server: questions of agents, and decisions of reviewers' assistants."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from asgiref.sync import async_to_sync, sync_to_async
from django.contrib.auth import get_user_model
from django.contrib.auth.models import Permission
from mcp.client import Client

from hitl_django import services
from hitl_django.contrib.mcp import server as mcp_server
from hitl_django.contrib.mcp.server import build_server
from hitl_django.models import AuditEntry, Interrupt

# The server closes old connections, as Django does after a request, so tests can't run in one
# transaction.
pytestmark = pytest.mark.django_db(transaction=True)

#: A reviewer's decision, made when the agent's program reports that it waits.
Decide = Callable[[Interrupt], Any]


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch, settings: Any) -> None:
    monkeypatch.setattr(mcp_server, "PROGRESS_SECONDS", 0.01)
    settings.HITL = {"UNDO_SECONDS": 0}


def make_user(name: str, *permissions: str) -> Any:
    user = get_user_model().objects.create_user(name)
    user.user_permissions.set(Permission.objects.filter(codename__in=permissions))
    return user


@pytest.fixture
def agent() -> Any:
    return make_user("agent", "add_interrupt")


@pytest.fixture
def reviewer() -> Any:
    return make_user("rita", "view_interrupt", "decide_interrupt")


def call(tools: Any, user: Any, name: str, decide: Decide | None = None, **arguments: Any) -> Any:
    """Call a tool over the protocol, and return its structured result."""

    async def use(client: Client) -> Any:
        async def report(progress: float, total: float | None, message: str | None) -> None:
            def run() -> None:
                interrupt = Interrupt.objects.get()
                if decide is not None and interrupt.status == Interrupt.Status.PENDING:
                    decide(interrupt)

            await sync_to_async(run)()

        return await client.call_tool(name, arguments, progress_callback=report)

    result = with_client(tools, user, use)
    assert not result.is_error, result.content
    content = result.structured_content
    return content.get("result", content) if content else content


def with_client(tools: Any, user: Any, use: Callable[[Client], Awaitable[Any]]) -> Any:
    async def run() -> Any:
        async with Client(build_server(tools, user)) as client:
            return await use(client)

    return async_to_sync(run)()


def fail(tools: Any, user: Any, name: str, **arguments: Any) -> str:
    result = with_client(tools, user, lambda client: client.call_tool(name, arguments))
    assert result.is_error
    return str(result.content[0].text)


def test_approval_tool_waits_and_returns_the_arguments_edited_by_the_reviewer(
    agent: Any, reviewer: Any
) -> None:
    def edit(interrupt: Interrupt) -> None:
        action = {"name": "refund", "args": {"cents": 900}}
        services.decide(interrupt.pk, "edit", action, by=reviewer)

    answer = call(
        "ask", agent, "request_approval", edit, action="refund", arguments={"cents": 9900}
    )
    assert (answer["status"], answer["decision"], answer["by"]) == ("decided", "edit", "rita")
    assert (answer["action"], answer["arguments"]) == ("refund", {"cents": 900})


def test_approval_tool_returns_the_reason_of_a_rejection(agent: Any, reviewer: Any) -> None:
    def reject(interrupt: Interrupt) -> None:
        services.decide(interrupt.pk, "reject", by=reviewer, reason="Too much.")

    answer = call("ask", agent, "request_approval", reject, action="refund", arguments={"cents": 1})
    assert (answer["decision"], answer["reason"]) == ("reject", "Too much.")


def test_question_tool_returns_a_response_that_matches_its_schema(
    agent: Any, reviewer: Any
) -> None:
    def respond(interrupt: Interrupt) -> None:
        services.decide(interrupt.pk, "respond", {"color": "red"}, by=reviewer)

    schema = {"type": "object", "properties": {"color": {"type": "string"}}}
    answer = call(
        "ask", agent, "ask_human", respond, question="Which color?", response_schema=schema
    )
    assert answer["response"] == {"color": "red"}
    assert Interrupt.objects.get().title == "Which color?"


def test_question_tool_returns_the_same_pending_request_for_a_repeated_key(agent: Any) -> None:
    arguments: dict[str, Any] = {"question": "Ready?", "key": "q:1", "wait_seconds": 0}
    first = call("ask", agent, "ask_human", **arguments)
    assert first["status"] == "pending"
    assert call("ask", agent, "ask_human", **arguments) == first
    assert call("ask", agent, "get_answer", request_id=first["id"]) == first

    call("ask", agent, "withdraw", request_id=first["id"])
    assert call("ask", agent, "get_answer", request_id=first["id"])["status"] == "cancelled"


def test_review_tools_list_show_and_decide_requests_as_the_user(agent: Any, reviewer: Any) -> None:
    asked = services.ask({"city": "Bern"}, title="Ship?", by=agent)
    [listed] = call("review", reviewer, "list_requests")
    assert (listed["id"], listed["title"]) == (str(asked.id), "Ship?")
    shown = call("review", reviewer, "get_request", request_id=listed["id"])
    assert shown["payload"] == {"city": "Bern"}

    decided = call(
        "review",
        reviewer,
        "decide_request",
        request_id=listed["id"],
        digest=shown["digest"],
        decision="approve",
    )
    assert decided["complete"]
    entry = AuditEntry.objects.get(verb="decide")
    assert (entry.actor_label, entry.via) == ("rita", "mcp")


def test_mcp_tool_call_without_permission_returns_error_naming_the_permission(
    agent: Any, reviewer: Any
) -> None:
    asked = services.ask({"city": "Bern"}, by=agent)
    stranger = make_user("stan")
    assert "permission" in fail("ask", stranger, "ask_human", question="Hello?")
    assert call("review", stranger, "list_requests") == []
    for id_ in (str(asked.id), "nonsense"):
        assert "not found" in fail("review", stranger, "get_request", request_id=id_)
    outdated = fail(
        "review",
        reviewer,
        "decide_request",
        request_id=str(asked.id),
        digest="0",
        decision="approve",
    )
    assert "changed" in outdated
    assert Interrupt.objects.get().status == "pending"
