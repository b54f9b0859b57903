"""Article on interrupts and their rules: patterns, mistakes, subgraphs and breakpoints."""

from __future__ import annotations

from typing import Any, Literal, TypedDict

import pytest
from langchain_core.tools import tool
from pydantic import BaseModel

from hitl_django import START, Command, StateGraph, interrupt
from hitl_django.engine.errors import InterruptChangedError, UnserializableError


def values(pending_interrupts: Any) -> list[Any]:
    return [interrupt.value for interrupt in pending_interrupts]


def single(node: Any, checkpointer: Any, schema: Any = dict, **compiled: Any) -> Any:
    builder = StateGraph(schema)
    builder.add_node("node_a", node)
    builder.add_edge(START, "node_a")
    return builder.compile(checkpointer=checkpointer, **compiled)


class Approval(TypedDict, total=False):
    input: str
    approved: bool


def test_approval_node_pauses_and_stores_the_resume_value_under_the_key_approved(
    checkpointer: Any,
) -> None:
    """Follow "Pause with interrupt" and "Resume"."""

    def approval_node(state: Approval) -> Any:
        approved = interrupt("Do you approve this action?")
        return {"approved": approved}

    graph = single(approval_node, checkpointer, Approval)
    config = {"configurable": {"thread_id": "thread-1"}}
    result = graph.invoke({"input": "data"}, config=config)
    assert values(result["__interrupt__"]) == ["Do you approve this action?"]
    assert graph.invoke(Command(resume=True), config=config) == {
        "input": "data",
        "approved": True,
    }


class Action(TypedDict, total=False):
    action_details: str
    taken: str


@pytest.mark.parametrize(("answer", "taken"), [(True, "proceed"), (False, "cancel")])
def test_approval_response_true_or_false_routes_to_proceed_or_cancel(
    checkpointer: Any, config: Any, answer: bool, taken: str
) -> None:
    """Follow pattern 1."""

    def approval_node(state: Action) -> Command[Literal["proceed", "cancel"]]:
        is_approved = interrupt(
            {
                "question": "Do you want to proceed with this action?",
                "details": state["action_details"],
            }
        )
        if is_approved:
            return Command(goto="proceed")
        else:  # noqa: RET505 - as in the article
            return Command(goto="cancel")

    builder = StateGraph(Action)
    builder.add_node("approval", approval_node)
    builder.add_node("proceed", lambda state: {"taken": "proceed"})
    builder.add_node("cancel", lambda state: {"taken": "cancel"})
    builder.add_edge(START, "approval")
    graph = builder.compile(checkpointer=checkpointer)
    result = graph.invoke({"action_details": "Transfer $500"}, config)
    assert values(result["__interrupt__"])[0]["details"] == "Transfer $500"
    assert graph.invoke(Command(resume=answer), config=config)["taken"] == taken


class Generated(TypedDict):
    generated_text: str


def test_generated_text_is_replaced_by_the_reviewed_text(checkpointer: Any, config: Any) -> None:
    """Follow pattern 2."""

    def review_node(state: Generated) -> Any:
        edited_content = interrupt(
            {
                "instruction": "Review and edit this content",
                "content": state["generated_text"],
            }
        )
        return {"generated_text": edited_content}

    graph = single(review_node, checkpointer, Generated)
    graph.invoke({"generated_text": "draft"}, config)
    assert graph.invoke(Command(resume="The edited and improved text"), config=config) == {
        "generated_text": "The edited and improved text"
    }


class Outcome(TypedDict, total=False):
    request: dict[str, str]
    outcome: str


