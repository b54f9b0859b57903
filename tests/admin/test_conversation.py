"""Conversation next to a request: messages of the thread's state."""

from __future__ import annotations

import json
import operator
import re
from collections.abc import Callable, Iterator
from typing import Annotated, Any

import pytest
from cryptography.fernet import Fernet
from django.db import connection
from django.template.loader import render_to_string
from django.test import Client, RequestFactory
from django.test.utils import CaptureQueriesContext
from django.urls import reverse
from langchain.agents import create_agent
from langchain.agents.middleware import HumanInTheLoopMiddleware
from langchain_core.language_models.fake_chat_models import GenericFakeChatModel
from langchain_core.messages import AIMessage, HumanMessage, SystemMessage, ToolMessage
from typing_extensions import TypedDict

from hitl_django import START, StateGraph, decide, interrupt, services
from hitl_django.admin.base import describe_node
from hitl_django.admin.display.conversation import MAX_TEXT, Conversation, read_conversation
from hitl_django.admin.request.decision_texts import describe_next_nodes
from hitl_django.contrib.langgraph import register_langgraph
from hitl_django.contrib.notifications.mails import name_node
from hitl_django.engine.channels import DeltaChannel
from hitl_django.engine.state.messages import MessagesState, add_messages
from hitl_django.graph_registry import registry
from hitl_django.graph_registry.review_policy import ReviewPolicy
from hitl_django.models import ChannelBlob, Interrupt
from hitl_django.permissions import ModelPermissionPolicy

Person = Callable[[str], Any]
Advance = Callable[[], int]

CALL = {"id": "call-1", "name": "look_up", "args": {"order": "A-7"}}
REFUND = {"id": "call-2", "name": "issue_refund", "args": {"order": "A-7", "amount": 49.9}}
SAID: list[Any] = [
    SystemMessage("You are a clerk."),
    HumanMessage("My lamp is broken."),
    AIMessage("Let me look.", tool_calls=[CALL]),
    ToolMessage("Order A-7: a lamp.", tool_call_id="call-1", name="look_up"),
    AIMessage("", tool_calls=[REFUND]),
]
REQUEST = {
    "action_requests": [{"name": "issue_refund", "args": REFUND["args"]}],
    "review_configs": [{"action_name": "issue_refund", "allowed_decisions": ["approve"]}],
}


@pytest.fixture
def hold(advance: Advance) -> Iterator[Callable[..., Interrupt]]:
    """Return a function that runs a graph with messages until its interrupt."""

    def run(
        messages: Any = SAID, *, schema: Any = MessagesState, payload: Any = REQUEST, **options: Any
    ) -> Interrupt:
        graph = StateGraph(schema).add_edge(START, "ask")
        graph.add_node("ask", lambda state: {"done": interrupt(payload)})
        registry.unregister("clerk")
        registry.register("clerk", title="Clerk", **options)(lambda: graph)
        return start(
            advance, "clerk", {"done": None} if schema is Other else {"messages": messages}
        )

    yield run
    registry.unregister("clerk")


def start(advance: Advance, graph: str, given: Any, **options: Any) -> Interrupt:
    started = services.start(graph, given, **options)
    advance()
    rows = Interrupt.objects.select_related("thread", "run")
    return rows.filter(run=started.id, status="pending").earliest("created_at")


def read(person: Person, item: Interrupt, role: str = "engineer") -> Conversation:
    found = read_conversation(person(role), item)
    assert found is not None
    return found


def lines(conversation: Conversation) -> list[str]:
    """Return the speaker and the text of each turn, with tool calls and results."""
    found = []
    for turn in conversation.turns:
        found.append(f"{turn.speaker}: {turn.text.text if turn.text else ''}")
        for call in turn.calls:
            result = f" -> {call.result.text}" if call.result else ""
            found.append(f"  {call.line}{' (waiting)' if call.is_waiting else result}")
    return found


SHOWN = [
    "User: My lamp is broken.",
    "Clerk: Let me look.",
    '  look_up(order="A-7") -> Order A-7: a lamp.',
    "Clerk: ",
    "  issue_refund (waiting)",
]
OPENAI_CALL = {
    "id": "call-1",
    "type": "function",
    "function": {"name": "look_up", "arguments": json.dumps(CALL["args"])},
}


class Dicts(TypedDict, total=False):
    messages: Annotated[list[Any], operator.add]


def gather(held: list[Any], writes: Any) -> list[Any]:
    for write in writes:
        held = add_messages(held, write)
    return held


class Deltas(TypedDict, total=False):
    messages: Annotated[list[Any], DeltaChannel(gather)]


class Other(TypedDict, total=False):
    """A state without messages."""

    done: Any


