"""Payload formats of agents: recognition, and responses in the same format."""

from __future__ import annotations

import contextlib
import copy
import json
from collections.abc import Callable
from typing import Annotated, Any, Literal, NotRequired, Union

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ConfigDict, Discriminator, TypeAdapter
from typing_extensions import TypedDict

from hitl_django import services
from hitl_django.answers import AnswerOptions, infer_decision, make_resume_value
from hitl_django.dialects import UNSET, recognise_dialect
from hitl_django.engine.errors import InvalidAnswerError
from hitl_django.json_text.sanitize import make_title
from hitl_django.models import Interrupt, Run
from tests.reading import values_of
from tests.services.conftest import asked

STRICT = ConfigDict(strict=True, extra="forbid")

# The types that the libraries publish for their responses, as JSON Schemas.


def shape(name: str, /, **fields: Any) -> Any:
    made: Any = TypedDict(name, fields)  # type: ignore[operator]
    made.__pydantic_config__ = STRICT
    return made


GraphAction = shape("GraphAction", action=str, args=dict[str, Any])
Accepted = shape("Accepted", type=Literal["accept", "ignore"], args=None)
Responded = shape("Responded", type=Literal["response"], args=str)
Changed = shape("Changed", type=Literal["edit"], args=GraphAction)

ChainAction = shape("ChainAction", name=str, args=dict[str, Any])
Approve = shape("Approve", type=Literal["approve"])
Edit = shape("Edit", type=Literal["edit"], edited_action=ChainAction)
Reject = shape("Reject", type=Literal["reject"], message=NotRequired[str])
Respond = shape("Respond", type=Literal["respond"], message=str)
Decided = shape("Decided", decisions=list[Approve | Edit | Reject | Respond])

ANSWERS: dict[str, TypeAdapter[Any]] = {
    "human_interrupt": TypeAdapter(list[Accepted | Responded | Changed]),
    "hitl_request": TypeAdapter(Decided),
    "approval_request": TypeAdapter(Approve | Edit | Reject | Respond),
    "tool_call": TypeAdapter(
        tuple[Literal["continue"], None]
        | tuple[Literal["update"], dict[str, Any]]
        | tuple[Literal["feedback"], str]
    ),
    "tool_approval": TypeAdapter(dict[str, Any]),
}

plain = st.characters(codec="utf-8", exclude_characters="\0")
short = st.text(plain, max_size=5)
names = st.text(st.characters(codec="utf-8", categories=["L", "N", "P", "Zs"]), min_size=1).filter(
    str.strip
)
values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | short,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(short, inner),
    max_leaves=6,
)
arguments = st.dictionaries(short, values, max_size=4)
texts = st.text(st.characters(codec="utf-8", categories=["L", "N"]), min_size=1)
words = st.sampled_from(["approve", "edit", "reject", "respond"])


@st.composite
def human_interrupts(draw: Any) -> Any:
    allowing = ["allow_accept", "allow_edit", "allow_ignore", "allow_respond"]
    config = {name: draw(st.booleans()) for name in allowing}
    config[draw(st.sampled_from(allowing))] = True
    request = {
        "action_request": {"action": draw(names), "args": draw(arguments)},
        "config": config,
    }
    if draw(st.booleans()):
        request["description"] = draw(st.none() | short)
    return [request] if draw(st.booleans()) else request


@st.composite
def hitl_requests(draw: Any) -> Any:
    actions = draw(
        st.lists(
            st.fixed_dictionaries(
                {"name": names, "args": arguments}, optional={"description": short}
            ),
            min_size=1,
            max_size=4,
        )
    )
    allowed = st.lists(words, min_size=1, unique=True)
    configs = [{"action_name": a["name"], "allowed_decisions": draw(allowed)} for a in actions]
    return {"action_requests": actions, "review_configs": configs}


tool_calls = st.fixed_dictionaries(
    {
        "question": short,
        "tool_call": st.fixed_dictionaries(
            {"name": names, "args": arguments},
            optional={"id": st.none() | short, "type": st.just("tool_call")},
        ),
    }
)
approval_requests = st.fixed_dictionaries(
    {"type": st.just("tool_approval"), "tool_call_id": short, "name": names, "args": arguments},
    optional={"description": short},
)
tool_approvals = st.builds(
    lambda action, message, args: {
        "action": action,
        "message": message,
        **{k: v for k, v in args.items() if k not in ("action", "message")},
    },
    names,
    short,
    arguments,
)
payloads = {
    "human_interrupt": human_interrupts(),
    "hitl_request": hitl_requests(),
    "approval_request": approval_requests,
    "tool_call": tool_calls,
    "tool_approval": tool_approvals,
}


