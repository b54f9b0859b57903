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
    tiles = lead.locator(".hitl-tiles > div")
    labels, numbers = (tiles.locator(tag).all_inner_texts() for tag in ("dt", "dd"))
    said = dict(zip(labels, numbers, strict=True))
    assert (said["Requests"], said["Decided"], said["Pending now"]) == ("4", "3", "1")
    plot = lead.locator("figure svg").first
    assert plot.get_attribute("role") == "img"
    assert plot.bounding_box()["width"] > 250
    with leads_on(lead):
        lead.locator(".hitl-shares").nth(1).locator("td a").first.click()
    assert lead.locator("#result_list tbody tr").count() == 2
    assert lead.locator("#result_list").inner_text().count("ravi") == 2
    lead.go_back()
    lead.fill("[name=first]", "2020-01-01")
    lead.fill("[name=last]", "2020-02-01")
    with leads_on(lead):
        lead.click("text=Apply >> visible=true")
    assert "No decisions in this period." in lead.inner_text("#content-main")


def test_insights_charts_have_data_tables_and_dashed_second_series(lead: Any) -> None:
    lead.goto("/admin/hitl_insights/spotcheck/reports/")
    for page in ("counts", "times"):
        section = lead.locator(f"section[aria-labelledby={page}]")
        section.locator("summary").click()
        assert section.locator("tbody tr").count() == 30
    style = "element => getComputedStyle(element).strokeDasharray"
    if lead.locator("html[data-theme]").count():  # scripts are on
        first, second = (
            lead.locator(f"figure .hitl-series-{n}").first.evaluate(style) for n in (0, 1)
        )
        assert first == "none" != second


def test_insights_page_downloads_the_audit_log_as_csv(lead: Any) -> None:
    lead.goto("/admin/hitl_insights/spotcheck/reports/")
    with lead.expect_download() as found:
        lead.click("text=Export audit log")
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
        lead.click(".hitl-views >> text=Delete view")
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
    assert "Read twice." not in lead.inner_text("#content-main")
    lead.check("[name=result][value=disagree]")
    lead.fill("[name=reason]", "It isn't news.")
    with leads_on(lead):
        lead.click(".submit-row button")
    assert "Read twice." in lead.inner_text("#content-main")
    look.refresh_from_db()
    assert (look.result, look.reason, look.by_label) == ("disagree", "It isn't news.", "rita")
