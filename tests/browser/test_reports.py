"""Tasks of a team lead: reports, counted rows, saved filters and spot checks."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from hitl_django import services
from hitl_django.contrib.insights.models import SpotCheck
from hitl_django.models import Decision, SavedFilter

from .conftest import PASSWORD, leads_on
from .scenes import ask, people

pytestmark = [
    pytest.mark.browser,
    pytest.mark.any_database,
    pytest.mark.django_db(transaction=True),
]

WAYS = [
    {"viewport": {"width": 1280, "height": 800}},
    {"viewport": {"width": 390, "height": 844}, "color_scheme": "dark"},
    {"viewport": {"width": 1280, "height": 800}, "java_script_enabled": False},
]


@pytest.fixture(params=WAYS, ids=["desk", "phone, dark", "no script"])
def lead(
    request: pytest.FixtureRequest, start: Callable[..., Any], log_in: Callable[..., Any]
) -> Any:
    _, ravi = people(PASSWORD)
    for text, kind in (("the news", "approve"), ("the weather", "approve"), ("lies", "reject")):
        services.decide(ask("approval", text=text).pk, kind, by=ravi, reason="Read twice.")
    ask("approval", text="the stars")
    return log_in("rita", **request.param)


def test_insights_numbers_link_to_matching_rows(lead: Any) -> None:
    with leads_on(lead):
        lead.click("text=1 request needs your review")
    assert lead.url.endswith("/reviewitem/")
    if not lead.locator(".hitl-nav-links").is_visible():
        lead.get_by_title("Menu").click()
    with leads_on(lead):
        lead.locator(".hitl-nav >> text=Insights >> visible=true").click()
    tiles = lead.locator(".hitl-kpis > *")
    labels, numbers = (tiles.locator(css).all_inner_texts() for css in (".hitl-k", ".hitl-v"))
    said = dict(zip(labels, numbers, strict=True))
    assert (said["Requests"], said["Decided"], said["Open now"]) == ("4", "3", "1")
    assert said["Approval rate"] == "67 %"
    plot = lead.locator(".hitl-lines").first
    assert plot.get_attribute("role") == "img"
    assert plot.bounding_box()["width"] > 250
    with leads_on(lead):
        lead.locator(".hitl-shares").nth(1).locator("td a").first.click()
    assert lead.locator("#result_list tbody tr").count() == 3
    assert lead.locator("#result_list").inner_text().count("ravi") == 3
    lead.go_back()
    lead.click("summary:has-text('Custom…')")
    lead.fill("[name=first]", "2020-01-01")
    lead.fill("[name=last]", "2020-02-01")
    with leads_on(lead):
        lead.click("text=Apply >> visible=true")
    assert "No decisions in this period." in lead.inner_text("#hitl")


def test_insights_page_fits_the_window_width_and_is_filtered_by_the_reviewer_menu(
    lead: Any,
) -> None:
    lead.goto("/admin/hitl_insights/spotcheck/reports/")
    assert lead.evaluate("document.documentElement.scrollWidth <= innerWidth")
    for text in lead.locator(".hitl-lines text").all():
        box = text.bounding_box()
        assert box["height"] > 8
        assert box["x"] >= 0
        assert box["x"] + box["width"] <= lead.viewport_size["width"]
    lead.click("summary:has-text('Reviewer')")
    with leads_on(lead):
        lead.locator(".hitl-item >> text=ravi").click()
    assert "Reviewer: ravi" in lead.inner_text(".hitl-page-head")
    assert lead.locator(".hitl-kpis > *").first.inner_text().split() == ["Decided", "3"]


def test_insights_charts_have_data_tables_and_dashed_second_series(lead: Any) -> None:
    lead.goto("/admin/hitl_insights/spotcheck/reports/")
    for page in ("counts", "times"):
        section = lead.locator(f"section[aria-labelledby={page}]").first
        section.locator("summary").click()
        assert section.locator("tbody tr").count() == 30
    style = "element => getComputedStyle(element).strokeDasharray"
    if lead.locator("html[data-theme]").count():  # scripts are on
        first, second = (
            lead.locator(f".hitl-lines path.{css}").first.evaluate(style) for css in "ab"
        )
        assert first == "none" != second


def test_insights_page_downloads_the_audit_log_as_csv(lead: Any) -> None:
    lead.goto("/admin/hitl_insights/spotcheck/reports/")
    lead.click("summary:has-text('CSV')")
    with lead.expect_download() as found:
        lead.click("text=Audit log with hashes")
    assert found.value.suggested_filename.startswith("record-")
    with open(found.value.path(), encoding="utf-8-sig") as file:
        assert file.readline().startswith("thread_id,seq,at,")


def test_queue_filter_is_saved_applied_and_removed(lead: Any) -> None:
    lead.goto("/admin/hitl_django/reviewitem/?q=stars")
    lead.click(".hitl-views > summary")
    lead.fill(".hitl-save [name=name]", "Stars")
    with leads_on(lead):
        lead.click(".hitl-save button")
    lead.goto("/admin/hitl_django/reviewitem/")
    lead.click(".hitl-views > summary")
    with leads_on(lead):
        lead.click(".hitl-views >> text=Stars")
    assert lead.locator("#searchbar").input_value() == "stars"
    lead.click(".hitl-views > summary")
    with leads_on(lead):
        lead.click(".hitl-views >> text=Delete saved filter")
    lead.wait_for_url("**/reviewitem/**")
    assert not SavedFilter.objects.exists()


def test_spot_check_page_shows_the_original_reason_only_after_the_result_is_saved(
    lead: Any,
) -> None:
    decision = Decision.objects.filter(type="approve")[0]
    look = SpotCheck.objects.create(interrupt_id=decision.interrupt_id, decision=decision)
    lead.goto("/admin/hitl_insights/spotcheck/")
    with leads_on(lead):
        lead.click("#result_list .hitl-title")
    assert "Read twice." not in lead.inner_text("#hitl")
    lead.check("[name=result][value=disagree]")
    lead.fill("[name=reason]", "It isn't news.")
    with leads_on(lead):
        lead.click(".hitl-bar button")
    assert "Read twice." in lead.inner_text("#hitl")
    look.refresh_from_db()
    assert (look.result, look.reason, look.by_label) == ("disagree", "It isn't news.", "rita")
