"""The page of reports, the links of its numbers, and its downloads."""

from __future__ import annotations

import asyncio
import csv
import hashlib
import io
import json
import re
from collections.abc import Callable
from datetime import datetime, timedelta
from html import escape, unescape
from typing import Any

import pytest
from django.contrib.admin.views.main import ChangeList
from django.contrib.auth.models import Permission, User
from django.core.handlers.asgi import ASGIRequest
from django.db import connection
from django.http import HttpRequest
from django.test import Client, RequestFactory
from django.test.utils import CaptureQueriesContext
from django.urls import resolve, reverse
from django.utils import timezone, translation

from hitl_django import audit, services
from hitl_django.contrib.insights.admin import csv_download, plots, reports_page
from hitl_django.contrib.insights.models import SpotCheck
from hitl_django.models import AuditEntry, Decision, Interrupt, Thread
from tests.admin.browsing import text_of
from tests.admin.conftest import *  # noqa: F403
from tests.admin.conftest import list_of, make_interrupt

PAGE = reverse("admin:hitl_insights_spotcheck_reports")
DECISIONS = reverse("admin:hitl_insights_spotcheck_csv")
RECORD = reverse("admin:hitl_insights_spotcheck_record")
#: Texts that a spreadsheet would interpret as formulas.
FORMULAS = ["=1+1", "+1", "-1", "@SUM(A1)", "\t=1", "\r=1", "\n=1", " =1", "＝1", "＠x"]


def decide(
    by: Any,
    kind: str = "approve",
    *,
    days: float = 1,
    took: timedelta = timedelta(hours=1),
    **fields: Any,
) -> Decision:
    """Store a request with the given decision time, and its creation time."""
    at = timezone.now() - timedelta(days=days)
    item = make_interrupt({}, status="decided", version=2, **fields)
    Interrupt.objects.filter(pk=item.pk).update(created_at=at - took)
    return Decision.objects.create(
        interrupt=item, version=1, type=kind, value=True, by=by,
        by_label="Lena" if by is None else by.username, via="admin",
        request_digest="1", payload_digest="1", created_at=at,
    )  # fmt: skip


@pytest.fixture
def lead(person: Callable[[str], Any], browse: Callable[[str], Client]) -> Callable[..., Client]:
    """Create a reviewer with these additional permissions."""

    def make(*names: str) -> Client:
        person("reviewer").user_permissions.add(*Permission.objects.filter(codename__in=names))
        return browse("reviewer")

    return make


def links(page: Any) -> list[tuple[str, str]]:
    """Return the URL and the number of each link below the filters."""
    content = text_of(page).partition('class="hitl-kpis"')[2]
    content = re.sub(r"</?small>", "", content)
    tile = (
        r'<a href="([^"]+)"><span class="hitl-k">[^<]+</span> <span class="hitl-v">([^<]+)</span>'
    )
    found = re.findall(rf'{tile}|<a [^>]*href="([^"]+)"[^>]*>([^<]+)</a>', content)
    pairs = [(one[0] or one[2], one[1] or one[3]) for one in found]
    return [(unescape(url), text) for url, text in pairs if "?" in url]


def open_list(url: str, user: User) -> ChangeList:
    """Return the rows of an admin list without rendering the page, which takes longer."""
    request = RequestFactory().get(url)
    request.user = user
    view, args, kwargs = resolve(request.path_info)
    response: Any = view(request, *args, **kwargs)
    assert response.status_code == 200, url
    return response.context_data["cl"]


