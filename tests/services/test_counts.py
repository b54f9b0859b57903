"""Counts of pending interrupts by user, and statistics of decisions."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from django.contrib.auth.models import Group, User
from django.db import connection
from django.db.models import QuerySet
from django.db.models.functions import Now
from django.test.utils import CaptureQueriesContext

from hitl_django import services
from hitl_django.models import Decision, Interrupt, Run
from hitl_django.models.review import queue_order
from hitl_django.models.search import build_grams, build_search_text
from hitl_django.permissions import ModelPermissionPolicy
from hitl_django.services.reviews import queue_filters, queue_stats

from .conftest import asked

MINUTE = timedelta(minutes=1)


@pytest.fixture
def sam(user: Callable[..., User]) -> User:
    return user("sam", "view_interrupt", "decide_interrupt")


@pytest.fixture
def ask(advance: Callable[[], int]) -> Callable[..., Interrupt]:
    def make(graph: str = "approval", **changes: Any) -> Interrupt:
        given = {"text": "x"} if graph == "approval" else {"log": []}
        row = asked(graph, given, advance)
        if "title" in changes:
            text = build_search_text(changes["title"])
            changes |= {"search_text": text, "search_grams": build_grams(text)}
        Interrupt.objects.filter(pk=row.pk).update(**changes)
        return row

    return make


def figures(found: services.QueueCounts) -> dict[str, int]:
    return {name: getattr(found, name) for name in found.__slots__ if getattr(found, name)}


def test_queue_counts_returns_number_of_interrupts_per_queue_tab(
    ask: Callable[..., Interrupt], reviewer: User, sam: User
) -> None:
    ask()
    ask(claimed_by=reviewer, claimed_until=Now() + MINUTE)
    ask(claimed_by=sam, claimed_until=Now() + MINUTE)
    for one in (reviewer, sam):
        ask(claimed_by=one, claimed_until=Now() - MINUTE)  # the claim has expired
    ask(assignee=reviewer)
    ask(assignee=sam)
    ask(group=Group.objects.create(name="Others"))
    ask(snoozed_until=Now() + MINUTE)
    ask(due_at=Now() - MINUTE)  # the interrupt is overdue although no sweep has run
    ask(due_at=Now() - MINUTE, overdue=True, priority=-1)
    ask(status="decided", due_at=Now() - MINUTE)
    found = services.queue_counts(reviewer)
    assert figures(found) == {
        "mine": 2, "unclaimed": 6, "claimed": 1, "overdue": 2, "snoozed": 1, "awake": 10,
        "pending": 11,
    }  # fmt: skip


def test_queue_counts_do_not_count_interrupt_of_parked_run_as_unclaimed(
    ask: Callable[..., Interrupt], reviewer: User
) -> None:
    ask()
    Run.objects.update(state=Run.State.PARKED)
    assert figures(services.queue_counts(reviewer)) == {"awake": 1, "pending": 1}


def test_count_queue_takes_one_query_and_limits_its_counts(
    ask: Callable[..., Interrupt], reviewer: User
) -> None:
    for _ in range(3):
        ask()
    reviewer.has_perm("x")  # reads the permissions once per request
    listed = queue_filters.Search.build(queue_filters.list_pending(reviewer), "publ")
    with CaptureQueriesContext(connection) as queries:
        found, rows = services.count_queue(reviewer, groups=[], most=2, listed=listed)
        assert (found.unclaimed, found.pending, rows, len(queries)) == (2, 2, 3, 1)
        found, rows = services.count_queue(reviewer, groups=[], most=2, listed="unclaimed")
        assert (found.unclaimed, found.pending, rows, len(queries)) == (2, 2, 3, 2)


@pytest.mark.parametrize("most", [2, 4, 50])
def test_count_queue_returns_exact_number_of_search_results(
    most: int, ask: Callable[..., Interrupt], reviewer: User
) -> None:
    for number in range(9):
        ask(title=f"{'Late' if number > 4 else 'Soon'} {number}", priority=9 - number)
    for text, expected in (("soon", 5), ("late", 4), ("late 7", 1), ("never", 0)):
        rows = queue_filters.list_pending(reviewer).order_by(*queue_order())
        search = queue_filters.Search.build(rows, text)
        _, count = services.count_queue(reviewer, groups=[], most=most, listed=search)
        assert count == expected
        assert search.find(count, most).count() == expected


def test_queue_counts_can_be_filtered_by_graph_and_group(
    ask: Callable[..., Interrupt], reviewer: User
) -> None:
    crew = Group.objects.create(name="Crew")
    ask(group=crew, title="Red")
    ask(title="Red")
    ask("patient")
    assert services.queue_counts(reviewer, graph="approval").pending == 2
    assert services.queue_counts(reviewer, group=crew).pending == 1
    assert services.queue_counts(reviewer, graph="patient", group=crew).pending == 0


def test_list_pending_graphs_returns_only_graphs_with_pending_interrupts(
    ask: Callable[..., Interrupt], reviewer: User
) -> None:
    ask("patient")
    ask("approval", status="cancelled")
    assert services.list_pending_graphs(reviewer) == ["patient"]


def test_list_pending_groups_returns_groups_with_pending_interrupts_and_membership_of_the_user(
    ask: Callable[..., Interrupt], reviewer: User, user: Callable[..., User]
) -> None:
    crew, desk, _empty = (Group.objects.create(name=name) for name in ("Crew", "A desk", "Empty"))
    ask(group=crew)
    ask(group=desk)
    ask(group=Group.objects.create(name="Done"), status="decided")
    reviewer.groups.add(crew)
    expected = [(desk.pk, "A desk", False), (crew.pk, "Crew", True)]
    assert services.list_pending_groups(reviewer) == expected
    assert services.list_pending_groups(user("blind", "decide_interrupt")) == []


def test_read_first_returns_unclaimed_interrupts_in_queue_order_up_to_the_limit(
    ask: Callable[..., Interrupt], reviewer: User, sam: User
) -> None:
    crew, other = Group.objects.create(name="Crew"), Group.objects.create(name="Other")
    reviewer.groups.add(crew)
    for changes in (
        {}, {"group": crew}, {"assignee": reviewer}, {"assignee": reviewer, "group": other},
        {"group": other}, {"assignee": sam, "group": crew}, {"assignee": sam},
        {"snoozed_until": Now() + MINUTE}, {"group": crew, "claimed_until": Now() + MINUTE},
    ):  # fmt: skip
        for priority in (0, 2, 1):
            ask(priority=priority, **changes)
    rows, groups = queue_filters.list_pending(reviewer), queue_filters.list_group_keys(reviewer)
    for group in (None, crew, other.pk):
        chosen = rows if group is None else rows.filter(group=group)
        free = list(chosen.filter(queue_filters.match_unclaimed(reviewer)).order_by(*queue_order()))
        parts = queue_filters.split_unclaimed(reviewer, groups, group)
        for most in (1, 4, 50):
            assert list(queue_filters.read_first(chosen, parts, most)[:most]) == free[:most]
        found, listed = services.count_queue(reviewer, group=group, listed="unclaimed")
        assert found.unclaimed == listed == len(free)
    assert len(free) == 3


@pytest.mark.promise("P18")
def test_queue_counts_and_review_stats_without_view_permission_are_zero(
    interrupt: Interrupt, user: Callable[..., User]
) -> None:
    services.decide(interrupt.pk, "approve")
    blind = user("blind", "decide_interrupt")
    found = services.queue_counts(blind)
    assert {getattr(found, name) for name in found.__slots__} == {0}
    assert services.list_pending_graphs(blind) == []
    stats = services.review_stats(blind)
    assert (stats.pending, stats.oldest_at, stats.median_seconds) == (0, None, None)


def test_review_stats_include_only_decisions_made_by_users(
    ask: Callable[..., Interrupt], reviewer: User
) -> None:
    waiting = ask(due_at=Now() - MINUTE)
    for kind, seconds in (("approve", 10), ("approve", 20), ("reject", 60), ("respond", 1000)):
        row = ask()
        services.decide(row.pk, kind, *(["x"] if kind == "respond" else []), by=reviewer)
        made = Decision.objects.get(interrupt=row).created_at
        Interrupt.objects.filter(pk=row.pk).update(created_at=made - timedelta(seconds=seconds))
    expired = ask("patient")
    terms = {"seconds": 1, "then": "answer", "answer": {"seats": 1}}
    Interrupt.objects.filter(pk=expired.pk).update(expires_at=Now() - MINUTE, expiry=terms)
    services.expire_due()
    stats = services.review_stats(reviewer)
    assert (stats.pending, stats.overdue) == (1, 1)
    assert stats.oldest_at == Interrupt.objects.get(pk=waiting.pk).created_at
    assert stats.median_seconds == 40
    assert stats.approve_rate == pytest.approx(2 / 3)
    assert services.review_stats(None, graph="patient").approve_rate is None


class OfApprovals(ModelPermissionPolicy):
    def visible_interrupts(self, user: Any, interrupts: QuerySet[Interrupt]) -> QuerySet[Interrupt]:
        return interrupts.filter(graph="approval")


@pytest.mark.promise("P18")
@pytest.mark.parametrize("by", ["policy", "graph"])
def test_review_stats_include_only_interrupts_allowed_by_policy_or_graph_filter(
    ask: Callable[..., Interrupt], reviewer: User, settings: Any, by: str
) -> None:
    for kind, graph in (("approve", "approval"), ("reject", "panel"), ("reject", "panel")):
        services.decide(ask(graph).pk, kind)
    waiting, other = ask(due_at=Now() - MINUTE), ask("panel", due_at=Now() - MINUTE)
    Interrupt.objects.filter(pk=other.pk).update(created_at=waiting.created_at - MINUTE)
    if by == "policy":
        settings.HITL = {**settings.HITL, "POLICY": f"{__name__}.OfApprovals"}
        stats = services.review_stats(reviewer)
    else:
        stats = services.review_stats(reviewer, graph="approval")
    assert (stats.pending, stats.overdue, stats.approve_rate) == (1, 1, 1)
    assert stats.oldest_at == Interrupt.objects.get(pk=waiting.pk).created_at


def test_review_stats_exclude_old_decisions_and_approvals_below_quorum(
    ask: Callable[..., Interrupt], reviewer: User
) -> None:
    old, refused, open_ = ask(), ask(), ask(quorum=2)
    services.decide(old.pk, "approve", by=reviewer)
    Decision.objects.update(created_at=Now() - queue_stats.WITHIN - MINUTE)
    services.decide(open_.pk, "approve", by=reviewer)
    assert services.review_stats(reviewer).median_seconds is None
    services.decide(refused.pk, "reject", by=reviewer)
    assert services.review_stats(reviewer).approve_rate == 0
