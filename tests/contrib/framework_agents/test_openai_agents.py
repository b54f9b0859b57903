"""Agents of OpenAI's Agents SDK as graphs: approvals, stored model calls and streaming."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from agents import Agent, RunContextWrapper, function_tool, set_tracing_disabled
from agents.testing import ScriptedModel, assistant_message, function_call
from django.contrib.auth.models import Group

from hitl_django import decide, interrupt, start, transact
from hitl_django.contrib.openai_agents import register_agent
from hitl_django.engine.errors import InvalidAnswerError
from hitl_django.models import RunEvent
from hitl_django.services import run_result

from .pending import list_pending

# Tools run on other OS threads, which don't see uncommitted rows.
pytestmark = pytest.mark.django_db(transaction=True)

GIVEN = {"messages": [{"role": "user", "content": "Pay them."}]}
set_tracing_disabled(True)


@function_tool(needs_approval=True)
def pay(to: str, cents: int) -> str:
    return f"paid {to} {cents}"


def build_calls(*names: str) -> list[Any]:
    return [function_call("pay", {"to": to, "cents": 300}, call_id=f"call-{to}") for to in names]


def list_tool_results(run: Any) -> list[str]:
    messages = run_result(run.id)["messages"]
    return [each["content"] for each in messages if each["type"] == "tool"]


def test_each_approval_request_of_an_agent_turn_is_decided_separately(
    advance: Callable[[], int],
) -> None:
    model = ScriptedModel([build_calls(*"abcd"), [assistant_message("Done.", item_id="1")]])
    register_agent("payer", Agent(name="payer", model=model, tools=[pay]))
    run = start("payer", GIVEN)
    advance()

    first, second, third, last = list_pending(run)
    assert first.title == "Pay: a, amount 3.00"
    with pytest.raises(InvalidAnswerError):
        decide(second.pk, "edit", {"name": "pay", "args": {"to": "eve", "cents": "many"}})
    decide(last.pk, "respond", "paid by hand")
    decide(second.pk, "edit", {"name": "pay", "args": {"to": "eve", "cents": 1}})
    decide(third.pk, "reject", "too late")
    advance()
    assert len(model.calls) == 1
    decide(first.pk, "approve")
    advance()

    result = run_result(run.id)
    assert result["output"] == "Done."
    assert sorted(list_tool_results(run)) == [
        "paid a 300", "paid by hand", "paid eve 1", "too late",
    ]  # fmt: skip
    assert [m["type"] for m in result["messages"]] == ["human", *["ai"] * 4, *["tool"] * 4, "ai"]
    assert len(model.calls) == 2


def test_new_message_continues_the_conversation(advance: Callable[[], int]) -> None:
    said = [[assistant_message(text, item_id=text)] for text in ("Stopped.", "Fine.")]
    model = ScriptedModel([build_calls("a"), *said])
    register_agent("payer", Agent(name="payer", model=model, tools=[pay]))
    run = start("payer", GIVEN)
    advance()
    again = {"messages": [{"role": "user", "content": "Stop."}]}
    run = start("payer", again, thread_id=run.thread_id, on_pending="discard")
    advance()
    assert run_result(run.id)["output"] == "Stopped."
    assert list_tool_results(run) == ["Not decided, because the user sent a new message."]
    run = start("payer", again, thread_id=run.thread_id)
    advance()
    assert run_result(run.id)["output"] == "Fine."
    assert str(model.calls[-1].input).count("Stop.") == 2


def test_resumed_tool_repeats_neither_chat_model_calls_nor_transactions(
    advance: Callable[[], int],
) -> None:
    @function_tool
    def create_group(context: RunContextWrapper[str], name: str) -> str:
        group = transact("group", lambda: Group.objects.create(name=name).pk)
        approved = interrupt({"group": group, "by": context.context})
        return f"{Group.objects.get(pk=group).name}, {approved}"

    call = function_call("create_group", {"name": "payers"}, call_id="call-1")
    model = ScriptedModel([[call], [assistant_message("Done.", item_id="1")]])
    agent = Agent[str](name="first", model=model, tools=[create_group])
    register_agent("grouper", agent, context=lambda: "ann")
    run = start("grouper", GIVEN)
    advance()
    (pending,) = list_pending(run)
    assert pending.payload["by"] == "ann"
    decide(pending.pk, "approve")
    advance()
    assert list_tool_results(run) == ["payers, True"]
    assert len(model.calls) == 2


def test_text_of_the_chat_model_is_stored_as_message_events(advance: Callable[[], int]) -> None:
    first = Agent(
        name="first",
        model=ScriptedModel([[function_call("transfer_to_second", {}, call_id="call-1")]]),
        handoffs=[
            Agent(name="second", model=ScriptedModel([[assistant_message("Good.", item_id="1")]]))
        ],
    )
    register_agent("talker", first, events=["messages"])
    run = start("talker", GIVEN)
    advance()
    result = run_result(run.id)
    assert result["output"] == "Good."
    events = RunEvent.objects.filter(run=run.id, kind="messages").order_by("seq")
    said = [event.data[0] for event in events]
    assert "".join(each["content"] for each in said if each["id"] == "1") == "Good."


def test_call_of_an_agent_that_is_a_tool_cannot_be_edited(advance: Callable[[], int]) -> None:
    inner = Agent(
        name="inner",
        model=ScriptedModel([build_calls("a"), [assistant_message("Ok.")]]),
        tools=[pay],
    )
    outer = ScriptedModel(
        [
            [function_call("inner", {"input": "Pay a."}, call_id="call-1")],
            [assistant_message("Done.")],
        ]
    )
    tool = inner.as_tool(tool_name="inner", tool_description="Pays.")
    register_agent("outer", Agent(name="outer", model=outer, tools=[tool]))
    run = start("outer", GIVEN)
    advance()
    (pending,) = list_pending(run)
    with pytest.raises(InvalidAnswerError):
        decide(pending.pk, "edit", {"name": "pay", "args": {"to": "eve", "cents": 1}})
    decide(pending.pk, "approve")
    advance()
    assert run_result(run.id)["output"] == "Done."
    assert list_tool_results(run) == ["Ok."]