def value_for(draw: Any, interrupt: AnswerOptions, decision: str) -> Any:
    """Return a value that a person could give with a decision."""
    if interrupt.dialect == "hitl_request" and decision in ("edit", "respond"):
        return decisions_for(draw, interrupt, decision)
    if decision == "edit":
        edited = copy.deepcopy(interrupt.start)
        has_frame = interrupt.dialect in ("human_interrupt", "approval_request")
        inner = edited["args"] if has_frame else edited
        changes = draw(arguments)
        inner.update({k: v for k, v in changes.items() if k not in ("action", "message")})
        return edited
    if decision == "respond":
        return draw(texts)
    return UNSET


def decisions_for(draw: Any, interrupt: AnswerOptions, decision: str) -> Any:
    actions = interrupt.payload["action_requests"]
    if len(actions) == 1 and draw(st.booleans()):
        if decision == "respond":
            return draw(texts)
        return {"name": actions[0]["name"], "args": draw(arguments)}
    made: list[dict[str, Any]] = []
    edits = 0
    for action, config in zip(actions, interrupt.payload["review_configs"], strict=True):
        may = set(config["allowed_decisions"])
        if decision == "edit":
            may &= {"edit"} if "edit" in may else {"approve"}
        if len(actions) == 1:
            may &= {decision}
        word = draw(st.sampled_from(sorted(may)))
        edits += word == "edit"
        entry: dict[str, Any] = {"type": word}
        if word == "edit":
            entry["edited_action"] = {"name": action["name"], "args": draw(arguments)}
        elif word == "respond" or (word == "reject" and draw(st.booleans())):
            entry["message"] = draw(texts)
        made.append(entry)
    return made


@pytest.mark.parametrize("dialect", payloads)
@given(data=st.data())
def test_every_allowed_decision_on_dialect_payload_makes_a_resume_value_of_that_dialect(
    dialect: str, data: st.DataObject
) -> None:
    payload = data.draw(payloads[dialect])
    named = "tool_approval" if dialect == "tool_approval" else None
    assert recognise_dialect(payload, named=named) == dialect
    interrupt = AnswerOptions(payload=payload, dialect=dialect)
    assert interrupt.allowed
    before = json.dumps(payload)
    for decision in interrupt.allowed:
        value = value_for(data.draw, interrupt, decision)
        answer = make_resume_value(interrupt, decision, value)
        ANSWERS[dialect].validate_json(json.dumps(answer))
        assert answer == make_resume_value(interrupt, decision, value)
        meant = infer_decision(interrupt, answer)
        assert make_resume_value(interrupt, meant.type, meant.value) == answer
        if dialect == "hitl_request":
            assert len(answer["decisions"]) == len(payload["action_requests"])
            for made, config in zip(answer["decisions"], payload["review_configs"], strict=True):
                assert made["type"] in config["allowed_decisions"]
    for decision in {"approve", "edit", "reject", "respond"} - set(interrupt.allowed):
        with pytest.raises(InvalidAnswerError):
            make_resume_value(interrupt, decision, {})
    assert json.dumps(payload) == before


@pytest.mark.parametrize("dialect", payloads)
@given(data=st.data())
def test_random_value_on_dialect_payload_makes_valid_resume_value_or_raises_with_pointers(
    dialect: str, data: st.DataObject
) -> None:
    interrupt = AnswerOptions(payload=data.draw(payloads[dialect]), dialect=dialect)
    decision = data.draw(st.sampled_from(interrupt.allowed))
    value = data.draw(values | st.just(interrupt.start) | st.just([{"type": "approve"}]))
    faults: Any = ()
    try:
        ANSWERS[dialect].validate_json(json.dumps(make_resume_value(interrupt, decision, value)))
    except InvalidAnswerError as error:
        faults = error.faults or None
    assert faults is not None
    assert all(pointer == "" or pointer.startswith("/") for pointer, _ in faults)
    with contextlib.suppress(InvalidAnswerError):
        infer_decision(interrupt, value)
        ANSWERS[dialect].validate_json(json.dumps(value))