@pytest.mark.parametrize(
    ("answer", "outcome"),
    [
        (
            {"action": "approve", "subject": "Updated subject"},
            "Email sent to a@example.com with subject 'Updated subject'",
        ),
        ({"action": "approve"}, "Email sent to a@example.com with subject 'Hi'"),
        ({"action": "reject"}, "Email cancelled by user"),
    ],
)
def test_email_tool_interrupts_before_sending_and_sends_or_cancels_according_to_the_response(
    checkpointer: Any, config: Any, answer: Any, outcome: str
) -> None:
    """Follow pattern 3: the tool is langchain's; a node calls it."""

    @tool
    def send_email(to: str, subject: str, body: str) -> str:
        """Send an email to a recipient."""
        response = interrupt(
            {
                "action": "send_email",
                "to": to,
                "subject": subject,
                "body": body,
                "message": "Approve sending this email?",
            }
        )
        if response.get("action") == "approve":
            final_to = response.get("to", to)
            final_subject = response.get("subject", subject)
            return f"Email sent to {final_to} with subject '{final_subject}'"
        return "Email cancelled by user"

    def call_tool(state: Outcome) -> Any:
        return {"outcome": send_email.invoke(state["request"])}

    graph = single(call_tool, checkpointer, Outcome)
    request = {"to": "a@example.com", "subject": "Hi", "body": "Hello"}
    result = graph.invoke({"request": request}, config)
    assert values(result["__interrupt__"]) == [
        {"action": "send_email", **request, "message": "Approve sending this email?"}
    ]
    assert graph.invoke(Command(resume=answer), config=config)["outcome"] == outcome


class Person(TypedDict, total=False):
    name: str
    age: Any
    city: str
    needs_age: bool


def test_age_interrupt_after_invalid_response_asks_for_a_positive_number(
    checkpointer: Any, config: Any
) -> None:
    """Follow pattern 4."""

    def get_age_node(state: Person) -> Any:
        prompt = "What is your age?"
        while True:
            answer = interrupt(prompt)
            if isinstance(answer, int) and answer > 0:
                break
            else:  # noqa: RET508 - as in the article
                prompt = f"'{answer}' is not a valid age. Please enter a positive number."
        return {"age": answer}

    graph = single(get_age_node, checkpointer, Person)
    assert values(graph.invoke({}, config)["__interrupt__"]) == ["What is your age?"]
    for wrong in ("thirty", -5):
        assert values(graph.invoke(Command(resume=wrong), config)["__interrupt__"]) == [
            f"'{wrong}' is not a valid age. Please enter a positive number."
        ]
    assert graph.invoke(Command(resume=30), config) == {"age": 30}


# Don't wrap interrupt in try/except.


def test_except_exception_around_interrupt_does_not_prevent_the_pause(
    checkpointer: Any, config: Any, printed: Any
) -> None:
    """Follow rule 1, wrong.

    In the article the except clause swallows the pause; here the pause is not an ``Exception``.
    """

    def node_a(state: Person) -> Any:
        try:
            interrupt("What's your name?")
        except Exception as e:
            print(e)
        return state

    graph = single(node_a, checkpointer, Person)
    assert values(graph.invoke({"city": "x"}, config)["__interrupt__"]) == ["What's your name?"]
    assert graph.invoke(Command(resume="Ann"), config) == {"city": "x"}
    assert printed.lines() == []


def test_bare_except_around_interrupt_does_not_prevent_the_pause_and_is_logged(
    checkpointer: Any, config: Any, caplog: pytest.LogCaptureFixture
) -> None:
    """Follow rule 1, wrong, with the bare except that its heading names: noticed and logged."""

    def node_a(state: Person) -> Any:
        try:
            name = interrupt("What's your name?")
        except:  # noqa: E722 - what the rule forbids
            name = "nobody"
        return {"name": name}

    graph = single(node_a, checkpointer, Person)
    assert values(graph.invoke({}, config)["__interrupt__"]) == ["What's your name?"]
    assert "node node_a caught an interrupt() and returned" in caplog.text
    assert graph.invoke(Command(resume="Ann"), config) == {"name": "Ann"}


def test_error_raised_after_the_interrupt_is_caught_by_the_node(
    checkpointer: Any, config: Any, printed: Any
) -> None:
    """Follow rule 1, right: the question stands outside of the try block."""

    def fetch_data() -> None:
        raise OSError("no route")

    def node_a(state: Person) -> Any:
        interrupt("What's your name?")
        try:
            fetch_data()
        except Exception as e:
            print(e)
        return state

    graph = single(node_a, checkpointer, Person)
    graph.invoke({"city": "x"}, config)
    assert graph.invoke(Command(resume="Ann"), config) == {"city": "x"}
    assert printed.lines() == ["no route"]