class TestPage:
    @pytest.mark.slow
    def test_insights_page_numbers_link_to_lists_with_as_many_rows(
        self, admin_client: Client, admin_user: User
    ) -> None:
        ann, ben = (User.objects.create_user(name) for name in ("ann", "ben"))
        for number, (by, kind) in enumerate(
            [(ann, "approve"), (ann, "approve"), (ann, "edit"), (ben, "reject"), (None, "respond")]
        ):
            decide(by, kind, days=1 + number, graph="ab"[number % 2])
        # These rows aren't decisions by users or are outside of the period, so no number counts
        # them.
        decide(None, "expire")
        Decision.objects.filter(pk=decide(ben).pk).update(effective=None)
        decide(ben, days=90)
        now = timezone.now()
        for hours in (0.5, 30, 300):
            item = make_interrupt({}, graph="a", due_at=now - timedelta(minutes=5))
            Interrupt.objects.filter(pk=item.pk).update(created_at=now - timedelta(hours=hours))
        found = links(admin_client.get(PAGE))
        assert len(found) > 40
        counted = 0
        for url, text in found:
            rows = open_list(url, admin_user)
            if text.isdigit():
                assert rows.result_count == int(text), (url, text)
                counted += 1
        assert counted > 60
        assert {text: url.partition("?")[0] for url, text in found if "overdue" in text} == {
            "3 overdue": list_of()
        }

    def test_insights_page_and_decision_filter_show_graph_titles(
        self, admin_client: Client, asked: Callable[..., Interrupt]
    ) -> None:
        item = asked("approval")
        services.decide(item.pk, "approve", by=User.objects.create_superuser("ann"))
        page = admin_client.get(PAGE)
        assert ("approval", "Approval") in page.context["form"].fields["graph"].choices
        assert [row.label.text for row in page.context["graphs"]] == ["Approval"]
        rows = admin_client.get(f"{list_of('decision')}?graph=approval")
        (chosen,) = [spec for spec in rows.context["cl"].filter_specs if spec.title == "graph"]
        assert chosen.lookup_choices == [("approval", "Approval")]

    def test_insights_page_decision_times_and_agreement_link_to_matching_rows(
        self, admin_client: Client
    ) -> None:
        ann, ben = (User.objects.create_user(name) for name in ("ann", "ben"))
        for by, graph, result, days in (
            (ann, "approval", "agree", 1),
            (ann, "approval", "disagree", 1),
            (ann, "approval", "", 1),
            (ann, "essay", "agree", 2),
            (None, "essay", "agree", 2),
            (ben, "essay", "", 2),
            (ann, "essay", "agree", 90),
        ):
            made = decide(by, graph=graph, days=days)
            look = SpotCheck.objects.create(
                interrupt=made.interrupt, decision=made, result=result, by_label="eva"
            )
            SpotCheck.objects.filter(pk=look.pk).update(created_at=made.created_at)
        page = admin_client.get(PAGE)
        tiles = {str(one.label): one for one in page.context["tiles"]}
        for label in ("Median time to decide", "90th percentile"):
            rows = admin_client.get(tiles[label].url)
            assert rows.context["cl"].result_count == 6
        shares = [*page.context["graphs"], *page.context["reviewers"]]
        agreements = {row.label.text: row.agreement for row in shares}
        assert {name: (one.text, bool(one.url)) for name, one in agreements.items()} == {
            "Approval": ("1 of 2 (50 %)", True),
            "Essay": ("2 of 2 (100 %)", True),
            "ann": ("2 of 3 (67 %)", True),
            "(without an account)": ("1 of 1 (100 %)", True),
            "ben": ("–", False),
        }
        for one in agreements.values():
            if one.url:
                assert f'href="{escape(one.url)}"' in text_of(page)
                rows = admin_client.get(one.url)
                assert rows.context["cl"].result_count == int(one.text.split()[2]), one

    @pytest.mark.slow
    def test_insights_page_filtered_by_graph_links_to_rows_of_the_graph(
        self, admin_client: Client, admin_user: User, asked: Callable[..., Interrupt]
    ) -> None:
        item = asked("approval")
        services.decide(item.pk, "approve", by=User.objects.create_superuser("ann"))
        decide(None, graph="other")
        page = admin_client.get(f"{PAGE}?graph=approval")
        tiles = {str(one.label): one.text for one in page.context["tiles"]}
        assert (tiles["Requests"], tiles["Decided"]) == ("1", "1")
        for url, text in links(page):
            assert "graph=approval" in url
            if text.isdigit():
                assert open_list(url, admin_user).result_count == int(text), url

    def test_insights_page_decision_times_of_zero_seconds_are_links(
        self, admin_client: Client
    ) -> None:
        made = decide(None)
        Interrupt.objects.update(created_at=made.created_at)
        times = [text for _url, text in links(admin_client.get(PAGE)) if text == "0 s"]
        assert len(times) == 4  # of the period, and of the selected day

    def test_insights_page_shows_reviewer_names_only_with_reviewer_insights_permission(
        self, lead: Callable[..., Client]
    ) -> None:
        ann = User.objects.create_user("ann-of-accounting")
        decide(ann)
        client = lead()
        page = client.get(PAGE)
        assert "By graph" in text_of(page)
        assert "ann-of-accounting" not in text_of(page)
        narrowed = f"{reverse('admin:hitl_django_decision_changelist')}?by={ann.pk}"
        assert client.get(narrowed).status_code == 403
        client = lead("view_reviewer_insights")
        assert "ann-of-accounting" in text_of(client.get(PAGE))
        assert client.get(narrowed).context["cl"].result_count == 1

    @pytest.mark.parametrize("key", ["nonsense", "9" * 40, "0"])
    def test_decision_list_filtered_by_unknown_reviewer_shows_no_rows(
        self, key: str, admin_client: Client
    ) -> None:
        decide(None)
        url = f"{reverse('admin:hitl_django_decision_changelist')}?by={key}"
        response = admin_client.get(url)
        assert response.status_code in (200, 302)
        if response.status_code == 200:
            assert response.context["cl"].result_count == 0

    @pytest.mark.parametrize(
        "query",
        ["first=2026-02-30", "first=x", "first=2026-01-01&last=2025-01-01", "graph=nowhere",
         "first=2020-01-01&last=2026-01-01", "first=0001-01-01&last=0001-01-01",
         "first=9999-12-31&last=9999-12-31"],
    )  # fmt: skip
    def test_insights_page_with_invalid_period_or_graph_returns_400_with_form_errors(
        self, query: str, admin_client: Client
    ) -> None:
        page = admin_client.get(f"{PAGE}?{query}")
        assert page.status_code == 400
        assert page.context["form"].errors
        assert "tiles" not in page.context
        assert admin_client.get(f"{DECISIONS}?{query}").status_code == 302

    def test_insights_page_query_count_is_constant_for_one_and_six_reviewers(
        self, admin_client: Client
    ) -> None:
        def count() -> int:
            with CaptureQueriesContext(connection) as queries:
                assert admin_client.get(PAGE).status_code == 200
            return len(queries)

        decide(User.objects.create_user("ann"))
        count()
        few = count()
        for number in range(5):
            decide(User.objects.create_user(f"r{number}"), days=number, graph=f"g{number}")
        assert count() == few <= 14

    def test_insights_page_charts_have_accessible_names_and_no_inline_styles(
        self, admin_client: Client
    ) -> None:
        decide(User.objects.create_user("ann"), title="x", graph="<b>&")
        html = text_of(admin_client.get(PAGE))
        assert "style=" not in html.partition('id="hitl"')[2]
        assert len(re.findall(r'class="hitl-meter"[^>]* aria-hidden="true"', html)) == 6
        drawn = re.findall(r"<svg[^>]*role=\"img\".*?</svg>", html, re.S)
        assert len(drawn) == 2 + 1
        for one in drawn:
            (names,) = re.findall(r'aria-labelledby="([^"]+)"', one)
            assert all(f'id="{name}"' in one for name in names.split())
        assert "<b>&" not in html
        assert "&lt;b&gt;&amp;" in html

    def test_insights_page_shows_spot_check_agreement_per_graph_and_reviewer(
        self, admin_client: Client
    ) -> None:
        ann = User.objects.create_user("ann")
        for result in ("agree", "agree", "disagree", ""):
            made = decide(ann, graph="a")
            SpotCheck.objects.create(interrupt=made.interrupt, decision=made, result=result)
        page = admin_client.get(PAGE)
        assert [row.agreement.text for row in page.context["graphs"]] == ["2 of 3 (67 %)"]
        assert [row.agreement.text for row in page.context["reviewers"]] == ["2 of 3 (67 %)"]

    @pytest.mark.parametrize(
        ("query", "unit", "second_row"),
        [("days=7", "day", "2026"), ("days=90", "week", " – "), ("days=365", "month", " – ")],
    )
    def test_insights_page_of_each_offered_period_has_charts_and_tables_in_the_unit_of_the_period(
        self, query: str, unit: str, second_row: str, admin_client: Client, admin_user: User
    ) -> None:
        decide(None, days=0.01)
        page = admin_client.get(f"{PAGE}?{query}")
        (offered,) = [label for label, _url, is_current in page.context["periods"] if is_current]
        assert offered == {"7": "7 days", "90": "90 days", "365": "1 year"}[query[5:]]
        for plot in page.context["plots"]:
            assert plot.head[0].lower() == unit
            assert second_row in plot.rows[1][0]
            assert 6 <= len(plot.rows) <= 14
        for url, text in links(page):
            if text.isdigit():
                assert open_list(url, admin_user).result_count == int(text), url

    def test_insights_page_of_one_reviewer_has_numbers_and_links_of_their_decisions(
        self, admin_client: Client, admin_user: User
    ) -> None:
        ann, ben = (User.objects.create_user(name) for name in ("ann", "ben"))
        for by, kind in ((ann, "approve"), (ann, "reject"), (ben, "approve"), (None, "edit")):
            decide(by, kind)
        make_interrupt({})
        page = admin_client.get(f"{PAGE}?by={ann.pk}&days=90")
        tiles = {str(one.label): one.text for one in page.context["tiles"]}
        assert tiles == {
            "Decided": "2",
            "Approval rate": "50 %",
            "Median time to decide": "1 h",
            "90th percentile": "1 h",
        }
        names = {row.label.text for row in page.context["reviewers"]}
        assert names == {"ann", "ben", "(without an account)"}
        _graph, people = page.context["menus"]
        assert [one["display"] for one in people.choices if one["selected"]] == ["ann"]
        for url, text in links(page):
            if text.isdigit():
                assert open_list(url, admin_user).result_count == int(text), url
        rows = rows_of(admin_client.get(page.context["csv_url"]))
        assert [row["by"] for row in rows] == ["ann", "ann"]
        assert "record_url" not in page.context

    def test_insights_page_tiles_compare_each_figure_with_the_previous_period(
        self, admin_client: Client
    ) -> None:
        ann = User.objects.create_user("ann")
        for kind, days, hours, result in (
            ("approve", 2, 1, "agree"),
            ("approve", 2, 5, "agree"),
            ("reject", 2, 6, ""),
            ("approve", 10, 2, "agree"),
            ("approve", 10, 6, "disagree"),
        ):
            made = decide(ann, kind, days=days, took=timedelta(hours=hours))
            if result:
                check = SpotCheck.objects.create(
                    interrupt=made.interrupt, decision=made, result=result
                )
                SpotCheck.objects.filter(pk=check.pk).update(created_at=made.created_at)
        make_interrupt({})
        page = admin_client.get(f"{PAGE}?days=7")
        changes = {str(one.label): one.change for one in page.context["tiles"]}
        assert {
            label: change and (change.text, change.icon, change.css)
            for label, change in changes.items()
        } == {
            "Requests": ("2 more", "arrow-up", ""),
            "Decided": ("1 more", "arrow-up", ""),
            "Approval rate": ("33 points lower", "arrow-down", ""),
            "Median time to decide": ("1 h more", "arrow-up", "is-worse"),
            "90th percentile": ("12 min more", "arrow-up", "is-worse"),
            "Spot-check agreement": ("50 points higher", "arrow-up", "is-better"),
            "Open now": None,
        }
        html = text_of(page)
        assert html.count("compared with the previous 7 days") == 6
        first, last = (timezone.localdate() - timedelta(days=days) for days in (13, 7))
        dates = f"{first:%m/%d/%Y} – {last:%m/%d/%Y}"
        assert f"Compared with the previous 7 days: {dates}." in html

    def test_insights_page_marks_shorter_times_as_better_and_lower_agreement_as_worse(
        self, admin_client: Client
    ) -> None:
        for days, hours, result in ((2, 1, "disagree"), (10, 3, "agree")):
            made = decide(None, days=days, took=timedelta(hours=hours))
            check = SpotCheck.objects.create(interrupt=made.interrupt, decision=made, result=result)
            SpotCheck.objects.filter(pk=check.pk).update(created_at=made.created_at)
        page = admin_client.get(f"{PAGE}?days=7")
        changes = {str(one.label): one.change for one in page.context["tiles"]}
        median, agreed = changes["Median time to decide"], changes["Spot-check agreement"]
        assert (median.text, median.icon, median.css) == ("2 h less", "arrow-down", "is-better")
        assert (agreed.text, agreed.css) == ("100 points lower", "is-worse")
        unchanged = changes["Decided"]
        assert (unchanged.text, unchanged.icon, unchanged.css) == ("Unchanged", "", "")
        html = text_of(page)
        assert re.search(r'is-better"><svg[^>]*>.*?hitl-arrow-down.*?</svg> 2 h less', html)

    @pytest.mark.parametrize("days", [None, 20])
    def test_insights_page_without_data_in_the_previous_period_shows_no_comparison(
        self, days: float | None, admin_client: Client
    ) -> None:
        decide(None)
        if days:
            decide(None, days=days)  # before the previous period
        page = admin_client.get(f"{PAGE}?days=7")
        assert [one.change for one in page.context["tiles"]] == [None] * 6
        assert "ompared with the previous" not in text_of(page)

    def test_insights_page_has_the_share_of_decisions_before_their_due_time(
        self, admin_client: Client
    ) -> None:
        now = timezone.now()
        for days, due in ((2, -1), (2, 1), (2, 1), (2, None), (10, 1)):
            due_at = None if due is None else now - timedelta(days=days) + timedelta(hours=due)
            decide(None, days=days, due_at=due_at, graph="a")
        page = admin_client.get(f"{PAGE}?days=7")
        tiles = {str(one.label): one for one in page.context["tiles"]}
        tile = tiles["Decided on time"]
        assert (tile.text, tile.detail) == ("67 %", "1 late")
        assert (tile.change.text, tile.change.css) == ("33 points lower", "is-worse")
        assert tiles["Decided"].detail == ""
        [row] = page.context["graphs"]
        assert {str(one.label): one.text for one in row.figures}["Late"] == "1"

    def test_insights_page_without_due_decisions_has_no_share_of_decisions_on_time(
        self, admin_client: Client
    ) -> None:
        decide(None)
        page = admin_client.get(PAGE)
        assert "Decided on time" not in text_of(page)

    def test_insights_page_shows_the_share_of_approvals_with_changes_per_reviewer(
        self, admin_client: Client
    ) -> None:
        ann = User.objects.create_user("ann")
        for kind in ("approve", "edit", "edit", "reject"):
            decide(ann, kind)
        [row] = admin_client.get(PAGE).context["reviewers"]
        assert {str(one.label): one.text for one in row.figures}["With changes"] == "50 %"

    def test_insights_page_without_decisions_in_the_period_compares_only_the_counts(
        self, admin_client: Client
    ) -> None:
        decide(None, days=10)
        page = admin_client.get(f"{PAGE}?days=7")
        changes = {str(one.label): one.change and one.change.text for one in page.context["tiles"]}
        assert changes == {
            "Requests": "1 fewer",
            "Decided": "1 fewer",
            "Approval rate": None,
            "Median time to decide": None,
            "90th percentile": None,
            "Open now": None,
        }

    def test_insights_page_comparison_applies_the_graph_and_reviewer_filters(
        self, admin_client: Client
    ) -> None:
        ann, ben = (User.objects.create_user(name) for name in ("ann", "ben"))
        for by, graph, days in (
            (ann, "approval", 2),
            (ann, "approval", 10),
            (ben, "approval", 10),
            (ann, "essay", 10),
        ):
            decide(by, graph=graph, days=days)
        for query, text in (
            ("", "2 fewer"),
            ("&graph=approval", "1 fewer"),
            (f"&by={ann.pk}", "1 fewer"),
            (f"&graph=approval&by={ann.pk}", "Unchanged"),
        ):
            page = admin_client.get(f"{PAGE}?days=7{query}")
            changes = {str(one.label): one.change for one in page.context["tiles"]}
            assert changes["Decided"].text == text, query

    def test_insights_page_of_a_single_day_compares_with_the_previous_day(
        self, admin_client: Client
    ) -> None:
        for days in (2, 3):
            decide(None, days=days)
        day = timezone.localdate(timezone.now() - timedelta(days=2)).isoformat()
        html = text_of(admin_client.get(f"{PAGE}?first={day}&last={day}"))
        assert "Compared with the previous day: " in html

    def test_insights_page_comparison_with_language_code_de_is_in_german(
        self, admin_client: Client
    ) -> None:
        for days, hours in ((2, 5), (3, 5), (10, 6)):
            decide(None, "edit", days=days, took=timedelta(hours=hours))
        with translation.override("de"):
            page = admin_client.get(f"{PAGE}?days=7")
        changes = [one.change.text for one in page.context["tiles"] if one.change]
        assert changes == [
            "1 mehr", "1 mehr", "Unverändert", "1 Std. weniger", "1 Std. weniger",
        ]  # fmt: skip
        html = text_of(page)
        assert "im Vergleich zu den 7 Tagen davor" in html
        assert "Im Vergleich zu den 7 Tagen davor: " in html

    @pytest.mark.promise("P18")
    def test_insights_page_comparison_counts_only_requests_visible_to_the_user(
        self, lead: Callable[..., Client], settings: Any
    ) -> None:
        settings.HITL = {
            **settings.HITL,
            "POLICY": "tests.contrib.insights.test_reports.OnlyOpen",
        }
        for graph, days in (("open", 2), ("open", 10), ("shut", 10), ("shut", 10)):
            decide(None, graph=graph, days=days)
        page = lead().get(f"{PAGE}?days=7")
        changes = {str(one.label): one.change for one in page.context["tiles"]}
        assert changes["Requests"].text == changes["Decided"].text == "Unchanged"

    def test_insights_page_menu_links_preserve_the_remaining_filters_and_the_period(
        self, admin_client: Client, asked: Callable[..., Interrupt]
    ) -> None:
        ann = User.objects.create_superuser("ann")
        services.decide(asked("approval").pk, "approve", by=ann)
        page = admin_client.get(f"{PAGE}?days=7&graph=approval&by={ann.pk}")
        graphs, people = page.context["menus"]
        assert [one["query_string"] for one in graphs.choices] == [
            f"?days=7&by={ann.pk}", f"?days=7&graph=approval&by={ann.pk}",
        ]  # fmt: skip
        assert people.choices[0]["query_string"] == "?days=7&graph=approval"
        assert page.context["periods"][2][1] == f"?days=90&graph=approval&by={ann.pk}"
        page = admin_client.get(f"{PAGE}?first=2026-01-01&last=2026-01-31")
        graphs, _people = page.context["menus"]
        assert graphs.choices[1]["query_string"] == (
            "?first=2026-01-01&last=2026-01-31&graph=approval"
        )

    def test_insights_page_of_one_reviewer_without_reviewer_insights_permission_returns_403(
        self, lead: Callable[..., Client]
    ) -> None:
        client = lead("export_decisions")
        for url in (PAGE, DECISIONS):
            assert client.get(f"{url}?by=1").status_code == 403

    def test_insights_page_without_decisions_shows_dashes_and_no_reviewers(
        self, admin_client: Client
    ) -> None:
        page = admin_client.get(PAGE)
        assert [one.text for one in page.context["tiles"]] == ["0", "0", "–", "–", "–", "0"]
        assert "No decisions in this period." in text_of(page)
        assert "By reviewer" not in text_of(page)


