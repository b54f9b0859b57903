"""Agents of Pydantic AI as graphs: approvals, replies, stored model calls and streaming."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest
from django.contrib.auth.models import Group
from pydantic_ai import (
    Agent,
    CallDeferred,
    ModelMessage,
    ModelResponse,
    RetryPromptPart,
    RunContext,
    TextPart,
    ToolCallPart,
    ToolReturnPart,
    UserPromptPart,
)
from pydantic_ai.models.function import AgentInfo, DeltaToolCall, FunctionModel
from pydantic_ai.models.test import TestModel

from hitl_django import decide, interrupt, start, transact
from hitl_django.contrib.pydantic_ai import register_agent
from hitl_django.engine.errors import InvalidAnswerError
from hitl_django.models import Run, RunEvent
from hitl_django.services import run_result

from .pending import list_pending

# Tools run on other OS threads, which don't see uncommitted rows.
pytestmark = pytest.mark.django_db(transaction=True)

GIVEN = {"messages": [{"role": "user", "content": "Pay them."}]}


class ScriptedModel:
    """Model that first makes tool calls and then repeats the results of the calls."""

    def __init__(self, *calls: tuple[str, dict[str, Any]]) -> None:
        self.parts = [
            ToolCallPart(name, args, tool_call_id=f"call-{number}")
            for number, (name, args) in enumerate(calls)
        ]
        self.count = 0

    def __call__(self, messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        self.count += 1
        results = [
            f"{part.tool_name}: {part.content}"
            for message in messages
            for part in message.parts
            if isinstance(part, ToolReturnPart | RetryPromptPart)
        ]
        if not results:
            return ModelResponse(parts=self.parts)
        prompts = [p for m in messages for p in m.parts if isinstance(p, UserPromptPart)]
        return ModelResponse(parts=[TextPart(f"{len(prompts)} prompts; " + "; ".join(results))])


def pay(to: str, cents: int) -> str:
    return f"paid {to} {cents}"


def test_each_approval_request_of_an_agent_turn_is_decided_separately(
    advance: Callable[[], int],
) -> None:
    model = ScriptedModel(*(("pay", {"to": to, "cents": 300}) for to in "abcd"))
    agent = Agent(FunctionModel(model))
    agent.tool_plain(requires_approval=True)(pay)
    register_agent("payer", agent)
    run = start("payer", GIVEN)
    advance()

    first, second, third, last = list_pending(run)
    assert first.dialect == "hitl_request"
    assert first.title == "Pay: a, amount 3.00"
    with pytest.raises(InvalidAnswerError):
        decide(second.pk, "edit", {"name": "pay", "args": {"to": "eve", "cents": "many"}})
    with pytest.raises(InvalidAnswerError):
        decide(second.pk, "edit", {"name": "steal", "args": {"to": "eve", "cents": 1}})
    decide(last.pk, "respond", "paid by hand")
    decide(second.pk, "edit", {"name": "pay", "args": {"to": "eve", "cents": 1}})
    decide(third.pk, "reject", "too late")
    advance()
    assert model.count == 1
    decide(first.pk, "approve")
    advance()

    result = run_result(run.id)
    told = "pay: paid a 300; pay: paid eve 1; pay: too late; pay: paid by hand"
    assert result["output"] == f"1 prompts; {told}"
    assert [(m["type"], m["content"]) for m in result["messages"]][-2:] == [
        ("tool", "paid by hand"),
        ("ai", result["output"]),
    ]
    assert model.count == 2


def test_external_tool_call_takes_a_reply_or_a_rejection(advance: Callable[[], int]) -> None:
    agent = Agent(FunctionModel(ScriptedModel(("ask", {"text": "when?"}), ("ask", {"text": "?"}))))

    @agent.tool_plain
    def ask(text: str) -> str:
        raise CallDeferred

    register_agent("asker", agent)
    run = start("asker", GIVEN)
    advance()
    first, second = list_pending(run)
    with pytest.raises(InvalidAnswerError):
        decide(first.pk, "approve")
    decide(first.pk, "respond", "on Friday")
    decide(second.pk, "reject", "unclear")
    advance()
    assert run_result(run.id)["output"] == "1 prompts; ask: on Friday; ask: unclear"


def test_new_message_continues_the_conversation(advance: Callable[[], int]) -> None:
    agent = Agent(FunctionModel(ScriptedModel(("pay", {"to": "a", "cents": 1}))))
    agent.tool_plain(requires_approval=True)(pay)
    register_agent("payer", agent)
    run = start("payer", GIVEN)
    advance()
    again = {"messages": [{"role": "user", "content": "Stop."}]}
    run = start("payer", again, thread_id=run.thread_id, on_pending="discard")
    advance()
    assert run_result(run.id)["output"] == (
        "2 prompts; pay: Not decided, because the user sent a new message."
    )
    run = start("payer", again, thread_id=run.thread_id)
    advance()
    assert run_result(run.id)["output"].startswith("3 prompts; ")


def test_resumed_tool_repeats_neither_chat_model_calls_nor_transactions(
    advance: Callable[[], int],
) -> None:
    model = ScriptedModel(("create_group", {"name": "payers"}))
    agent = Agent(FunctionModel(model), deps_type=str)

    @agent.tool
    def create_group(context: RunContext[str], name: str) -> str:
        group = transact("group", lambda: Group.objects.create(name=name).pk)
        approved = interrupt({"group": group, "by": context.deps})
        return f"{Group.objects.get(pk=group).name}, {approved}"

    register_agent("grouper", agent, deps=lambda: "ann")
    run = start("grouper", GIVEN)
    advance()
    (pending,) = list_pending(run)
    assert pending.payload["by"] == "ann"
    decide(pending.pk, "approve")
    advance()
    assert run_result(run.id)["output"] == "1 prompts; create_group: payers, True"
    assert model.count == 2


def test_text_of_the_chat_model_is_stored_as_message_events(
    advance: Callable[[], int],
) -> None:
    async def stream(
        messages: list[ModelMessage], info: AgentInfo
    ) -> AsyncIterator[str | dict[int, DeltaToolCall]]:
        if len(messages) == 1:
            yield "I will "
            yield "look."
            yield {0: DeltaToolCall("look", "{}", tool_call_id="call-0")}
        else:
            yield "All "
            yield "good."

    agent = Agent(FunctionModel(stream_function=stream))

    @agent.tool_plain
    def look() -> str:
        return "seen"

    register_agent("looker", agent, events=["messages"])
    run = start("looker", GIVEN)
    advance()
    result = run_result(run.id)
    assert result["output"] == "All good."
    events = RunEvent.objects.filter(run=run.id, kind="messages").order_by("seq")
    said: dict[str, str] = {}
    for event in events:
        message = event.data[0]
        if message["type"].lower().startswith("ai"):
            said[message["id"]] = said.get(message["id"], "") + message["content"]
    assert said == {m["id"]: m["content"] for m in result["messages"] if m["type"] == "ai"}


def test_agent_with_output_type_returns_json(advance: Callable[[], int]) -> None:
    agent = Agent(TestModel(custom_output_args=[1, 2]), output_type=list[int])
    register_agent("counter", agent)
    run = start("counter", GIVEN)
    advance()
    assert run_result(run.id)["output"] == [1, 2]


def test_run_without_new_message_of_the_user_fails(advance: Callable[[], int]) -> None:
    register_agent("idle", Agent(TestModel()))
    run = start("idle", {"messages": [{"role": "assistant", "content": "Hello."}]})
    advance()
    assert "must be a message of the user" in Run.objects.get(pk=run.id).error
