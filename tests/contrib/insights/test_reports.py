"""Reports: counts by day, permissions and number of queries."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from typing import Any

import pytest
from django.contrib.auth.models import Permission, User
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from hitl_django import services
from hitl_django.contrib.insights.models import SpotCheck
from hitl_django.contrib.insights.reports import review_report
from hitl_django.engine.errors import InvalidInputError
from hitl_django.models import Decision, Interrupt
from hitl_django.permissions import ModelPermissionPolicy
from tests.admin.conftest import make_interrupt

DAY = date(2026, 3, 10)
NOON = datetime(2026, 3, 10, 12, tzinfo=UTC)


@pytest.fixture
def ann(db: None) -> User:
    return User.objects.create_user("ann", is_superuser=True)


def decide(
    by: Any, kind: str = "approve", *, at: datetime = NOON, took: float = 60.0, **fields: Any
) -> Decision:
    """Store an interrupt that a user decided after the given number of seconds."""
    item = make_interrupt({}, status="decided", version=2, **fields)
    Interrupt.objects.filter(pk=item.pk).update(created_at=at - timedelta(seconds=took))
    label = "Lena" if by is None else by.username
    return Decision.objects.create(
        interrupt=item, version=1, type=kind, value=True, by=by, by_label=label, via="admin",
        request_digest="1", payload_digest="1", created_at=at,
    )  # fmt: skip


def figures(user: Any, first: date = DAY, last: date = DAY, **narrowed: Any) -> Any:
    return review_report(user, services.Period.build(first, last), **narrowed)


@pytest.fixture(autouse=True)
def _in_utc() -> Any:
    with timezone.override("UTC"):
        yield


def test_insights_report_counts_interrupts_by_creation_day_and_decision_day(ann: User) -> None:
    decide(ann, at=NOON, took=3600)
    decide(ann, at=NOON, took=86400)
    decide(ann, at=NOON + timedelta(days=1), took=60)
    found = figures(ann, DAY - timedelta(1), DAY + timedelta(1))
    assert [(day.created, day.decided) for day in found.buckets] == [(1, 0), (1, 2), (1, 1)]
    assert (found.created, found.decided) == (3, 3)


def test_insights_report_days_start_at_midnight_of_the_current_time_zone(ann: User) -> None:
    decide(ann, at=datetime(2026, 3, 10, 2, tzinfo=UTC))
    with timezone.override("America/Chicago"):
        assert figures(ann).decided == 0
        assert figures(ann, DAY - timedelta(1), DAY - timedelta(1)).decided == 1


def test_insights_report_contains_median_and_90th_percentile_of_decision_time(ann: User) -> None:
    for seconds in (10, 20, 30, 40, 1000):
        decide(ann, took=seconds)
    found = figures(ann)
    assert found.median == pytest.approx(30, abs=0.01)
    # Interpolated between the last two, as in PostgreSQL.
    assert found.p90 == pytest.approx(616, abs=0.01)
    assert found.buckets[0].median == pytest.approx(30, abs=0.01)
    assert found.sample is None


@pytest.mark.database("sqlite")
def test_insights_report_without_database_percentiles_uses_a_sample_of_latest_decisions(
    ann: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("hitl_django.contrib.insights.reports.SAMPLE", 2)
    for minutes, seconds in ((3, 500), (2, 10), (1, 20)):
        decide(ann, at=NOON - timedelta(minutes=minutes), took=seconds)
    found = figures(ann)
    assert (found.median, found.sample) == (pytest.approx(15, abs=0.01), 2)


def test_insights_report_without_decisions_has_no_median_graphs_or_reviewers(ann: User) -> None:
    found = figures(ann)
    assert (found.median, found.p90, found.graphs, found.reviewers) == (None, None, [], [])


@pytest.mark.parametrize(
    ("days", "unit", "bounds"),
    [
        (7, "day", ["03-10/03-10", "03-16/03-16"]),
        (31, "day", ["03-10/03-10", "04-09/04-09"]),
        (32, "week", ["03-10/03-15", "03-16/03-22", "03-23/03-29", "03-30/04-05", "04-06/04-10"]),
        (183, "month", ["03-10/03-31", "09-01/09-08"]),
    ],
)
def test_insights_report_divides_the_period_into_days_weeks_or_months_by_its_length(
    days: int, unit: str, bounds: list[str], ann: User
) -> None:
    found = figures(ann, DAY, DAY + timedelta(days - 1))
    spans = [f"{one.first:%m-%d}/{one.last:%m-%d}" for one in found.buckets]
    assert found.unit == unit
    assert (spans if unit == "week" else [spans[0], spans[-1]]) == bounds


def test_insights_report_counts_and_percentiles_of_a_week_include_all_of_its_days(
    ann: User,
) -> None:
    for days, seconds in ((0, 10), (5, 30), (6, 500)):  # Tuesday, Sunday, Monday
        decide(ann, at=NOON + timedelta(days=days), took=seconds)
    first, second, *_rest = figures(ann, DAY, DAY + timedelta(40)).buckets
    assert (first.created, first.decided, first.median) == (2, 2, pytest.approx(20, abs=0.01))
    assert (second.created, second.decided, second.p90) == (1, 1, pytest.approx(500, abs=0.01))


def test_insights_report_has_approval_count_late_count_and_times_per_graph_and_reviewer(
    ann: User,
) -> None:
    ben = User.objects.create_user("ben")
    decide(ann, graph="a", took=10)
    decide(ann, "edit", graph="a", took=30, due_at=NOON - timedelta(seconds=1))
    decide(ben, "reject", graph="a", took=100, due_at=NOON + timedelta(seconds=1))
    decide(ben, "respond", graph="b", took=7)
    found = figures(ann)
    assert (found.approved, found.decided, found.due, found.late) == (2, 4, 2, 1)
    assert {one.key: one.late for one in [*found.graphs, *found.reviewers]} == {
        "a": 1, "b": 0, ann.pk: 1, ben.pk: 0,
    }  # fmt: skip
    assert found.count_type("edit") == 1
    times = {
        one.key: (one.approved, round(one.median), round(one.p90))
        for one in [*found.graphs, *found.reviewers]
    }
    assert times == {"a": (2, 30, 86), "b": (0, 7, 7), ann.pk: (2, 20, 28), ben.pk: (0, 54, 91)}


def test_insights_report_of_one_reviewer_excludes_decisions_of_others_and_lists_all_reviewers(
    ann: User,
) -> None:
    ben = User.objects.create_user("ben")
    for by, seconds in ((ann, 10), (ben, 20), (None, 30)):
        made = decide(by, graph="a", took=seconds)
        SpotCheck.objects.create(
            interrupt=made.interrupt, decision=made, created_at=NOON, result="agree"
        )
    for reviewer, median in ((str(ben.pk), 20), ("none", 30)):
        found = figures(ann, reviewer=reviewer)
        assert (found.created, found.decided, found.checked) == (3, 1, 1)
        assert found.median == pytest.approx(median, abs=0.01)
        assert [one.total for one in found.graphs] == [1]
        assert {one.label: round(one.median) for one in found.reviewers} == {
            "ann": 10, "ben": 20, "": 30,
        }  # fmt: skip
    for reviewer in ("nonsense", "9" * 40, "0"):
        assert figures(ann, reviewer=reviewer).decided == 0


def test_insights_report_counts_decision_types_per_graph_and_reviewer(ann: User) -> None:
    ben = User.objects.create_user("ben")
    decide(ann, graph="a")
    decide(ann, "reject", graph="a")
    decide(ben, "edit", graph="b")
    decide(None, "approve", graph="b")
    found = figures(ann)
    shares = {one.key: {name: n for name, n in one.counts.items() if n} for one in found.graphs}
    assert shares == {"a": {"approve": 1, "reject": 1}, "b": {"approve": 1, "edit": 1}}
    people = {(one.key, one.label): one.total for one in found.reviewers}
    assert people == {(ann.pk, "ann"): 2, (ben.pk, "ben"): 1, (None, ""): 1}
    assert figures(ann, graph="a").decided == 2


def test_insights_report_excludes_expiries_and_decisions_that_did_not_take_effect(
    ann: User,
) -> None:
    decide(None, "expire")
    Decision.objects.filter(pk=decide(ann).pk).update(effective=None)
    assert figures(ann).decided == 0


def test_insights_report_lists_reviewers_only_with_reviewer_insights_permission(ann: User) -> None:
    lead = User.objects.create_user("lead")
    lead.user_permissions.add(Permission.objects.get(codename="view_interrupt"))
    decide(ann)
    assert figures(lead).reviewers is None
    lead.user_permissions.add(Permission.objects.get(codename="view_reviewer_insights"))
    found = figures(User.objects.get(pk=lead.pk))
    assert [one.label for one in found.reviewers] == ["ann"]


class OnlyOpen(ModelPermissionPolicy):
    def visible_interrupts(self, user: Any, interrupts: Any) -> Any:
        return interrupts.filter(graph="open")


@pytest.mark.promise("P22")
def test_insights_report_excludes_interrupts_hidden_by_policy(ann: User, settings: Any) -> None:
    settings.HITL = {"POLICY": "tests.contrib.insights.test_reports.OnlyOpen"}
    seen = decide(ann, graph="open")
    SpotCheck.objects.create(
        interrupt=seen.interrupt, decision=seen, created_at=NOON, result="agree"
    )
    for _ in range(3):
        hidden = decide(ann, graph="shut")
        SpotCheck.objects.create(
            interrupt=hidden.interrupt, decision=hidden, created_at=NOON, result="disagree"
        )
    make_interrupt({}, graph="shut")
    found = figures(ann)
    assert (found.created, found.decided) == (1, 1)
    assert [one.key for one in found.graphs] == ["open"]
    assert [(one.total, one.checked, one.agreed) for one in found.reviewers] == [(1, 1, 1)]
    assert sum(band.count for band in found.pending_by_age) == 0


def test_insights_report_groups_pending_interrupts_by_age_and_counts_overdue(ann: User) -> None:
    now = timezone.now()
    for hours in (0.5, 2, 5, 30, 100, 300, 400):
        item = make_interrupt({}, due_at=now - timedelta(hours=1) if hours > 200 else None)
        Interrupt.objects.filter(pk=item.pk).update(created_at=now - timedelta(hours=hours))
    found = figures(ann)
    assert [band.count for band in found.pending_by_age] == [1, 1, 1, 1, 1, 2]
    assert found.overdue == 2
    assert (now - found.oldest).total_seconds() == pytest.approx(400 * 3600, abs=5)


@pytest.mark.parametrize(("days", "fits"), [(0, True), (365, True), (366, False), (-1, False)])
def test_insights_report_period_in_wrong_order_or_above_a_year_raises_invalid_input_error(
    days: int, fits: bool
) -> None:
    last = DAY + timedelta(days)
    if fits:
        assert len(services.Period.build(DAY, last).days) == days + 1
    else:
        with pytest.raises(InvalidInputError):
            services.Period.build(DAY, last)


def test_insights_report_query_count_is_constant_for_one_and_thirteen_graphs(ann: User) -> None:
    def count() -> int:
        with CaptureQueriesContext(connection) as queries:
            figures(ann, DAY - timedelta(30), DAY)
        assert not [q for q in queries.captured_queries if '"payload"' in q["sql"]]
        return len(queries)

    decide(ann)
    few = count()
    for n in range(12):
        by = User.objects.create_user(f"r{n}")
        decide(by, graph=f"g{n}", at=NOON - timedelta(days=n))
    assert count() == few <= 11


class TestPreviousPeriod:
    """The numbers of the period of the same length before the report's period."""

    def test_insights_report_contains_every_figure_for_the_previous_period(self, ann: User) -> None:
        week = DAY + timedelta(6)
        for days, kind, seconds in (
            (-8, "approve", 9),  # the day before the previous period
            (-7, "approve", 10),
            (-4, "edit", 20),
            (-2, "reject", 30),
            (-1, "respond", 1000),
            (0, "approve", 5),
            (7, "approve", 9),  # the day after the period
        ):
            due_at = NOON + timedelta(days=days, seconds=-1 if kind == "reject" else 1)
            due_at = None if kind == "respond" else due_at
            made = decide(
                ann, kind, at=NOON + timedelta(days=days), took=seconds, due_at=due_at, graph="a"
            )
            SpotCheck.objects.create(
                interrupt=made.interrupt,
                decision=made,
                created_at=made.created_at,
                result="disagree" if kind == "edit" else "agree",
            )
        found = figures(ann, DAY, week)
        before = found.previous
        assert (before.first, before.last) == (DAY - timedelta(7), DAY - timedelta(1))
        assert (before.created, before.decided, before.approved, before.late) == (4, 4, 2, 1)
        assert before.due == 3
        assert (before.checked, before.agreed) == (4, 3)
        assert (before.median, before.p90) == (
            pytest.approx(25, abs=0.01),
            pytest.approx(709, abs=0.01),
        )
        assert (found.created, found.decided, found.approved, found.late) == (1, 1, 1, 0)
        assert (found.checked, found.agreed) == (1, 1)
        assert (found.median, found.p90) == (
            pytest.approx(5, abs=0.01),
            pytest.approx(5, abs=0.01),
        )

    def test_insights_report_graphs_and_reviewers_exclude_the_previous_period(
        self, ann: User
    ) -> None:
        ben = User.objects.create_user("ben")
        made = decide(ben, graph="b", at=NOON - timedelta(days=1))
        SpotCheck.objects.create(
            interrupt=made.interrupt, decision=made, created_at=made.created_at, result="agree"
        )
        decide(ann, graph="a")
        found = figures(ann)
        assert [one.key for one in found.graphs] == ["a"]
        assert [(one.label, one.checked) for one in found.reviewers] == [("ann", 0)]
        assert [(day.created, day.decided) for day in found.buckets] == [(1, 1)]
        assert (found.previous.decided, found.previous.checked) == (1, 1)

    @pytest.mark.parametrize(("first", "unit"), [(DAY, "week"), (DAY, "month")])
    def test_insights_report_excludes_days_before_the_period_from_its_first_week_or_month(
        self, first: date, unit: str, ann: User
    ) -> None:
        decide(ann, at=NOON - timedelta(days=1))  # the Monday of the first week
        decide(ann, at=NOON)
        found = figures(ann, first, first + timedelta({"week": 40, "month": 200}[unit]))
        assert found.unit == unit
        assert (found.buckets[0].created, found.buckets[0].decided) == (1, 1)
        assert (found.previous.created, found.previous.decided) == (1, 1)

    def test_insights_report_without_earlier_requests_has_an_empty_previous_period(
        self, ann: User
    ) -> None:
        decide(ann)
        before = figures(ann).previous
        assert (before.created, before.decided, before.checked) == (0, 0, 0)
        assert (before.median, before.p90) == (None, None)

    def test_insights_report_filters_the_previous_period_by_graph_and_reviewer(
        self, ann: User
    ) -> None:
        ben = User.objects.create_user("ben")
        for by, graph, seconds in ((ann, "a", 10), (ben, "a", 20), (ben, "b", 30), (None, "b", 40)):
            made = decide(by, graph=graph, at=NOON - timedelta(days=1), took=seconds)
            SpotCheck.objects.create(
                interrupt=made.interrupt, decision=made, created_at=made.created_at, result="agree"
            )
        for narrowed, asked, decided, median in (
            ({"graph": "a"}, 2, 2, 15),
            ({"reviewer": str(ben.pk)}, 4, 2, 25),
            ({"reviewer": "none"}, 4, 1, 40),
            ({"graph": "b", "reviewer": ben.pk}, 2, 1, 30),
            ({"reviewer": "nonsense"}, 4, 0, None),
        ):
            before = figures(ann, **narrowed).previous
            assert (before.created, before.decided, before.checked) == (asked, decided, decided)
            assert before.median == (None if median is None else pytest.approx(median, abs=0.01))

    @pytest.mark.promise("P22")
    def test_insights_report_previous_period_excludes_interrupts_hidden_by_policy(
        self, ann: User, settings: Any
    ) -> None:
        settings.HITL = {"POLICY": "tests.contrib.insights.test_reports.OnlyOpen"}
        for graph in ("open", "shut", "shut"):
            made = decide(ann, graph=graph, at=NOON - timedelta(days=1))
            SpotCheck.objects.create(
                interrupt=made.interrupt, decision=made, created_at=made.created_at, result="agree"
            )
        before = figures(ann).previous
        assert (before.created, before.decided, before.checked) == (1, 1, 1)

    def test_insights_report_of_unfinished_period_ends_the_previous_period_at_the_same_time_of_day(
        self, ann: User, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("django.utils.timezone.now", lambda: NOON)
        decide(ann, at=NOON - timedelta(days=1, minutes=1))
        decide(ann, at=NOON - timedelta(days=1, minutes=-2))
        found = figures(ann)
        assert (found.previous.created, found.previous.decided) == (1, 1)
        assert figures(ann, DAY - timedelta(1), DAY - timedelta(1)).decided == 2

    @pytest.mark.parametrize(
        ("terms", "graph", "has_previous"),
        [
            (None, None, True),
            (15, None, True),
            (13, None, False),
            ({"a": 13, "*": None}, None, False),
            ({"a": 13, "*": None}, "a", False),
            ({"a": 13, "*": None}, "b", True),
            ({"*": 13, "b": None}, "b", True),
            ({"*": 13, "b": None}, "a", False),
        ],
    )
    @pytest.mark.parametrize("setting", ["RETENTION_DAYS", "ARCHIVE_DAYS"])
    def test_insights_report_without_retained_threads_has_no_previous_period(
        self,
        setting: str,
        terms: Any,
        graph: str | None,
        has_previous: bool,
        ann: User,
        settings: Any,
    ) -> None:
        settings.HITL = {**settings.HITL, setting: terms}
        today = timezone.now().date()
        found = figures(ann, today - timedelta(6), today, graph=graph)
        assert (found.previous is not None) == has_previous

    def test_insights_report_queries_do_not_grow_with_the_previous_period(self, ann: User) -> None:
        def count() -> int:
            with CaptureQueriesContext(connection) as queries:
                figures(ann, DAY - timedelta(30), DAY)
            return len(queries)

        decide(ann)
        few = count()
        for n in range(12):
            by = User.objects.create_user(f"r{n}")
            decide(by, graph=f"g{n}", at=NOON - timedelta(days=31 + n))
        assert count() == few <= 11

    @pytest.mark.database("sqlite")
    def test_insights_report_without_database_percentiles_samples_the_previous_period_separately(
        self, ann: User, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("hitl_django.contrib.insights.reports.SAMPLE", 2)
        for minutes, seconds in ((3, 500), (2, 10), (1, 20)):
            decide(ann, at=NOON - timedelta(days=1, minutes=minutes), took=seconds)
        decide(ann, took=5)
        found = figures(ann)
        assert (round(found.median), round(found.previous.median)) == (5, 15)
        assert found.sample == 2


def test_graph_choices_of_insights_report_are_graphs_with_visible_interrupts(ann: User) -> None:
    assert services.list_graphs_with_interrupts(ann) == []
    make_interrupt({}, graph="approval")
    assert services.list_graphs_with_interrupts(ann) == ["approval"]
    assert services.list_graphs_with_interrupts(User.objects.create_user("nobody")) == []