class NetworkException(Exception):
    pass


def test_except_of_specific_exception_around_interrupt_catches_the_later_error(
    checkpointer: Any, config: Any, printed: Any
) -> None:
    """Follow rule 1, right: ``except NetworkException``."""

    def fetch_data() -> None:
        raise NetworkException("down")

    def node_a(state: Person) -> Any:
        try:
            interrupt("What's your name?")
            fetch_data()
        except NetworkException as e:
            print(e)
        return state

    graph = single(node_a, checkpointer, Person)
    assert "__interrupt__" in graph.invoke({"city": "x"}, config)
    assert graph.invoke(Command(resume="Ann"), config) == {"city": "x"}
    assert printed.lines() == ["down"]


# Don't reorder the calls.


def test_three_interrupts_of_a_node_return_their_responses_in_order(
    checkpointer: Any, config: Any
) -> None:
    """Follow rule 2, right."""

    def node_a(state: Person) -> Any:
        name = interrupt("What's your name?")
        age = interrupt("What's your age?")
        city = interrupt("What's your city?")
        return {"name": name, "age": age, "city": city}

    graph = single(node_a, checkpointer, Person)
    asked = values(graph.invoke({}, config)["__interrupt__"])
    for answer in ("Ann", 30):
        asked += values(graph.invoke(Command(resume=answer), config)["__interrupt__"])
    assert asked == ["What's your name?", "What's your age?", "What's your city?"]
    assert graph.invoke(Command(resume="Oslo"), config) == {
        "name": "Ann",
        "age": 30,
        "city": "Oslo",
    }


def skipping_node(state: Person) -> Any:
    name = interrupt("What's your name?")
    if state.get("needs_age"):
        interrupt("What's your age?")
    city = interrupt("What's your city?")
    return {"name": name, "city": city}


def test_interrupt_skipped_on_resume_is_logged_and_response_reaches_the_next_interrupt(
    checkpointer: Any, config: Any, caplog: pytest.LogCaptureFixture
) -> None:
    """Follow rule 2, wrong: the answer for the age arrives at the city.

    The article's outcome, but no longer a silent one.
    """
    graph = single(skipping_node, checkpointer, Person)
    graph.invoke({"needs_age": True}, config)
    graph.invoke(Command(resume="Ann"), config)
    result = graph.invoke(Command(resume="30", update={"needs_age": False}), config)
    assert result == {"name": "Ann", "city": "30", "needs_age": False}
    assert "asked something different after it was answered" in caplog.text


def test_interrupt_skipped_on_resume_raises_error_if_on_interrupt_change_is_error(
    checkpointer: Any,
) -> None:
    """Follow rule 2, wrong, with the engine's stricter setting: nothing is mixed up."""
    config = {"configurable": {"thread_id": "some_id", "on_interrupt_change": "error"}}
    graph = single(skipping_node, checkpointer, Person)
    graph.invoke({"needs_age": True}, config)
    graph.invoke(Command(resume="Ann"), config)
    with pytest.raises(InterruptChangedError, match="node_a"):
        graph.invoke(Command(resume="30", update={"needs_age": False}), config)
    assert "city" not in graph.get_state(config).values


class Listed(TypedDict, total=False):
    dynamic_list: list[str]
    results: list[Any]


def test_interrupts_in_a_loop_over_a_changed_list_are_logged_on_resume(
    checkpointer: Any, config: Any, caplog: pytest.LogCaptureFixture
) -> None:
    """Follow rule 2, wrong: a loop over what may change."""

    def node_a(state: Listed) -> Any:
        results = []
        for item in state.get("dynamic_list", []):
            result = interrupt(f"Approve {item}?")
            results.append(result)
        return {"results": results}

    graph = single(node_a, checkpointer, Listed)
    graph.invoke({"dynamic_list": ["a", "b"]}, config)
    result = graph.invoke(Command(resume="yes", update={"dynamic_list": ["b"]}), config)
    assert result["results"] == ["yes"]
    assert "asked something different after it was answered" in caplog.text


