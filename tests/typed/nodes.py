"""Types of the arguments and results of nodes for type checkers. This module isn't executed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, TypedDict, assert_type

from pydantic import BaseModel

import hitl_django
from hitl_django import interrupt, once, review, services, transact
from hitl_django.services import DecisionInfo, RunInfo


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
    assert_type(hitl_django.decide("id", "approve"), DecisionInfo)


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
