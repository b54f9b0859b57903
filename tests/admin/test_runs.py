"""Pages of runs and decisions."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from django.contrib.auth import get_user_model
from django.contrib.auth.models import Group
from django.test import Client
from django.utils import timezone
from django.utils.html import escape

from hitl_django import START, StateGraph, interrupt, services
from hitl_django.graph_registry import registry
from hitl_django.graph_registry.registry import ReviewPolicy
from hitl_django.models import Checkpoint, Decision, Interrupt, Run, Thread, WorkerHeartbeat
from tests import graphs

from .conftest import list_of, make_interrupt, page_of

Browse = Callable[[str], Client]


def test_run_list_shows_state_as_waiting_for_review(
    browse: Browse, asked: Callable[..., Interrupt]
) -> None:
    asked()
    page = browse("reader").get(list_of("run")).content.decode()
    assert "waiting for review" in page


def test_run_page_lists_requests_with_links_and_decisions(
    browse: Browse, asked: Callable[..., Interrupt], advance: Callable[[], int]
) -> None:
    item = asked()
    services.decide(item.pk, "approve")
    advance()
    page = browse("reader").get(page_of(item.run_id, "run")).content.decode()
    assert '<span class="hitl-pill is-ok">Succeeded</span>' in page
    assert page_of(item) in page
    assert page_of(Decision.objects.get(), "decision") in page
    assert "Approved" in page


def test_queued_run_page_without_recent_worker_heartbeat_says_that_no_worker_is_running(
    browse: Browse,
) -> None:
    run = services.start("approval", {"text": "the news"})
    worker = WorkerHeartbeat.objects.create(owner="host:7", host="host", pid=7)
    page = browse("operator").get(page_of(run.id, "run")).content.decode()
    assert "Waiting for a worker." in page
    WorkerHeartbeat.objects.filter(pk=worker.pk).update(at=timezone.now() - timedelta(hours=1))
    page = browse("operator").get(page_of(run.id, "run")).content.decode()
    assert "Queued, but no worker is running." in page


def test_run_page_with_21_requests_takes_at_most_25_queries(
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
def test_run_page_shows_traceback_only_with_operate_permission(
    browse: Browse, advance: Callable[[], int]
) -> None:
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


@pytest.mark.promise("P22")
@pytest.mark.parametrize("state", ["failed", "parked"])
def test_run_list_and_pages_show_error_text_only_with_operate_permission(
    browse: Browse, asked: Callable[..., Interrupt], state: str
) -> None:
    item = asked()
    # Not every error begins with the name of its class. A prefix may be quoted text.
    error = "Card4111: no card for dana@example.com"
    Run.objects.filter(pk=item.run_id).update(state=state, error=error, traceback=f"At: {error}")
    pages = [
        list_of("run"),
        page_of(item.run_id, "run"),
        page_of(item.thread_id, "thread"),
        page_of(item),
        list_of("thread"),
        list_of(),
        page_of(item.run_id, "run").replace("change", "history"),
    ]
    for page in pages:
        shown = browse("reader").get(page).content.decode()
        for word in ("4111", "dana@example.com"):
            assert word not in shown, page
    for page in pages[:2]:
        assert str(Run.State(state).label) in browse("reader").get(page).content.decode()
        assert escape(error) in browse("operator").get(page).content.decode()
    assert "visible to operators only" in browse("reader").get(pages[1]).content.decode()
    assert "visible to operators only" not in browse("operator").get(pages[1]).content.decode()


def test_run_list_cannot_be_searched_sorted_or_filtered_by_error(
    browse: Browse, asked: Callable[..., Interrupt]
) -> None:
    item = asked()
    Run.objects.filter(pk=item.run_id).update(state="failed", error="ValueError: 4111")
    found: Any = browse("reader").get(list_of("run"), {"q": "4111"})
    assert found.context["cl"].result_count == 0
    assert "error" not in str(found.context["cl"].queryset.query.order_by)
    listed = browse("reader").get(list_of("run"), {"error__contains": "4111"})
    assert listed.status_code in (302, 400)


@pytest.fixture
def reserved() -> Iterator[None]:
    """Register a graph whose interrupts are restricted to the members of a group."""

    def ask(state: dict[str, Any]) -> dict[str, Any]:
        return {"answer": interrupt({"title": "Pay Dana?"})}

    graph = StateGraph(dict).add_node("ask", ask).add_edge(START, "ask")
    registry.register("money", review=ReviewPolicy(groups=["finance"]))(lambda: graph)
    yield
    registry.unregister("money")


@pytest.mark.promise("P18")
@pytest.mark.usefixtures("reserved")
def test_run_of_graph_reserved_for_groups_hides_deciders_and_comments_from_other_groups(
    browse: Browse, person: Callable[[str], Any], advance: Callable[[], int]
) -> None:
    run = services.start("money", {})
    advance()
    item = Interrupt.objects.get()
    frida = get_user_model().objects.create_superuser("frida")
    services.comment(item.pk, "She called.", by=frida)
    services.claim(item.pk, by=frida)
    services.decide(item.pk, "respond", "yes", by=frida, reason="It is hers.")
    advance()
    pages = [page_of(run.id, "run"), page_of(item.thread_id, "thread")]
    hidden = ("frida", "Responded", "Pay Dana?", "Commented", "It is hers.")
    for page in pages:
        html = browse("reader").get(page).content.decode()
        assert [word for word in hidden if word in html] == [], page
        assert "Started a run" in html
    person("reader").groups.add(Group.objects.create(name="finance"))
    for page in pages:
        html = browse("reader").get(page).content.decode()
        assert [word for word in hidden[:3] if word not in html] == []


def test_interrupt_and_decision_lists_show_decided_requests_with_reason_and_response(
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


def test_run_and_thread_lists_show_and_search_key_and_related_object(
    browse: Browse, advance: Callable[[], int]
) -> None:
    customer = get_user_model().objects.create(pk=774411, username="customer")
    given = {"amount": 1, "customer": "Dana"}
    named = services.start("typed", given, key="refund:90210", subject=customer)
    services.start("typed", given)
    advance()
    texts = ("refund:90210", str(customer.pk), named.thread_id)
    for model, pk in (("run", named.id), ("thread", Run.objects.get(pk=named.id).thread_id)):
        for text in texts:
            found = browse("reader").get(list_of(model), {"q": text})
            assert [str(row.pk) for row in found.context["cl"].result_list] == [str(pk)], text
            page = found.content.decode()
            assert "refund:90210" in page
            assert f"user {customer.pk}" in page
        for text in ("90210", "FUND:9021", str(customer.pk)[1:5], named.thread_id[3:]):
            found = browse("reader").get(list_of(model), {"q": text})
            assert [str(row.pk) for row in found.context["cl"].result_list] == [str(pk)], text
        for text in ("90210 elsewhere", "fund 9021"):
            assert not browse("reader").get(list_of(model), {"q": text}).context["cl"].result_list


@pytest.mark.parametrize("model", ["run", "thread", "interrupt", "decision"])
def test_admin_search_limited_to_newest_rows_states_the_limit(
    model: str, browse: Browse, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("hitl_django.services.reviews.queue_filters.SCANNED", 2)
    for number in range(3):
        item = make_interrupt(
            {"note": "needle"}, title=f"Refund {number}?", graph="typed", status="decided"
        )
        Run.objects.filter(pk=item.run_id).update(key=f"needle:{number}")
        made = Decision.objects.create(
            interrupt=item, version=1, type="approve", value=True, via="admin",
            request_digest="1", payload_digest="1",
        )  # fmt: skip
        at = datetime(2026, 1, 1, 12, number, 0, 7, tzinfo=UTC)
        for row in (made, item.run):
            type(row).objects.filter(pk=row.pk).update(created_at=at)
    found = browse("reader").get(list_of(model), {"q": "eedle"})
    assert found.context["cl"].result_count == 2
    assert "Searched the newest 2 entries only." in found.content.decode()
    narrowed = browse("reader").get(list_of(model), {"q": "eedle", "graph": "other"})
    assert "Searched the newest" not in narrowed.content.decode()
    # An exact match is found regardless of its age.
    assert (browse("reader").get(list_of(model), {"q": "needle:0"}).context["cl"].result_count) == (
        model in ("run", "thread")
    )


def test_run_that_has_not_started_shows_no_step_number(browse: Browse) -> None:
    run = services.start("typed", {"amount": 1, "customer": "Dana"})
    thread = Run.objects.get(pk=run.id).thread_id
    for page in (list_of("run"), page_of(run.id, "run"), page_of(thread, "thread")):
        shown = browse("engineer").get(page).content.decode()
        assert "tep -1" not in shown, page


def test_run_waiting_for_earlier_runs_is_shown_and_can_be_cancelled(browse: Browse) -> None:
    first, second = (
        services.start("approval", {"text": text}, thread_id="t", on_pending="wait")
        for text in ("one", "two")
    )
    page = browse("operator").get(page_of(second.id, "run")).content.decode()
    assert '<span class="hitl-pill">Waiting for earlier runs</span>' in page
    assert "Starts when the earlier runs of this thread have ended." in page
    assert "This thread has a newer run." not in page
    assert "Cancel run…" in page
    page = browse("operator").get(page_of(first.id, "run")).content.decode()
    assert "This thread has a newer run." not in page
    page = browse("engineer").get(page_of(Thread.objects.get().pk, "thread")).content.decode()
    assert '<span class="hitl-pill">Waiting for earlier runs</span>' in page
    assert '<span class="hitl-pill">Queued</span>' in page.partition("<h2")[0]
    assert (page.count("Run waiting for earlier runs"), page.count("Run started")) == (1, 1)


def test_notice_on_queue_page_that_no_worker_is_running_ends_in_a_single_full_stop(
    browse: Browse,
) -> None:
    worker = WorkerHeartbeat.objects.create(owner="host:7", host="host", pid=7)
    WorkerHeartbeat.objects.filter(pk=worker.pk).update(at=timezone.now() - timedelta(hours=1))
    page = browse("reviewer").get(list_of()).content.decode()
    assert "Last worker seen:" in page
    assert ".m.." not in page


def test_admin_pages_show_times_in_one_format_with_one_time_zone_notice(
    browse: Browse, asked: Callable[..., Interrupt], settings: Any
) -> None:
    settings.TIME_ZONE = "Asia/Tokyo"
    item = asked()
    moment = datetime(2026, 3, 4, 20, 6, 7, tzinfo=UTC)
    Interrupt.objects.update(created_at=moment)
    Run.objects.update(created_at=moment)
    Checkpoint.objects.update(created_at=moment)
    pages = [
        list_of(),
        list_of("run"),
        page_of(item.run_id, "run"),
        page_of(item.thread_id, "thread"),
    ]
    for page in pages:
        shown = browse("engineer").get(page).content.decode()
        assert "March 5, 2026, 5:06 a.m." in shown, page
        assert shown.count("Time zone: Asia/Tokyo") == 1, page
        for other in ("03/05/2026", "2026-03-05 05:06", "05:06:07 "):
            assert other not in shown, page


def test_admin_index_links_to_review_queue_and_all_requests(browse: Browse) -> None:
    index = browse("reviewer").get("/admin/").content.decode()
    assert "Review queue" in index
    assert "All requests" in index