# Only simple payloads.


@pytest.mark.parametrize(
    "payload",
    [
        "What's your name?",
        42,
        True,
        {
            "question": "Enter user details",
            "fields": ["name", "email", "age"],
            "current_values": {},
        },
    ],
)
def test_interrupt_payload_of_json_type_is_returned_unchanged(
    checkpointer: Any, config: Any, payload: Any
) -> None:
    """Follow rule 3, right."""
    graph = single(lambda state: {"name": interrupt(payload)}, checkpointer, Person)
    assert values(graph.invoke({}, config)["__interrupt__"]) == [payload]
    assert values(graph.get_state(config).interrupts) == [payload]


def validate_input(value: Any) -> bool:
    return bool(value)


class DataProcessor:
    def __init__(self, config: Any) -> None:
        self.config = config


@pytest.mark.parametrize(
    ("payload", "path", "kind"),
    [
        (
            {"question": "What's your name?", "validator": validate_input},
            "$.validator",
            "function",
        ),
        (
            {"question": "Enter data", "processor": DataProcessor({})},
            "$.processor",
            "DataProcessor",
        ),
    ],
)
def test_interrupt_payload_with_non_json_value_raises_error_with_path_and_type(
    checkpointer: Any, config: Any, payload: Any, path: str, kind: str
) -> None:
    """Follow rule 3, wrong: a function, an instance. The error says where it is."""
    graph = single(lambda state: {"name": interrupt(payload)}, checkpointer, Person)
    with pytest.raises(UnserializableError, match=kind) as caught:
        graph.invoke({"city": "x"}, config)
    assert caught.value.path == path
    assert graph.get_state(config).interrupts == ()


# Side effects before the question must be idempotent.


class Database:
    """A stand-in for the article's database."""

    def __init__(self) -> None:
        self.users: dict[str, str] = {}
        self.log: list[dict[str, str]] = []

    def upsert_user(self, user_id: str, status: str) -> None:
        self.users[user_id] = status

    def create_audit_log(self, **entry: str) -> int:
        self.log.append(entry)
        return len(self.log)


class User(TypedDict, total=False):
    user_id: str
    approved: bool


def ask_and_approve(checkpointer: Any, config: Any, node: Any) -> Any:
    graph = single(node, checkpointer, User)
    graph.invoke({"user_id": "u"}, config)
    return graph.invoke(Command(resume=True), config)


def test_upsert_before_interrupt_leaves_one_row_after_resume(
    checkpointer: Any, config: Any
) -> None:
    """Follow rule 4, right: idempotent."""
    db = Database()

    def node_a(state: User) -> Any:
        db.upsert_user(user_id=state["user_id"], status="pending_approval")
        approved = interrupt("Approve this change?")
        return {"approved": approved}

    assert ask_and_approve(checkpointer, config, node_a)["approved"] is True
    assert db.users == {"u": "pending_approval"}


def test_insert_in_node_after_interrupt_runs_once_over_pause_and_resume(
    checkpointer: Any, config: Any
) -> None:
    """Follow rule 4, right: after the question."""
    db = Database()

    def node_a(state: User) -> Any:
        approved = interrupt("Approve this change?")
        if approved:
            db.create_audit_log(user_id=state["user_id"], action="approved")
        return {"approved": approved}

    ask_and_approve(checkpointer, config, node_a)
    assert db.log == [{"user_id": "u", "action": "approved"}]


def test_notification_in_separate_node_after_approval_is_sent_once(
    checkpointer: Any, config: Any
) -> None:
    """Follow rule 4, right: in a node of its own, with a state that has attributes."""
    sent = []

    class State(BaseModel):
        user_id: str
        approved: bool = False

    def approval_node(state: State) -> Any:
        approved = interrupt("Approve this change?")
        return {"approved": approved}

    def notification_node(state: State) -> Any:
        if state.approved:
            sent.append((state.user_id, "approved"))
        return state

    builder = StateGraph(State)
    builder.add_node(approval_node)
    builder.add_node(notification_node)
    builder.add_edge(START, "approval_node")
    builder.add_edge("approval_node", "notification_node")
    graph = builder.compile(checkpointer=checkpointer)
    graph.invoke({"user_id": "u"}, config)
    assert graph.invoke(Command(resume=True), config) == {"user_id": "u", "approved": True}
    assert sent == [("u", "approved")]


