"""Agents of Google's ADK as graphs: confirmations, replies, stored model calls and streaming."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable
from typing import Any

import pytest
from django.contrib.auth.models import Group
from google.adk.agents import BaseAgent, InvocationContext, LlmAgent, ParallelAgent
from google.adk.apps import App, ResumabilityConfig
from google.adk.events import Event
from google.adk.models import BaseLlm, LlmRequest, LlmResponse
from google.adk.tools import FunctionTool, LongRunningFunctionTool, ToolContext
from google.genai.types import Content, Part
from pydantic import BaseModel, PrivateAttr

from hitl_django import decide, interrupt, start, transact
from hitl_django.contrib.google_adk import register_agent
from hitl_django.engine.errors import InvalidAnswerError
from hitl_django.models import Run, RunEvent
from hitl_django.services import run_result

from .pending import list_pending

# Tools run on other OS threads, which don't see uncommitted rows.
pytestmark = pytest.mark.django_db(transaction=True)

GIVEN = {"messages": [{"role": "user", "content": "Pay them."}]}


class ScriptedModel(BaseLlm):
    """Model with prepared responses, each as a list of parts."""

    model: str = "scripted"
    _responses: list[list[Part]] = PrivateAttr()
    _requests: list[LlmRequest] = PrivateAttr()

    def __init__(self, *responses: list[Part]) -> None:
        super().__init__()
        self._responses, self._requests = list(responses), []

    @property
    def requests(self) -> list[LlmRequest]:
        return self._requests

    async def generate_content_async(
        self,
        llm_request: LlmRequest,
        stream: bool = False,
    ) -> AsyncGenerator[LlmResponse, None]:
        self._requests.append(llm_request)
        parts = self._responses[len(self._requests) - 1]
        for part in parts if stream else ():
            for letter in part.text or "":
                content = Content(role="model", parts=[Part(text=letter)])
                yield LlmResponse(partial=True, content=content)
        yield LlmResponse(content=Content(role="model", parts=parts))


def build_call(tool: str, **args: Any) -> Part:
    return Part.from_function_call(name=tool, args=args)


def say(text: str) -> list[Part]:
    return [Part(text=text)]


def pay(to: str, cents: int) -> dict[str, str]:
    """Pay someone."""
    return {"paid": f"{to} {cents}"}


def build_payer(model: BaseLlm) -> LlmAgent:
    tool = FunctionTool(pay, require_confirmation=True)
    return LlmAgent(name="payer", model=model, tools=[tool])


def list_tool_results(run: Any) -> list[str]:
    messages = run_result(run.id)["messages"]
    return [each["content"] for each in messages if each["type"] == "tool"]


def test_each_approval_request_of_an_agent_turn_is_decided_separately(
    advance: Callable[[], int],
) -> None:
    calls = [build_call("pay", to=to, cents=300) for to in "abcd"]
    model = ScriptedModel(calls, say("Done."))
    register_agent("payer", build_payer(model))
    run = start("payer", GIVEN)
    advance()

    first, second, third, last = list_pending(run)
    assert first.dialect == "hitl_request"
    assert first.title == "Pay: a, amount 3.00"
    with pytest.raises(InvalidAnswerError):
        decide(second.pk, "edit", {"name": "pay", "args": {"to": "eve", "cents": "many"}})
    decide(last.pk, "respond", "paid by hand")
    decide(second.pk, "edit", {"name": "pay", "args": {"to": "eve", "cents": 1}})
    decide(third.pk, "reject", "too late")
    advance()
    assert len(model.requests) == 1
    decide(first.pk, "approve")
    advance()

    result = run_result(run.id)
    assert result["output"] == "Done."
    told = ['{"paid":"a 300"}', '{"paid":"eve 1"}', '{"error":"too late"}']
    assert list_tool_results(run) == [*told, '{"result":"paid by hand"}']
    assert [m["type"] for m in result["messages"]] == ["human", "ai", *["tool"] * 4, "ai"]
    assert len(model.requests) == 2
    results = [part.function_response for part in model.requests[1].contents[-1].parts or ()]
    assert [each.response for each in results if each] == [
        {"paid": "a 300"}, {"paid": "eve 1"}, {"error": "too late"}, {"result": "paid by hand"},
    ]  # fmt: skip


def test_long_running_tool_call_takes_a_reply_or_a_rejection(advance: Callable[[], int]) -> None:
    def ask(text: str) -> None:
        """Ask the boss."""

    model = ScriptedModel(
        [build_call("ask", text="when?"), build_call("ask", text="?")], say("Good.")
    )
    register_agent(
        "asker", LlmAgent(name="asker", model=model, tools=[LongRunningFunctionTool(ask)])
    )
    run = start("asker", GIVEN)
    advance()
    first, second = list_pending(run)
    with pytest.raises(InvalidAnswerError):
        decide(first.pk, "approve")
    decide(first.pk, "respond", "on Friday")
    decide(second.pk, "reject", "unclear")
    advance()
    assert run_result(run.id)["output"] == "Good."
    assert list_tool_results(run) == ['{"result":"on Friday"}', '{"error":"unclear"}']


def test_new_message_continues_the_conversation(advance: Callable[[], int]) -> None:
    model = ScriptedModel(
        [build_call("pay", to="a", cents=1)], say("I see."), say("Stopped."), say("Fine.")
    )
    register_agent("payer", build_payer(model))
    run = start("payer", GIVEN)
    advance()
    again = {"messages": [{"role": "user", "content": "Stop."}]}
    run = start("payer", again, thread_id=run.thread_id, on_pending="discard")
    advance()
    assert run_result(run.id)["output"] == "Stopped."
    (told,) = list_tool_results(run)
    assert "Not decided, because the user sent a new message." in told
    run = start("payer", again, thread_id=run.thread_id)
    advance()
    assert run_result(run.id)["output"] == "Fine."
    assert str(model.requests[-1].contents).count("Stop.") == 2


def test_resumed_tool_repeats_neither_chat_model_calls_nor_transactions(
    advance: Callable[[], int],
) -> None:
    def create_group(name: str, tool_context: ToolContext) -> str:
        """Create a group."""
        group = transact("group", lambda: Group.objects.create(name=name).pk)
        approved = interrupt({"group": group, "by": tool_context.state["by"]})
        tool_context.state["approved"] = approved
        return f"{Group.objects.get(pk=group).name}, {approved}"

    model = ScriptedModel([build_call("create_group", name="payers")], say("Done."), say("Yes."))
    agent = LlmAgent(
        name="first", model=model, tools=[create_group], instruction="Approved: {approved?}."
    )
    register_agent("grouper", agent, state=lambda: {"by": "ann"})
    run = start("grouper", GIVEN)
    advance()
    (pending,) = list_pending(run)
    assert pending.payload["by"] == "ann"
    decide(pending.pk, "approve")
    advance()
    assert list_tool_results(run) == ['{"result":"payers, True"}']
    assert len(model.requests) == 2
    run = start("grouper", GIVEN, thread_id=run.thread_id)
    advance()
    assert "Approved: True." in str(model.requests[-1].config.system_instruction)


def test_sub_agent_continues_after_a_decision_and_stores_message_events(
    advance: Callable[[], int],
) -> None:
    second = build_payer(ScriptedModel([build_call("pay", to="a", cents=1)], say("All good.")))
    first = LlmAgent(
        name="first",
        model=ScriptedModel([build_call("transfer_to_agent", agent_name="payer")]),
        sub_agents=[second],
    )
    register_agent("talker", first, events=["messages"])
    run = start("talker", GIVEN)
    advance()
    (pending,) = list_pending(run)
    decide(pending.pk, "approve")
    advance()
    result = run_result(run.id)
    assert result["output"] == "All good."
    message = result["messages"][-1]
    events = RunEvent.objects.filter(run=run.id, kind="messages").order_by("seq")
    said = [event.data[0] for event in events]
    assert "".join(each["content"] for each in said if each["id"] == message["id"]) == "All good."


class Total(BaseModel):
    cents: int


@pytest.mark.filterwarnings("ignore:.*EXPERIMENTAL", "ignore:ParallelAgent is deprecated")
def test_parallel_agents_of_a_resumable_app_continue_after_all_decisions(
    advance: Callable[[], int],
) -> None:
    agents = [
        build_payer(ScriptedModel([build_call("pay", to=to, cents=1)], say(f"{to} is paid.")))
        for to in "ab"
    ]
    root = ParallelAgent(
        name="payers",
        sub_agents=[each.clone({"name": name}) for name, each in zip("xy", agents, strict=True)],
    )
    resumable = ResumabilityConfig(is_resumable=True)
    register_agent("payers", App(name="payers", root_agent=root, resumability_config=resumable))
    run = start("payers", GIVEN)
    advance()
    for pending in list_pending(run):
        decide(pending.pk, "approve")
    advance()
    assert sorted(list_tool_results(run)) == ['{"paid":"a 1"}', '{"paid":"b 1"}']
    said = [m["content"] for m in run_result(run.id)["messages"] if m["type"] == "ai"]
    assert sorted(filter(None, said)) == ["a is paid.", "b is paid."]


def test_agent_that_is_not_an_llm_agent_needs_a_resumable_app() -> None:
    with pytest.raises(ValueError, match="'empty' is not an LlmAgent"):
        register_agent("empty", BaseAgent(name="empty"))


class Asking(BaseAgent):
    """Agent that requests an input, which needs a user interface of the ADK."""

    async def _run_async_impl(self, ctx: InvocationContext) -> AsyncGenerator[Event, None]:
        call = Part.from_function_call(name="adk_request_input", args={"message": "Which one?"})
        yield Event(author=self.name, content=Content(role="model", parts=[call]))


@pytest.mark.filterwarnings("ignore:.*EXPERIMENTAL")
def test_agent_that_requests_input_fails_its_run_with_an_error_naming_agent_and_call(
    advance: Callable[[], int],
) -> None:
    resumable = ResumabilityConfig(is_resumable=True)
    app = App(name="asking", root_agent=Asking(name="asking"), resumability_config=resumable)
    register_agent("asking", app)
    run = start("asking", GIVEN)
    advance()
    failed = Run.objects.get(pk=run.id)
    assert failed.state == "failed"
    assert "Agent 'asking' called 'adk_request_input', which is not supported." in failed.error


def test_agent_with_output_schema_returns_json(advance: Callable[[], int]) -> None:
    model = ScriptedModel(say('{"cents": 3}'))
    register_agent("counter", LlmAgent(name="counter", model=model, output_schema=Total))
    run = start("counter", GIVEN)
    advance()
    assert run_result(run.id)["output"] == {"cents": 3}


def test_error_of_the_chat_model_fails_the_run(advance: Callable[[], int]) -> None:
    register_agent("silent", LlmAgent(name="silent", model=ScriptedModel([])))
    run = start("silent", GIVEN)
    advance()
    assert "'silent' returned no content" in Run.objects.get(pk=run.id).error
