"""The pages of runs and decisions: what happened, to be looked at."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from django.test import Client
from django.utils import timezone

from hitl_django import services
from hitl_django.models import Decision, Interrupt, Run, WorkerHeartbeat
from tests import graphs

from .conftest import list_of, page_of

Browse = Callable[[str], Client]


def test_the_list_shows_states_in_words(browse: Browse, asked: Callable[..., Interrupt]) -> None:
    asked()
    page = browse("reader").get(list_of("run")).content.decode()
    assert "waiting for an answer" in page


def test_a_run_shows_its_questions_with_their_decisions(
    browse: Browse, asked: Callable[..., Interrupt], advance: Callable[[], int]
) -> None:
    item = asked()
    services.decide(item.pk, "approve")
    advance()
    page = browse("reader").get(page_of(item.run_id, "run")).content.decode()
    assert "succeeded" in page
    assert page_of(item) in page
    assert page_of(Decision.objects.get(), "decision") in page
    assert "Decided: approve" in page


def test_a_run_that_nobody_works_on_says_so(browse: Browse) -> None:
    run = services.start("approval", {"text": "the news"})
    worker = WorkerHeartbeat.objects.create(owner="host:7", host="host", pid=7)
    page = browse("operator").get(page_of(run.id, "run")).content.decode()
    assert "It waits for a worker." in page
    WorkerHeartbeat.objects.filter(pk=worker.pk).update(at=timezone.now() - timedelta(hours=1))
    page = browse("operator").get(page_of(run.id, "run")).content.decode()
    assert "Waiting for a worker; none reports at the moment." in page


def test_a_run_needs_few_queries(
    browse: Browse, asked: Callable[..., Interrupt], django_assert_max_num_queries: Any
) -> None:
    item = asked()
    for number in range(20):
        Interrupt.objects.create(
            thread=item.thread,
            run=item.run,
            interrupt_id=f"{number:032}",
            graph="typed",
            node="ask",
            checkpoint_id="1",
            task_id="1",
            title="More?",
            payload={},
            payload_digest="0" * 32,
        )
    for role, most in (("reader", 18), ("engineer", 25)):
        client = browse(role)
        with django_assert_max_num_queries(most):
            client.get(page_of(item.run_id, "run"))


@pytest.mark.promise("P22")
def test_a_traceback_is_shown_to_operators_only(browse: Browse, advance: Callable[[], int]) -> None:
    graphs.FAILING.add("now")
    try:
        run = services.start("fragile", {"count": 1})
        advance()
    finally:
        graphs.FAILING.clear()
    assert Run.objects.get(pk=run.id).state == "failed"
    pages = {
        role: browse(role).get(page_of(run.id, "run")).content.decode()
        for role in ("reader", "operator")
    }
    assert "Traceback" not in pages["reader"]
    assert "Traceback (most recent call last)" in pages["operator"]


def test_questions_and_decisions_of_all_times_can_be_looked_up(
    browse: Browse, asked: Callable[..., Interrupt]
) -> None:
    item = asked()
    services.decide(item.pk, "reject", reason="No.")
    client = browse("reader")
    assert "decided" in client.get(list_of("interrupt")).content.decode()
    assert "Refund Dana?" in client.get(list_of("decision")).content.decode()
    page = client.get(page_of(Decision.objects.get(), "decision")).content.decode()
    assert "No." in page
    assert "Sent to the graph" in page