@pytest.mark.parametrize("schema", [MessagesState, Dicts, Deltas])
@pytest.mark.parametrize(
    "messages",
    [
        SAID,
        [
            {"role": "developer", "content": "You are a clerk."},
            {"role": "user", "content": [{"type": "text", "text": "My lamp is broken."}]},
            {"role": "assistant", "content": "Let me look.", "tool_calls": [OPENAI_CALL]},
            {"role": "tool", "content": "Order A-7: a lamp.", "tool_call_id": "call-1"},
            {"role": "assistant", "content": "", "tool_calls": [REFUND]},
        ],
    ],
)
def test_conversation_shows_messages_tool_calls_and_results(
    schema: Any, messages: Any, hold: Callable[..., Interrupt], person: Person
) -> None:
    found = read(person, hold(messages, schema=schema))
    assert lines(found) == SHOWN
    assert (found.count, found.earlier) == (5, 0)


def test_conversation_of_encrypted_state_is_decrypted(
    hold: Callable[..., Interrupt], person: Person, settings: Any
) -> None:
    settings.HITL = {**settings.HITL, "ENCRYPTION_KEYS": [Fernet.generate_key().decode()]}
    item = hold()
    rows = ChannelBlob.objects.values_list("data", flat=True)
    assert rows
    assert not any(b"My lamp" in bytes(data) for data in rows)
    assert lines(read(person, item)) == SHOWN


@pytest.mark.parametrize("role", ["reader", "reviewer", "nobody", "operator"])
def test_conversation_is_hidden_from_user_who_cannot_view_the_state(
    role: str, hold: Callable[..., Interrupt], person: Person
) -> None:
    assert read_conversation(person(role), hold()) is None


def test_conversation_is_hidden_if_the_permission_policy_hides_the_thread_from_the_user(
    hold: Callable[..., Interrupt], person: Person, settings: Any
) -> None:
    item = hold()
    settings.HITL = {**settings.HITL, "POLICY": f"{__name__}.Hiding"}
    assert read_conversation(person("engineer"), item) is None


class Hiding(ModelPermissionPolicy):
    """A policy that hides all threads and runs but leaves the permission to view states."""

    def visible_threads(self, user: Any, threads: Any) -> Any:
        return threads.filter(thread_id="other")

    def visible_runs(self, user: Any, runs: Any) -> Any:
        return runs.filter(graph="other")


def test_conversation_is_shown_to_the_user_who_started_all_runs_of_the_thread(
    hold: Callable[..., Interrupt], person: Person, advance: Advance
) -> None:
    hold()
    mine = start(advance, "clerk", {"messages": SAID}, by=None)
    user = person("reader")
    mine.run.started_by = user
    mine.run.save(update_fields=["started_by"])
    assert lines(read(person, mine, "reader")) == SHOWN


@pytest.mark.parametrize("conversation", [False, lambda messages, item: None])
def test_conversation_hidden_by_review_policy_is_not_shown(
    conversation: Any, hold: Callable[..., Interrupt], person: Person
) -> None:
    item = hold(review=ReviewPolicy(conversation=conversation))
    assert read_conversation(person("engineer"), item) is None


def test_conversation_is_redacted_by_function_of_review_policy(
    hold: Callable[..., Interrupt], person: Person
) -> None:
    def redact(messages: list[dict[str, Any]], item: Interrupt) -> Any:
        assert item.title.startswith("Issue refund")
        return [{**one, "content": "…"} for one in messages if one["role"] == "user"]

    found = read(person, hold(review=ReviewPolicy(conversation=redact)))
    assert lines(found) == ["User: …"]


def test_review_policy_function_provides_conversation_of_graph_without_messages(
    hold: Callable[..., Interrupt], person: Person
) -> None:
    def provide(messages: list[dict[str, Any]], item: Interrupt) -> Any:
        assert messages == []
        return [HumanMessage("Hello"), "Are you there?"]

    item = hold(schema=Other, review=ReviewPolicy(conversation=provide))
    assert lines(read(person, item)) == ["User: Hello", "User: Are you there?"]


@pytest.mark.parametrize("fault", [lambda messages, item: 1 / 0, lambda messages, item: 5])
def test_conversation_is_hidden_if_function_of_review_policy_fails(
    fault: Any,
    hold: Callable[..., Interrupt],
    person: Person,
    caplog: pytest.LogCaptureFixture,
) -> None:
    item = hold(review=ReviewPolicy(conversation=fault))
    assert read_conversation(person("engineer"), item) is None
    assert "the conversation can't be shown" in caplog.text
    assert "lamp" not in caplog.text