ACTION = {"action": "send", "args": {"to": "a"}}
CONFIG = {
    "allow_accept": True, "allow_edit": True, "allow_respond": True, "allow_ignore": True,
}  # fmt: skip
HUMAN = {"action_request": ACTION, "config": CONFIG, "description": "Send it?"}
REQUEST = {
    "action_requests": [{"name": "send", "args": {"to": "a"}, "description": "Send it?"}],
    "review_configs": [{"action_name": "send", "allowed_decisions": ["approve", "edit", "reject"]}],
}
APPROVAL = {"type": "tool_approval", "tool_call_id": "c", "name": "send", "args": {"to": "a"}}
CALL = {"question": "Right?", "tool_call": {"name": "f", "args": {"x": 1}, "id": "c"}}


def without(payload: dict[str, Any], name: str) -> dict[str, Any]:
    return {key: value for key, value in payload.items() if key != name}


@pytest.mark.parametrize(
    "payload",
    [
        [],
        [HUMAN, HUMAN],
        [[HUMAN]],
        without(HUMAN, "config"),
        {**HUMAN, "more": 1},
        {**HUMAN, "description": 5},
        {**HUMAN, "action_request": {"action": "send"}},
        {**HUMAN, "action_request": {**ACTION, "action": ""}},
        {**HUMAN, "action_request": {**ACTION, "action": ["send"]}},
        {**HUMAN, "action_request": {**ACTION, "args": "x"}},
        {**HUMAN, "config": dict.fromkeys(CONFIG, False)},
        {**HUMAN, "config": {**CONFIG, "allow_accept": "yes"}},
        {**HUMAN, "config": {**CONFIG, "allow_all": True}},
        {**HUMAN, "config": []},
        [REQUEST],
        without(REQUEST, "review_configs"),
        {**REQUEST, "more": 1},
        {**REQUEST, "action_requests": []},
        {**REQUEST, "action_requests": {}},
        {**REQUEST, "review_configs": []},
        {**REQUEST, "action_requests": [{"name": "other", "args": {}}]},
        {**REQUEST, "action_requests": [{"name": "send", "args": []}]},
        {**REQUEST, "review_configs": [{"action_name": "send", "allowed_decisions": []}]},
        {**REQUEST, "review_configs": [{"action_name": "send", "allowed_decisions": ["run"]}]},
        {**REQUEST, "review_configs": [{"action_name": "send", "allowed_decisions": [[]]}]},
        {**REQUEST, "review_configs": [*REQUEST["review_configs"]] * 2},
        [APPROVAL],
        without(APPROVAL, "tool_call_id"),
        {**APPROVAL, "type": "approval"},
        {**APPROVAL, "name": " "},
        {**APPROVAL, "args": []},
        {**APPROVAL, "description": None},
        {**APPROVAL, "more": 1},
        without(CALL, "question"),
        {**CALL, "answer": None},
        {**CALL, "question": None},
        {**CALL, "tool_call": {"name": "f", "args": {}, "id": 5}},
        {**CALL, "tool_call": {"name": "f", "args": {}, "type": "other"}},
        {**CALL, "tool_call": {"name": "f", "args": {}, "index": 0}},
        {"action": "send", "message": "Approve?", "to": "a"},
        {"action_request": None, "config": None},
        {"action_requests": None, "review_configs": None},
        {"question": "?", "tool_call": None},
        "action_request",
        None,
    ],
    ids=str,
)  # fmt: skip
def test_payload_resembling_a_dialect_is_recognised_as_dialect_raw(payload: Any) -> None:
    assert recognise_dialect(payload) == "raw"


@pytest.mark.parametrize("payload", [HUMAN, [HUMAN], REQUEST, APPROVAL, CALL])
def test_payload_with_response_schema_breakpoint_kind_or_given_dialect_is_recognised_as_raw(
    payload: Any,
) -> None:
    assert recognise_dialect(payload) != "raw"
    assert recognise_dialect(payload, {"type": "boolean"}) == "raw"
    assert recognise_dialect(payload, kind="breakpoint") == "raw"
    assert recognise_dialect(payload, named="raw") == "raw"
    assert recognise_dialect(payload, named="tool_approval") == "raw"


