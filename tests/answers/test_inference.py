"""Inference of the decision from a resume value."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from django.contrib.auth.models import User

from hitl_django import VALUE, services
from hitl_django.answers import AnswerOptions, infer_decision, make_resume_value
from hitl_django.dialects import UNSET
from hitl_django.engine.errors import InvalidAnswerError, PayloadLimitError
from hitl_django.errors import IdempotencyKeyReusedError, SelfApprovalError
from hitl_django.models import AuditEntry, Decision, Interrupt, Run
from hitl_django.models.fields import digest_json
from tests.reading import values_of
from tests.services.conftest import asked

AMOUNT = {
    "type": "object",
    "properties": {"approved": {"type": "boolean"}, "amount": {"type": "integer"}},
    "required": ["approved"],
    "additionalProperties": False,
}
SEND = {"name": "send", "args": {"to": "a"}}
REQUEST = {
    "action_requests": [SEND, SEND],
    "review_configs": [
        {"action_name": "send", "allowed_decisions": ["approve", "edit", "reject"]},
        {"action_name": "send", "allowed_decisions": ["approve", "respond"]},
    ],
}
HUMAN = {
    "action_request": {"action": "send", "args": {"to": "a"}},
    "config": {"allow_accept": True, "allow_edit": True},
}


@pytest.mark.parametrize(
    ("interrupt", "resume", "decision", "value"),
    [
        (AnswerOptions(payload={"a": 1}), True, "approve", UNSET),
        (AnswerOptions(payload={"a": 1}), False, "reject", UNSET),
        (AnswerOptions(payload={"a": 1}), {"a": 2}, "edit", {"a": 2}),
        (AnswerOptions(payload={"a": 1}), "Why?", "respond", "Why?"),
        (AnswerOptions(payload={"a": 1}), None, "respond", None),
        (AnswerOptions(payload="Dear"), "Dear Dana", "edit", "Dear Dana"),
        (AnswerOptions(payload={}, decisions=["edit"]), [1], "edit", [1]),
        (AnswerOptions(payload={}, kind="breakpoint"), True, "approve", UNSET),
        (AnswerOptions(payload={}, schema={"type": "boolean"}), False, "reject", UNSET),
        (AnswerOptions(payload={}, schema={"type": "integer"}), 5, "respond", 5),
        (AnswerOptions(payload={"amount": 5}, schema=AMOUNT), {"approved": True, "amount": 5},
         "approve", UNSET),
        (AnswerOptions(payload={"amount": 5}, schema=AMOUNT), {"approved": True, "amount": 4},
         "edit", {"approved": True, "amount": 4}),
        (AnswerOptions(payload={"amount": 5}, schema=AMOUNT), {"approved": False},
         "reject", {"approved": False}),
        (AnswerOptions(payload=1, policy_answers={"approve": {"ok": VALUE}}), {"ok": 1},
         "approve", UNSET),
        (AnswerOptions(payload=1, policy_answers={"respond": {"say": [VALUE]}}), {"say": ["x"]},
         "respond", "x"),
        (AnswerOptions(payload=HUMAN, dialect="human_interrupt"),
         [{"type": "accept", "args": {"action": "send", "args": {"to": "a"}}}], "approve", UNSET),
        (AnswerOptions(payload=HUMAN, dialect="human_interrupt"),
         [{"type": "accept", "args": {"action": "send", "args": {"to": "b"}}}],
         "edit", {"action": "send", "args": {"to": "b"}}),
    ],
)  # fmt: skip
def test_infer_decision_returns_type_and_value_of_the_decision_for_a_resume_value(
    interrupt: AnswerOptions, resume: Any, decision: str, value: Any
) -> None:
    meant = infer_decision(interrupt, resume)
    assert (meant.type, meant.value) == (decision, value)


@pytest.mark.parametrize(
    ("interrupt", "resume", "pointers"),
    [
        (AnswerOptions(payload={"a": 1}, decisions=["approve", "reject"]), {"a": 2}, [""]),
        (AnswerOptions(payload={"a": 1}, decisions=["approve"]), False, [""]),
        (AnswerOptions(payload={"a": 1}, decisions=["approve", "edit"], editable=["a"]), {"b": 1},
         ["/b"]),
        (AnswerOptions(payload={}, kind="breakpoint"), {"x": 1}, [""]),
        (AnswerOptions(payload={}, schema={"type": "boolean"}), 1, [""]),
        (AnswerOptions(payload={}, schema=AMOUNT), {"approved": True, "amount": "5"}, ["/amount"]),
        (AnswerOptions(payload={}, schema=AMOUNT, decisions=["reject"]), {"approved": True}, [""]),
        (AnswerOptions(payload=1, policy_answers={"approve": "yes"}, decisions=["approve"]), True,
         [""]),
        (AnswerOptions(payload=REQUEST, dialect="hitl_request"),
         {"decisions": [{"type": "approve"}]}, ["/decisions"]),
        (AnswerOptions(payload=REQUEST, dialect="hitl_request"),
         {"decisions": [{"type": "edit", "edited_action": {"name": "send", "args": 5}},
                        {"type": "approve"}]}, ["/decisions/0/edited_action/args"]),
        (AnswerOptions(payload=REQUEST, dialect="hitl_request"), True, [""]),
    ],
)  # fmt: skip
def test_infer_decision_without_matching_decision_raises_invalid_answer_error_with_json_pointers(
    interrupt: AnswerOptions, resume: Any, pointers: list[str]
) -> None:
    with pytest.raises(InvalidAnswerError) as caught:
        infer_decision(interrupt, resume)
    assert [pointer for pointer, _ in caught.value.faults] == pointers


def test_edit_of_non_editable_arguments_in_resume_value_raises_invalid_answer_error() -> None:
    interrupt = AnswerOptions(payload=REQUEST, dialect="hitl_request", editable=["/1"])
    edit = {"type": "edit", "edited_action": {"name": "send", "args": {"to": "b"}}}
    for give in (
        infer_decision,
        lambda asked, resume: make_resume_value(asked, "respond", resume["decisions"]),
    ):
        with pytest.raises(InvalidAnswerError, match="fields that are not editable"):
            give(interrupt, {"decisions": [edit, {"type": "respond", "message": "No."}]})


def test_resume_value_given_to_decide_is_logged_as_decision_and_reaches_the_node(
    advance: Callable[[], int], reviewer: User
) -> None:
    interrupt = asked("plain", {"payload": {"a": 1, "b": 2}}, advance)
    info = services.decide(interrupt.pk, resume={"a": 1, "b": 3}, by=reviewer, key="k")
    assert (info.type, info.value) == ("edit", {"a": 1, "b": 3})
    assert info.patch == [{"op": "replace", "path": "/b", "value": 3}]
    entry = AuditEntry.objects.get(verb="decide")
    assert (entry.actor, entry.detail["type"]) == (reviewer, "edit")
    again = services.decide(interrupt.pk, resume={"a": 1, "b": 3}, by=reviewer, key="k")
    assert (again.id, again.repeated) == (info.id, True)
    with pytest.raises(IdempotencyKeyReusedError):
        services.decide(interrupt.pk, "edit", {"a": 1, "b": 3}, by=reviewer, key="k")
    advance()
    assert Run.objects.get(pk=info.run_id).state == "succeeded"
    assert values_of(interrupt.thread)["answer"] == {"a": 1, "b": 3}


def test_resume_value_accept_with_changed_arguments_is_stored_as_edit(
    advance: Callable[[], int],
) -> None:
    """A node doesn't read the arguments of an approval."""
    changed = {"action": "send", "args": {"to": "b"}}
    interrupt = asked("plain", {"payload": HUMAN}, advance)
    info = services.decide(interrupt.pk, resume=[{"type": "accept", "args": changed}])
    assert (info.type, info.value) == ("edit", [{"type": "edit", "args": changed}])
    advance()
    assert values_of(interrupt.thread)["answer"] == [{"type": "edit", "args": changed}]