def test_review_policy_with_invalid_conversation_raises_type_error() -> None:
    with pytest.raises(TypeError, match="conversation must be True, False or a function"):
        ReviewPolicy(conversation="yes")  # type: ignore[arg-type]


def test_conversation_hides_secrets_in_arguments_of_tool_calls(
    hold: Callable[..., Interrupt], person: Person
) -> None:
    args = {"user": "ann", "word": "hunter2", "iban": "DE02", "password": "hunter3"}
    schema = {"properties": {"word": {"format": "password"}}}
    payload = {
        "action_requests": [{"name": "log_in", "args": args}],
        "review_configs": [
            {"action_name": "log_in", "allowed_decisions": ["approve"], "args_schema": schema}
        ],
    }
    as_text = {"name": "log_in", "arguments": json.dumps(args)}
    for call in (
        {"id": "c", "name": "log_in", "args": args},
        {"id": "c", "type": "function", "function": as_text},
    ):
        messages = [
            {"role": "assistant", "content": "", "tool_calls": [call]},
            {"role": "tool", "content": "done", "tool_call_id": "c"},
        ]
        item = hold(messages, schema=Dicts, payload=payload, redact=["iban"])
        (turn,) = read(person, item).turns
        told = f"{turn.calls[0].line} {turn.calls[0].arguments}"
        assert "ann" in told
        assert not {"hunter", "DE02"} & {word for word in ("hunter", "DE02") if word in told}


def test_conversation_of_graph_that_redacts_messages_is_hidden(
    hold: Callable[..., Interrupt], person: Person
) -> None:
    assert read_conversation(person("engineer"), hold(redact=["messages"])) is None


def test_conversation_shows_newest_20_messages_and_number_of_earlier_messages(
    hold: Callable[..., Interrupt], person: Person
) -> None:
    found = read(person, hold([HumanMessage(f"message {n}") for n in range(50)]))
    assert [turn.text.text for turn in found.turns if turn.text][::19] == [
        "message 30",
        "message 49",
    ]
    assert (len(found.turns), found.count, found.earlier) == (20, 50, 30)


def test_conversation_shows_tool_result_whose_tool_call_is_not_among_the_shown_messages(
    hold: Callable[..., Interrupt], person: Person
) -> None:
    assert lines(read(person, hold(SAID[3:4])))[1] == "  look_up -> Order A-7: a lamp."


def test_conversation_shortens_long_texts(hold: Callable[..., Interrupt], person: Person) -> None:
    call = {"id": "c", "name": "note", "args": {"text": "y" * 3000}}
    found = read(person, hold([HumanMessage("x" * 5000), AIMessage("", tool_calls=[call])]))
    first, second = found.turns
    assert first.text is not None
    assert (len(first.text.text), first.text.cut) == (MAX_TEXT, 5000 - MAX_TEXT)
    (shown,) = second.calls
    assert len(shown.line) <= 100
    assert shown.arguments is not None
    assert len(shown.arguments.text) == MAX_TEXT


def test_conversation_template_escapes_markup_and_shows_invisible_characters(
    hold: Callable[..., Interrupt], person: Person
) -> None:
    call = {"id": "c", "name": "<b>run", "args": {"a\u202e": "<i>"}}
    said = [
        HumanMessage("<script>1</script>\nsecond\u200b", name="<u>Ann"),
        AIMessage([{"type": "image_url", "image_url": "x"}], tool_calls=[call]),
        ToolMessage("<s>done</s>", tool_call_id="c"),
    ]
    item = hold(said)
    request = RequestFactory().get("/")
    request.user = person("engineer")
    page = render_to_string(
        "hitl_django/admin/conversation.html",
        {"conversation": read_conversation(request.user, item), "request": request},
        request,
    )
    for markup in ("<script>", "<b>", "<i>", "<s>", "<u>"):
        assert markup not in page
    assert "&lt;script&gt;1&lt;/script&gt;<br>second⟨U+200B⟩" in page
    assert "a⟨U+202E⟩=&quot;&lt;i&gt;&quot;" in page
    assert "[image url]" in page
    assert "3 messages" in page
    assert f"/{item.thread_id}/" in page


def test_conversation_template_without_conversation_is_empty() -> None:
    page = render_to_string("hitl_django/admin/conversation.html", {"conversation": None})
    assert page.strip() == ""


@pytest.mark.parametrize("schema", [MessagesState, Deltas])
@pytest.mark.parametrize(("messages", "most"), [(2, 2), (300, 3)])
def test_conversation_takes_two_queries_or_three_for_long_threads(
    messages: int, most: int, schema: Any, hold: Callable[..., Interrupt], person: Person
) -> None:
    said = [HumanMessage(f"message {n}") for n in range(messages)]
    item, user = hold(said, schema=schema), person("engineer")
    user.get_all_permissions()
    with CaptureQueriesContext(connection) as told:
        found = read_conversation(user, item)
    assert found is not None
    assert len(found.turns) == min(messages, 20)
    assert len(told) <= most