def test_insert_in_node_before_interrupt_runs_again_on_resume(
    checkpointer: Any, config: Any
) -> None:
    """Follow rule 4, wrong: a new record each time."""
    db = Database()

    def node_a(state: User) -> Any:
        db.create_audit_log(user_id=state["user_id"], action="pending_approval")
        approved = interrupt("Approve this change?")
        return {"approved": approved}

    ask_and_approve(checkpointer, config, node_a)
    assert len(db.log) == 2


# Subgraphs.


def test_parent_node_and_subgraph_node_run_again_from_their_start_on_resume(
    checkpointer: Any, config: Any
) -> None:
    """Follow "Interrupts in subgraphs"."""
    ran = []

    def node_in_subgraph(state: Person) -> Any:
        ran.append("child")
        result = interrupt("What's your name?")
        return {"name": result}

    subgraph = single(node_in_subgraph, None, Person)

    def node_in_parent_graph(state: Person) -> Any:
        ran.append("parent")
        subgraph_result = subgraph.invoke({"city": "x"})
        return {"name": subgraph_result["name"]}

    graph = single(node_in_parent_graph, checkpointer, Person)
    assert values(graph.invoke({"city": "y"}, config)["__interrupt__"]) == ["What's your name?"]
    assert graph.invoke(Command(resume="Ann"), config) == {"name": "Ann", "city": "y"}
    assert ran == ["parent", "child", "parent", "child"]


# Static breakpoints.


class Trail(TypedDict, total=False):
    ran: str


def three_nodes(checkpointer: Any, **compiled: Any) -> Any:
    builder = StateGraph(Trail)
    for name in ("node_a", "node_b", "node_c"):
        builder.add_node(
            name, lambda state, name=name: {"ran": f"{state.get('ran', '')}{name[-1]}"}
        )
    builder.add_edge(START, "node_a")
    builder.add_edge("node_a", "node_b")
    builder.add_edge("node_b", "node_c")
    return builder.compile(checkpointer=checkpointer, **compiled)


def test_compiled_breakpoints_stop_every_invoke_until_the_graph_ends(checkpointer: Any) -> None:
    """Follow "Static breakpoints", at compile time: None goes on."""
    graph = three_nodes(
        checkpointer, interrupt_before=["node_a"], interrupt_after=["node_b", "node_c"]
    )
    config = {"configurable": {"thread_id": "some_thread"}}
    stops = []
    given: Any = {"ran": ""}
    while True:
        result = graph.invoke(given, config=config)
        stops.append((result["ran"], graph.get_state(config).next))
        assert "__interrupt__" not in result
        if not stops[-1][1]:
            break
        given = None
    assert stops == [("", ("node_a",)), ("ab", ("node_c",)), ("abc", ())]


def test_breakpoints_passed_to_invoke_apply_to_the_call_only(
    checkpointer: Any, config: Any
) -> None:
    """Follow "Static breakpoints", at run time: they hold for the call that names them."""
    graph = three_nodes(checkpointer)
    graph.invoke(
        {"ran": ""}, interrupt_before=["node_a"], interrupt_after=["node_b"], config=config
    )
    assert graph.get_state(config).next == ("node_a",)
    graph.invoke(None, interrupt_after=["node_b"], config=config)
    assert graph.get_state(config).next == ("node_c",)
    assert graph.invoke(None, config=config) == {"ran": "abc"}


def test_empty_interrupt_before_list_disables_compiled_breakpoints(
    checkpointer: Any, config: Any
) -> None:
    """Follow "Static breakpoints", both ways at once.

    In LangGraph an empty list leaves the compiled breakpoints on; here it means none.
    """
    graph = three_nodes(checkpointer, interrupt_before=["node_a"])
    assert graph.invoke({"ran": ""}, config, interrupt_before=[]) == {"ran": "abc"}
