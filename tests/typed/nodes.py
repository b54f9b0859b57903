"""Types of the arguments and results of nodes for type checkers. This module isn't executed."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, TypedDict, assert_type
from uuid import UUID

from pydantic import BaseModel

import hitl_django
from hitl_django import StateGraph, interrupt, once, review, services, transact
from hitl_django.models import Interrupt, Run
from hitl_django.services import AskInfo, DecisionInfo, RunInfo


class Booking(BaseModel):
    seats: int


class Refund(TypedDict):
    cents: int


@dataclass
class Address:
    street: str


def charge(cents: int, *, currency: str) -> Booking:
    return Booking(seats=cents)


async def acharge(cents: int) -> Booking:
    return Booking(seats=cents)


def test_interrupt_with_response_schema_class_is_typed_as_that_class() -> None:
    assert_type(interrupt("How many?", response_schema=Booking), Booking)
    assert_type(interrupt("How much?", response_schema=Refund, key="much"), Refund)
    assert_type(review("Where?", response_schema=Address, title="Where?"), Address)
    assert_type(review("How many?", response_schema=int), int)


def test_interrupt_without_response_schema_class_is_typed_as_any() -> None:
    answer = interrupt("Go on?")
    assert_type(answer, Any)
    assert_type(interrupt("Go on?", response_schema={"type": "string"}), Any)
    assert_type(review("Go on?", quorum=2), Any)


def test_once_and_transact_are_typed_as_return_type_of_their_function() -> None:
    assert_type(once("charge", charge, 120, currency="EUR"), Booking)
    assert_type(transact("charge", charge, 120, currency="EUR"), Booking)
    once("charge", charge, "120", currency="EUR")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    transact("charge", charge, 120)  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]


async def test_awaited_once_of_async_function_is_typed_as_its_return_type() -> None:
    assert_type(await once("charge", acharge, 120), Booking)


def test_start_and_decide_are_typed_as_run_info_and_decision_info() -> None:
    run = hitl_django.start("refund", {"cents": 1})
    assert_type(run, RunInfo)
    assert_type(hitl_django.decide("id", "approve", Booking(seats=2)), DecisionInfo)
    hitl_django.decide("id", "aprove")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]


def test_ask_with_response_schema_class_is_typed_as_that_class() -> None:
    asked = hitl_django.ask("How many?", response_schema=Booking, due=timedelta(hours=1))
    assert_type(asked, AskInfo[Booking])
    assert_type(asked.wait(5), Booking)
    assert_type(hitl_django.ask("Where?", response_schema=Address).result(), Address)
    assert_type(hitl_django.ask("Go on?").result(), Any)
    hitl_django.ask("Go on?", dues=1)  # type: ignore[call-overload]  # pyright: ignore[reportCallIssue]


def test_columns_of_django_models_are_typed_without_a_mypy_plugin() -> None:
    pending = Interrupt.objects.get()
    assert_type(pending.title, str)
    assert_type(pending.due_at, datetime | None)
    assert_type(pending.run, Run)
    assert_type(pending.run_id, UUID)
    assert_type(pending.thread.runs.get(), Run)


def test_lambda_of_a_node_receives_the_state() -> None:
    # For mypy, an argument that may also be another kind of node gives the lambda no type.
    graph = StateGraph(Refund)
    graph.add_node("double", lambda refund: assert_type(refund, Refund))  # type: ignore[assert-type]


def test_run_result_with_class_is_typed_as_that_class() -> None:
    run = hitl_django.start_and_wait("refund", {"cents": 1}, timeout=5, key="k")
    assert_type(run, RunInfo)
    assert_type(run.result(), Any)
    assert_type(run.result(Refund), Refund)
    assert_type(services.run_result(run.id), Any)
    assert_type(services.run_result("id", Booking), Booking)


async def test_async_services_are_typed_like_their_sync_services() -> None:
    run = await services.astart("refund", {"cents": 1}, key="k")
    assert_type(run, RunInfo)
    assert_type(await services.adecide("id", "approve", reason="because"), DecisionInfo)
    assert_type(await services.aretry(run.id), RunInfo)
    assert_type(await services.arun_result(run.id, Refund), Refund)
    assert_type(await services.astart_and_wait("refund", {}, timeout=5), RunInfo)
    await services.acancel(run.id, why="")  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]