def test_conversation_of_decided_request_ends_at_the_request(
    hold: Callable[..., Interrupt], person: Person, advance: Advance
) -> None:
    first = hold(SAID)
    decide(first.pk, "approve")
    advance()
    start(advance, "clerk", {"messages": [HumanMessage("Later")]}, thread_id=first.thread.thread_id)
    item = Interrupt.objects.select_related("thread", "run").get(pk=first.pk)
    assert lines(read(person, item)) == [*SHOWN[:-1], '  issue_refund(order="A-7", amount=49.9)']


def test_conversation_of_graph_without_messages_is_none_and_takes_no_queries(
    hold: Callable[..., Interrupt], person: Person
) -> None:
    item, user = hold(schema=Other), person("engineer")
    user.get_all_permissions()
    with CaptureQueriesContext(connection) as told:
        assert read_conversation(user, item) is None
    assert len(told) == 0


def test_conversation_of_erased_thread_or_unregistered_graph_is_none(
    hold: Callable[..., Interrupt], person: Person
) -> None:
    item = hold()
    registry.unregister("clerk")
    assert read_conversation(person("engineer"), item) is None
    item = hold()
    decide(item.pk, "approve")
    services.cancel(item.run_id)
    services.erase_thread(item.thread.thread_id)
    item = Interrupt.objects.select_related("thread", "run").get(pk=item.pk)
    assert read_conversation(person("engineer"), item) is None


def test_conversation_of_subgraph_without_messages_shows_messages_of_its_parent(
    advance: Advance, person: Person
) -> None:
    inner = StateGraph(Other).add_edge(START, "ask")
    inner.add_node("ask", lambda state: {"done": interrupt(REQUEST)})
    graph = StateGraph(MessagesState).add_edge(START, "desk").add_node("desk", inner.compile())
    registry.register("parent", title="Clerk")(lambda: graph)
    try:
        item = start(advance, "parent", {"messages": SAID})
        assert item.checkpoint_ns
        assert lines(read(person, item)) == SHOWN
    finally:
        registry.unregister("parent")


class Model(GenericFakeChatModel):
    """A chat model with prepared output."""

    def bind_tools(self, tools: Any, **options: Any) -> Model:
        return self


def issue_refund(order: str, amount: float) -> str:
    """Refund an order."""
    return "refunded"


def look_up(order: str) -> str:
    """Look up an order."""
    return "Order A-7: a lamp."


def build_agent() -> Any:
    said = [AIMessage("Let me look.", tool_calls=[CALL]), AIMessage("", tool_calls=[REFUND])]
    middleware = HumanInTheLoopMiddleware(interrupt_on={"issue_refund": True})
    model = Model(messages=iter(said))
    return create_agent(model, tools=[look_up, issue_refund], middleware=[middleware])


def build_graph_with_agent() -> Any:
    graph = StateGraph(MessagesState).add_edge(START, "agent")
    return graph.add_node("agent", build_agent())


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(
    ("register", "build"),
    [(register_langgraph, build_agent), (registry.register, build_graph_with_agent)],
)
def test_conversation_of_langchain_agent_shows_its_messages(
    register: Any, build: Any, advance: Advance, person: Person
) -> None:
    register("clerk", title="Clerk")(build)
    try:
        item = start(
            advance, "clerk", {"messages": [{"role": "user", "content": "My lamp is broken."}]}
        )
        assert item.title == "Issue refund: order A-7, amount 49.90"
        assert lines(read(person, item)) == SHOWN
    finally:
        registry.unregister("clerk")


@pytest.mark.filterwarnings("ignore")
def test_request_page_and_email_of_langchain_agent_show_no_name_of_middleware(
    advance: Advance, person: Person
) -> None:
    register_langgraph("clerk", title="Clerk")(build_agent)
    try:
        item = start(advance, "clerk", {"messages": [{"role": "user", "content": "Help"}]})
        assert item.node == "HumanInTheLoopMiddleware.after_model"
        assert describe_next_nodes(item) == "“Issue refund”"
        assert describe_node(item) == "<bdi>Clerk</bdi>"
        assert name_node(item) == "Clerk"
        assert item.why == ""
        client = Client()
        client.force_login(person("reviewer"))
        url = reverse("admin:hitl_django_reviewitem_change", args=[item.pk])
        page = client.get(url).content.decode()
        page = re.sub(r"<svg.*?</svg>", "", page, flags=re.DOTALL)
        assert "Middleware" not in page
    finally:
        registry.unregister("clerk")