class TestPlots:
    def test_line_chart_has_a_gap_at_missing_values(self) -> None:
        svg = plots.draw_lines("x", "t", "d", "abcd", [plots.Series("s", [1, 2, None, 4])])
        assert svg.count("hitl-dot") == 1
        assert len(re.findall(r'<path class="a" d="M', svg)) == 1

    @pytest.mark.parametrize("largest", [0, 1, 3, 9, 10, 99, 12345, 0.2])
    def test_line_chart_axis_has_two_to_six_grid_lines_up_to_the_maximum(
        self, largest: float
    ) -> None:
        svg = plots.draw_lines("x", "t", "d", ["a", "b"], [plots.Series("s", [0, largest])])
        levels = re.findall(r'class="hitl-level"[^>]*>([\d.]+)<', svg)
        assert 2 <= len(levels) <= 4
        assert float(levels[0]) == 0
        assert float(levels[-1]) >= largest

    @pytest.mark.parametrize(
        ("largest", "levels"),
        [
            (1, ["0", "1"]),
            (7, ["0", "3", "6", "9"]),
            (11, ["0", "4", "8", "12"]),
            (62, ["0", "25", "50", "75"]),
            (340, ["0", "200", "400"]),
            (1100, ["0", "400", "800", "1200"]),
        ],
    )
    def test_line_chart_axis_ends_close_above_the_maximum(
        self, largest: float, levels: list[str]
    ) -> None:
        svg = plots.draw_lines("x", "t", "d", ["a", "b"], [plots.Series("s", [0, largest])])
        assert re.findall(r'class="hitl-level"[^>]*>([\d.]+)<', svg) == levels

    @pytest.mark.parametrize("places", [1, 2, 3, 4, 30, 366])
    def test_line_chart_axis_labels_are_unique_and_include_first_and_last(
        self, places: int
    ) -> None:
        names = [f"day{n}" for n in range(places)]
        svg = plots.draw_lines("x", "t", "d", names, [plots.Series("s", [1.0] * places)])
        found = re.findall(r">(day\d+)<", svg)
        assert len(found) == len(set(found)) == min(places, plots.NAMES)
        assert (found[0], found[-1]) == (names[0], names[-1])

    def test_line_chart_grid_lines_of_durations_are_labelled_in_a_single_unit(
        self, admin_client: Client
    ) -> None:
        decide(None)
        Interrupt.objects.update(created_at=timezone.now() - timedelta(days=2, hours=4))
        times = admin_client.get(PAGE).context["plots"][1].svg
        assert re.findall(r'class="hitl-level"[^>]*>([^<]+)<', times) == [
            "0",
            "12 h",
            "1 d",
            "1.5 d",
        ]

    @pytest.mark.parametrize(
        ("seconds", "words"),
        [(None, "–"), (0, "0 s"), (59, "59 s"), (60, "1 min"), (3570, "1 h"), (5400, "1 h 30 min"),
         (86399, "1 d"), (129600, "1 d 12 h"), (86400 * 2 + 60, "2 d")],
    )  # fmt: skip
    def test_describe_seconds_formats_duration_in_at_most_two_units(
        self, seconds: float | None, words: str
    ) -> None:
        assert reports_page.describe_seconds(seconds) == words