def decision_schema(*allowed: str) -> dict[str, Any]:
    """Return the response schema of LangChain's middleware for a tool, as a JSON Schema."""
    action = shape("Action", name=Literal["send"], args=shape("Args", to=str))
    types = {"approve": Approve, "reject": Reject, "respond": Respond}
    types["edit"] = shape("Edit", type=Literal["edit"], edited_action=action)
    union: Any = Union[tuple(types[word] for word in allowed)]  # noqa: UP007
    if len(allowed) > 1:
        union = Annotated[union, Discriminator("type")]
    return TypeAdapter(union).json_schema()


@pytest.mark.parametrize(
    "allowed", [("approve", "edit", "reject", "respond"), ("reject", "approve"), ("approve",)]
)
def test_approval_request_allows_only_decision_types_in_its_response_schema(
    allowed: tuple[str, ...],
) -> None:
    schema = decision_schema(*allowed)
    assert recognise_dialect(APPROVAL, schema) == "approval_request"
    assert recognise_dialect(HUMAN, schema) == "raw"
    interrupt = AnswerOptions(payload=APPROVAL, schema=schema, dialect="approval_request")
    assert set(interrupt.allowed) == set(allowed)
    assert make_resume_value(interrupt, "approve") == {"type": "approve"}


@pytest.mark.parametrize(
    ("value", "pointers"),
    [
        ({"name": "send", "args": {"to": 5}}, ["/args/to"]),
        ({"name": "pay", "args": {"to": "b"}}, ["/name"]),
        ({"name": "send"}, ["/args"]),
        ({"name": "send", "args": {}, "id": "c"}, ["/id"]),
    ],
)
def test_invalid_edit_of_approval_request_raises_invalid_answer_error_with_json_pointers(
    value: Any, pointers: list[str]
) -> None:
    interrupt = AnswerOptions(
        payload=APPROVAL, schema=decision_schema("approve", "edit"), dialect="approval_request"
    )
    with pytest.raises(InvalidAnswerError) as caught:
        make_resume_value(interrupt, "edit", value)
    assert [pointer for pointer, _ in caught.value.faults] == pointers
    edited = {"name": "send", "args": {"to": "b"}}
    answer = {"type": "edit", "edited_action": edited}
    assert make_resume_value(interrupt, "edit", edited) == answer
    assert infer_decision(interrupt, answer) == ("edit", edited, "/edited_action")


def test_each_requested_action_allows_decisions_of_the_configuration_with_its_name() -> None:
    send, read = {"name": "send", "args": {}}, {"name": "read", "args": {}}
    configs = [
        {"action_name": "read", "allowed_decisions": ["approve", "respond"]},
        {"action_name": "send", "allowed_decisions": ["approve", "edit"]},
    ]
    payload = {"action_requests": [send, read, send], "review_configs": configs}
    assert recognise_dialect(payload) == "hitl_request"
    interrupt = AnswerOptions(payload=payload, dialect="hitl_request")
    assert interrupt.allowed == ("approve", "edit", "respond")
    edit = {"type": "edit", "edited_action": {"name": "send", "args": {"to": "b"}}}
    with pytest.raises(InvalidAnswerError) as caught:
        make_resume_value(interrupt, "respond", [edit, edit, edit])
    assert caught.value.faults == (("/1/type", "must be one of: approve, respond"),)


@pytest.mark.parametrize(
    ("decision", "value", "pointers"),
    [
        ("approve", {}, [""]),
        ("reject", 5, [""]),
        ("edit", UNSET, [""]),
        ("edit", {"name": "send"}, ["/args"]),
        ("edit", {"name": "send", "args": {}, "id": 1}, ["/id"]),
        ("edit", {"name": "send", "args": {"to": 5}}, ["/args/to"]),
        ("edit", [], [""]),
        ("edit", [{"type": "approve"}], [""]),
        ("edit", [{"type": "reject"}], ["/0/type"]),
        ("edit", [{"type": "respond", "message": "x"}], ["/0/type"]),
        ("edit", [{"type": "edit", "edited_action": {"name": 1, "args": {}}}],
         ["/0/edited_action/name"]),
        ("edit", [5], ["/0"]),
    ],
)  # fmt: skip
def test_invalid_decision_on_requested_action_raises_invalid_answer_error_with_json_pointers(
    decision: str, value: Any, pointers: list[str]
) -> None:
    schema = {"properties": {"to": {"type": "string"}}}
    config = {**REQUEST["review_configs"][0], "args_schema": schema}
    interrupt = AnswerOptions(
        payload={**REQUEST, "review_configs": [config]}, dialect="hitl_request"
    )
    with pytest.raises(InvalidAnswerError) as caught:
        make_resume_value(interrupt, decision, value)
    assert [pointer for pointer, _ in caught.value.faults] == pointers


