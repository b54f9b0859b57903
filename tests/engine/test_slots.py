"""Slots: pending interrupts, and the responses that belong to them."""

from __future__ import annotations

from typing import Any

import pytest

from hitl_django.engine import ids
from hitl_django.engine.constants import (
    ERROR,
    INTERRUPT,
    NO_WRITES,
    NULL_TASK_ID,
    RESUME,
)
from hitl_django.engine.errors import UnknownInterruptError
from hitl_django.engine.task.task_status import (
    TaskStatus,
    collect_answers,
    is_resume_map,
    plan_resume,
    read_task_statuses,
    record_answer,
)
from hitl_django.engine.types import Interrupt, MissingResume

A, B, C = ("a" * 32, "b" * 32, "c" * 32)


@pytest.mark.parametrize(
    ("resume", "open_ids", "answers"),
    [
        ("yes", [A], {A: "yes"}),
        (False, [A], {A: False}),
        (0, [A], {A: 0}),
        ("", [A], {A: ""}),
        ([], [A], {A: []}),
        ({"decision": 1}, [A], {A: {"decision": 1}}),
        ({A: 1, "more": 2}, [A], {A: {A: 1, "more": 2}}),
        ({A: None}, [A], {A: None}),
        ({A: 1}, [A, B], {A: 1}),
        ({A: 1, B: 2}, [B, A], {A: 1, B: 2}),
        ("go on", [], {}),
    ],
)
def test_plan_resume_assigns_resume_value_to_interrupt_ids(
    resume: Any, open_ids: list[str], answers: Any
) -> None:
    assert plan_resume(resume, open_ids) == answers


@pytest.mark.parametrize(
    ("resume", "open_ids", "reason", "named"),
    [
        ("yes", [A, B], "ambiguous", ()),
        ({}, [A], "empty_map", ()),
        ({}, [], "empty_map", ()),
        ({C: 1}, [A, B], "not_pending", (C,)),
        ({C: 1}, [], "not_pending", (C,)),
        ({C: 1, A: 2}, [A], "not_pending", (C,)),
        ({C: 1, B: 2}, [A], "not_pending", (B, C)),
    ],
)
def test_plan_resume_with_unmatched_value_raises_unknown_interrupt_error_with_reason(
    resume: Any, open_ids: list[str], reason: str, named: tuple[str, ...]
) -> None:
    with pytest.raises(UnknownInterruptError) as raised:
        plan_resume(resume, open_ids)
    assert raised.value.reason == reason
    assert raised.value.interrupt_ids == named
    assert raised.value.pending_ids == tuple(sorted(open_ids))
    assert isinstance(raised.value, (LookupError, RuntimeError))


def test_plan_resume_error_messages_name_pending_interrupts_and_correction() -> None:
    with pytest.raises(UnknownInterruptError, match=f"you must specify the interrupt id.*{A}, {B}"):
        plan_resume(1, [A, B])
    with pytest.raises(UnknownInterruptError, match=f"already-consumed interrupt: {C}. Open: {A}"):
        plan_resume({C: 1}, [A])
    with pytest.raises(UnknownInterruptError, match=f"interrupt: {C}. Open: none"):
        plan_resume({C: 1}, [])
    with pytest.raises(UnknownInterruptError, match="The resume map contains no interrupt id"):
        plan_resume({}, [A])


@pytest.mark.parametrize(
    ("resume", "is_map"),
    [
        ({}, True),
        ({A: 1}, True),
        ({A: 1, "x": 2}, False),
        ({A.upper(): 1}, False),
        ({A[:-1]: 1}, False),
        ({f"{A}\n": 1}, False),
        ({1: 1}, False),
        ([A], False),
        (None, False),
        (A, False),
    ],
)
def test_is_resume_map_returns_true_only_for_dict_with_interrupt_ids_as_keys(
    resume: Any, is_map: bool
) -> None:
    assert is_resume_map(resume) is is_map


def test_record_answer_adds_response_at_its_position() -> None:
    assert record_answer([], 0, "a") == ["a"]
    assert record_answer(["a"], 1, "b") == ["a", "b"]
    assert record_answer(["a"], 1, None) == ["a", None]


def test_record_answer_replacing_a_response_removes_later_responses() -> None:
    assert record_answer(["a", "b", "c"], 1, "x") == ["a", "x"]
    assert record_answer(["a"], 0, "x") == ["x"]


def test_record_answer_of_later_position_fills_gaps_with_missing_marker() -> None:
    gap = MissingResume()
    later = record_answer([], 2, "c")
    assert later == [gap, gap, "c"]
    assert record_answer(later, 0, "a") == ["a", gap, "c"]
    assert record_answer(record_answer(later, 1, "b"), 0, "a") == ["a", "b", "c"]


def test_record_answer_does_not_mutate_its_input_list() -> None:
    stored = ["a", "b"]
    record_answer(stored, 0, "x")
    assert stored == ["a", "b"]


def status(answers: list[Any], *asked: int) -> TaskStatus:
    made = TaskStatus()
    made.answers = answers
    made.interrupts = tuple(Interrupt("q", ids.make_interrupt_id("a:1", index)) for index in asked)
    return made


def given(**at: Any) -> dict[str, Any]:
    return {ids.make_interrupt_id("a:1", int(place[1:])): value for place, value in at.items()}


def test_collect_answers_returns_response_to_pending_interrupt_of_the_task() -> None:
    assert collect_answers("a:1", status([], 0), given(p0="x")) == ["x"]
    assert collect_answers("a:1", status(["x"], 1), given(p1="y")) == ["x", "y"]


def test_collect_answers_returns_empty_list_for_responses_to_another_task() -> None:
    assert list(collect_answers("b:2", status([], 0), given(p0="x"))) == []
    assert list(collect_answers("a:1", None, given(p1="x"))) == []


def test_collect_answers_returns_responses_to_several_interrupts_of_one_task() -> None:
    assert collect_answers("a:1", status([], 0, 1), given(p0="x", p1="y")) == ["x", "y"]
    assert collect_answers("a:1", status([], 0, 1), given(p1="y")) == [MissingResume(), "y"]


def test_collect_answers_replaces_stored_response_by_new_response() -> None:
    assert collect_answers("a:1", status(["x"], 0), given(p0="y")) == ["y"]


def test_read_task_statuses_returns_interrupts_responses_output_and_error_per_task() -> None:
    asked = Interrupt("q", A)
    statuses = read_task_statuses(
        [
            ("t1", INTERRUPT, (asked,)),
            ("t1", RESUME, ["x"]),
            ("t2", "key", 1),
            ("t2", "key", 2),
            ("t3", ERROR, "ValueError('no')"),
            ("t4", NO_WRITES, None),
            (NULL_TASK_ID, "key", 9),
        ]
    )
    assert set(statuses) == {"t1", "t2", "t3", "t4"}
    assert statuses["t1"].open == (asked,)
    assert statuses["t1"].answers == ["x"]
    assert (statuses["t2"].finished, statuses["t2"].output) == (True, [("key", 1), ("key", 2)])
    assert (statuses["t3"].finished, statuses["t3"].error) == (False, "ValueError('no')")
    assert statuses["t4"].finished


def test_read_task_statuses_lists_no_pending_interrupt_for_finished_task() -> None:
    statuses = read_task_statuses([("t", INTERRUPT, (Interrupt("q", A),)), ("t", "key", 1)])
    assert statuses["t"].open == ()
    assert statuses["t"].interrupts != ()