def rows_of(response: Any) -> list[dict[str, str]]:
    data = b"".join(response.streaming_content)
    assert data.startswith(b"\xef\xbb\xbf")
    head, *rows = csv.reader(io.StringIO(data.decode("utf-8-sig"), newline=""), strict=True)
    assert {len(row) for row in rows} <= {len(head)}
    return [dict(zip(head, row, strict=True)) for row in rows]


class TestDecisionsAsCsv:
    def test_decisions_csv_contains_quotes_newlines_and_unicode_unchanged(
        self, lead: Callable[..., Client]
    ) -> None:
        client = lead("export_decisions", "view_reviewer_insights")
        reason = 'It was "late",\r\nand; wet\u2028so – no.'
        made = decide(User.objects.create_user("ann"), title="Refund, “120”?", graph="typed")
        Decision.objects.filter(pk=made.pk).update(reason=reason)
        response = client.get(DECISIONS)
        assert response["Content-Type"] == "text/csv; charset=utf-8"
        assert "attachment" in response["Content-Disposition"]
        (row,) = rows_of(response)
        assert (row["id"], row["title"], row["reason"]) == (str(made.pk), "Refund, “120”?", reason)
        assert (row["by"], row["type"], row["changed"]) == ("ann", "approve", "no")
        assert datetime.fromisoformat(row["decided_at"]) == made.created_at
        assert float(row["seconds"]) == pytest.approx(3600)

    @pytest.mark.parametrize("text", FORMULAS)
    def test_decisions_csv_prefixes_cells_that_start_like_formulas(
        self, text: str, admin_client: Client
    ) -> None:
        ann = User.objects.create_user("ann")
        made = decide(ann, title=text, graph=text.strip() or "x", node=text)
        Decision.objects.filter(pk=made.pk).update(reason=text, by_label=text, via=text)
        (row,) = rows_of(admin_client.get(DECISIONS))
        for name in ("title", "node", "reason", "by", "via"):
            assert row[name] == f"'{text}", name
        assert not [v for v in row.values() if v[:1] in "=+-@\t\r\n" and v]

    def test_decisions_csv_without_reviewer_insights_permission_omits_reviewer_names(
        self, lead: Callable[..., Client]
    ) -> None:
        decide(User.objects.create_user("ann-of-accounting"))
        response = lead("export_decisions").get(DECISIONS)
        assert "ann-of-accounting" not in response.getvalue().decode()

    def test_decisions_csv_reads_rows_in_pages_by_creation_time(
        self, admin_client: Client, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("hitl_django.contrib.insights.exports.PAGE", 2)
        monkeypatch.setattr(csv_download, "TOGETHER", 3)
        made = [str(decide(None, days=1 + n / 2).pk) for n in range(5)]
        # Equal times: the key continues the order.
        Decision.objects.update(created_at=timezone.now())
        with CaptureQueriesContext(connection) as queries:
            found = [row["id"] for row in rows_of(admin_client.get(DECISIONS))]
        assert sorted(found) == sorted(made)
        first, *more = [q["sql"] for q in queries if q["sql"].endswith("LIMIT 2")]
        assert len(more) == 2
        # Each page begins where the previous page ended, instead of reading from the period's first
        # day.
        bound = re.compile(r'AND "hitl_django_decision"."created_at" >= ')
        assert not bound.search(first)
        assert all(bound.search(sql) for sql in more)

    def test_decisions_csv_contains_only_decisions_of_the_period_and_graph(
        self, admin_client: Client, asked: Callable[..., Interrupt]
    ) -> None:
        services.decide(asked("approval").pk, "approve", by=User.objects.create_superuser("ann"))
        decide(None, graph="other")
        decide(None, days=50)
        assert len(rows_of(admin_client.get(DECISIONS))) == 2
        found = rows_of(admin_client.get(f"{DECISIONS}?graph=approval"))
        assert [row["graph"] for row in found] == ["approval"]

    def test_csv_download_under_asgi_contains_header_and_rows(self) -> None:
        request = ASGIRequest({"type": "http", "method": "GET", "path": "/", "headers": []}, None)

        async def read() -> bytes:
            response = csv_download.stream_csv(request, "x.csv", ["a"], [["1"], ["=1"]])
            return b"".join([part async for part in response])  # type: ignore[misc]

        assert asyncio.run(read()).decode("utf-8-sig") == "a\r\n1\r\n'=1\r\n"

    def test_csv_download_writes_numbers_booleans_and_empty_cells_without_prefix(self) -> None:
        response = csv_download.stream_csv(HttpRequest(), "x.csv", ["a"], [[-1.5, None, True, ""]])
        assert response.getvalue().decode("utf-8-sig").splitlines()[1] == "-1.5,,yes,"


class TestAuditLogCsv:
    @pytest.fixture
    def decided(self, asked: Callable[..., Interrupt]) -> Thread:
        ann = User.objects.create_superuser("=ann")
        item = asked("approval", text="the news")
        services.comment(item.pk, "Hm.", by=ann)
        services.decide(item.pk, "approve", by=ann, reason="=fine – “so”")
        return item.thread

    def test_audit_log_csv_rows_contain_the_hash_chain_ending_in_the_hash_of_the_thread(
        self, decided: Thread, admin_client: Client
    ) -> None:
        rows = rows_of(admin_client.get(RECORD))
        assert len(rows) == AuditEntry.objects.filter(thread=decided).count() > 2
        previous = ""
        for number, row in enumerate(rows, start=1):
            digest = hashlib.sha256((row["prev_hash"] + row["hashed"]).encode()).hexdigest()
            assert (row["prev_hash"], row["hash"]) == (previous, digest)
            assert json.loads(row["hashed"])["seq"] == int(row["seq"]) == number
            previous = row["hash"]
        decided.refresh_from_db()
        assert previous == decided.audit_hash

    def test_audit_log_csv_row_changed_in_the_database_has_a_wrong_hash(
        self, decided: Thread, admin_client: Client
    ) -> None:
        AuditEntry.objects.filter(thread=decided, seq=2).update(actor_label="somebody else")
        assert audit.find_first_fault(decided) == 2
        row = rows_of(admin_client.get(RECORD))[1]
        hashed = (row["prev_hash"] + row["hashed"]).encode()
        assert hashlib.sha256(hashed).hexdigest() != row["hash"]

    def test_audit_log_csv_escapes_formula_in_name_column_and_contains_exact_name_in_json_column(
        self, decided: Thread, admin_client: Client
    ) -> None:
        row = rows_of(admin_client.get(RECORD))[-1]
        assert row["actor"] == "'=ann"
        told = json.loads(row["names"])["actor"]
        committed = hashlib.sha256((told["salt"] + "=ann").encode()).hexdigest()
        assert json.loads(row["hashed"])["actor"] == {"name": committed}
        assert told["name"] == "=ann"
        assert row["hashed"].startswith("{")

    def test_audit_log_csv_without_reviewer_insights_permission_returns_403(
        self, decided: Thread, lead: Callable[..., Client]
    ) -> None:
        assert lead("export_decisions").get(RECORD).status_code == 403
        assert RECORD not in text_of(lead().get(PAGE))
        assert lead("view_reviewer_insights").get(RECORD).status_code == 200

    def test_audit_log_csv_omits_threads_with_any_hidden_interrupt(
        self, decided: Thread, admin_client: Client, settings: Any
    ) -> None:
        settings.HITL = {"POLICY": "tests.contrib.insights.test_reports.OnlyOpen"}
        Interrupt.objects.filter(thread=decided).update(graph="open")
        assert rows_of(admin_client.get(RECORD))
        make_interrupt({}, graph="shut")
        Interrupt.objects.filter(graph="shut").update(thread=decided)
        assert rows_of(admin_client.get(RECORD)) == []

    def test_audit_log_csv_lists_entries_in_order_per_thread(
        self, admin_client: Client, asked: Callable[..., Interrupt], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("hitl_django.services.reviews.audit_export.THREADS", 2)
        ann = User.objects.create_superuser("ann")
        for text in "abcde":
            services.decide(asked("approval", text=text).pk, "approve", by=ann)
        asked("approval", text="not decided")
        found = [(row["thread_id"], int(row["seq"])) for row in rows_of(admin_client.get(RECORD))]
        assert len({thread for thread, _ in found}) == 5
        order = list(dict.fromkeys(thread for thread, _ in found))
        assert found == sorted(found, key=lambda one: (order.index(one[0]), one[1]))