def test_fewer_decisions_than_requested_actions_raise_invalid_answer_error() -> None:
    two = {name: [*REQUEST[name]] * 2 for name in REQUEST}
    interrupt = AnswerOptions(payload=two, dialect="hitl_request")
    for value in ([{"type": "approve"}], [{"type": "approve"}] * 3, "no", {}):
        with pytest.raises(InvalidAnswerError, match="decide every action"):
            make_resume_value(interrupt, "respond", value)
    mixed = [{"type": "approve"}, {"type": "reject", "message": "not twice"}]
    assert make_resume_value(interrupt, "respond", mixed) == {"decisions": mixed}
    assert make_resume_value(interrupt, "reject", "no") == {
        "decisions": [{"type": "reject", "message": "no"}] * 2
    }


@pytest.mark.parametrize(
    ("payload", "dialect", "title", "decision", "value", "answer"),
    [
        ([HUMAN], "human_interrupt", "Send: a", "approve", UNSET,
         [{"type": "accept", "args": None}]),
        (HUMAN, "human_interrupt", "Send: a", "reject", UNSET,
         [{"type": "ignore", "args": None}]),
        (REQUEST, "hitl_request", "Send: a", "reject", UNSET,
         {"decisions": [{"type": "reject", "message": "Not today."}]}),
        (CALL, "tool_call", "F: x 1", "edit", {"x": 2}, ["update", {"x": 2}]),
        ({"a": 1}, "raw", "ask requests a review", "approve", UNSET, True),
    ],
)  # fmt: skip
def test_interrupt_with_dialect_payload_stores_dialect_and_resumes_with_its_format(
    advance: Callable[[], int],
    payload: Any,
    dialect: str,
    title: str,
    decision: str,
    value: Any,
    answer: Any,
) -> None:
    interrupt = asked("plain", {"payload": payload}, advance)
    assert interrupt.dialect == dialect
    assert interrupt.title == title
    assert interrupt.allowed_decisions[0] == "approve"
    info = services.decide(interrupt.pk, decision, value, reason="Not today.")
    assert info.value == answer
    advance()
    assert Run.objects.get(pk=info.run_id).state == "succeeded"
    assert values_of(interrupt.thread)["answer"] == answer


def test_rejection_message_is_part_of_resume_value_and_reason_is_stored_separately(
    advance: Callable[[], int],
) -> None:
    interrupt = asked("plain", {"payload": REQUEST}, advance)
    info = services.decide(interrupt.pk, "reject", "Wrong address.", reason="For the record.")
    assert info.value == {"decisions": [{"type": "reject", "message": "Wrong address."}]}
    assert info.reason == "For the record."


def test_description_in_dialect_payload_becomes_reason_of_the_interrupt(
    advance: Callable[[], int],
) -> None:
    assert asked("plain", {"payload": HUMAN}, advance).why == "Send it?"
    assert asked("plain", {"payload": REQUEST}, advance).why == "Send it?"
    assert asked("plain", {"payload": CALL}, advance).why == "Right?"
    assert asked("plain", {"payload": {"why": "Because."}}, advance).why == "Because."
    assert asked("plain", {"payload": {"why": ["no text"]}}, advance).why == ""


def test_edited_action_of_dialect_payload_is_stored_as_json_patch(
    advance: Callable[[], int],
) -> None:
    interrupt = asked("plain", {"payload": [HUMAN]}, advance)
    changed = {"action": "send", "args": {"to": "b", "cc": "c"}}
    info = services.decide(interrupt.pk, "edit", changed)
    assert info.patch == [
        {"op": "replace", "path": "/args/to", "value": "b"},
        {"op": "add", "path": "/args/cc", "value": "c"},
    ]
    assert Interrupt.objects.get(pk=interrupt.pk).closing().patch == info.patch  # type: ignore[union-attr]


def test_title_of_payload_without_dialect_is_derived_from_node_name() -> None:
    assert make_title(HUMAN, "ask") == "ask requests a review"