def test_resume_value_that_means_rejection_is_stored_unchanged(
    advance: Callable[[], int],
) -> None:
    """A decision given by its type would also have the requested approval."""
    interrupt = asked("plain", {"payload": {"amount": 5}}, advance)
    Interrupt.objects.update(response_schema=AMOUNT)
    info = services.decide(interrupt.pk, resume={"approved": False})
    assert (info.type, info.value) == ("reject", {"approved": False})


def test_digest_of_decision_request_with_resume_value_depends_on_a_secret_key(
    interrupt: Interrupt,
) -> None:
    """By a digest with a key, since that of a short answer would give it away."""
    services.decide(interrupt.pk, resume=True, key="k")
    digest = Decision.objects.get().request_digest
    assert digest != digest_json({"reason": "", "resume": True})  # nobody guesses it without a key


def test_resume_value_given_to_decide_raises_same_errors_as_its_decision(
    advance: Callable[[], int], user: Callable[..., User]
) -> None:
    dana = user("dana", "view_interrupt", "decide_interrupt", "start_run")
    interrupt = asked("plain", {"payload": {"a": 1}}, advance)
    Run.objects.update(started_by=dana)
    Interrupt.objects.update(no_self_approval=True)
    with pytest.raises(SelfApprovalError):
        services.decide(interrupt.pk, resume=True, by=dana)
    with pytest.raises(SelfApprovalError):
        services.check_answer(interrupt.pk, resume=True, by=dana)
    with pytest.raises(PayloadLimitError):
        services.decide(interrupt.pk, resume="x" * 2_000_000)
    assert not Decision.objects.exists()
    assert services.decide(interrupt.pk, resume=False, by=dana).type == "reject"


@pytest.mark.parametrize(
    "given", [{}, {"type": "approve", "resume": True}, {"value": 1}, {"value": 1, "resume": 1}]
)
def test_decide_with_both_or_neither_of_type_and_resume_raises_type_error(
    interrupt: Interrupt, given: Any
) -> None:
    with pytest.raises(TypeError, match="resume value"):
        services.decide(interrupt.pk, **given)
