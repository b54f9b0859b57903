"""Choices with nested fields, and tables, filled in by a user."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from hitl_django.models import Decision, Interrupt, Run

from .conftest import leads_on, wait_until
from .scenes import SHIPMENT
from .test_reviewing import PHONE, WITHOUT_JAVASCRIPT, button

pytestmark = [pytest.mark.browser, pytest.mark.django_db(transaction=True)]

Start = Callable[..., Run]
WINDOWS = {"desk": {}, "without JavaScript": WITHOUT_JAVASCRIPT, "phone": PHONE}


@pytest.fixture
def address(start: Start) -> str:
    run = start("order", payload=SHIPMENT)
    item = Interrupt.objects.get(run=run)
    return f"/admin/hitl_django/reviewitem/{item.pk}/change/"


def cell(page: Any, name: str, row: int | str) -> Any:
    return page.get_by_label(f"{name}, {row}", exact=True)


@pytest.mark.parametrize("window", WINDOWS.values(), ids=WINDOWS)
def test_reviewer_switches_alternative_and_edits_table_rows_and_saves_the_edit(
    log_in: Callable[..., Any], address: str, window: dict[str, Any]
) -> None:
    page = log_in(**window)
    page.goto(address)
    phone = page.get_by_label("Number")
    assert page.get_by_label("Address").input_value() == "dana@example.com"
    assert not phone.is_visible()

    page.get_by_role("radio", name="Phone").check()
    assert not page.get_by_label("Address").is_visible()
    phone.fill("0171 23")
    cell(page, "Count", 1).fill("5")
    cell(page, "Remove", 2).check()
    cell(page, "Sku", "Add row").fill("C-3")
    cell(page, "Count", "Add row").fill("7")
    with leads_on(page):
        button(page, "Add rows").click()
    assert cell(page, "Sku", "Add row").count() == 4
    assert phone.input_value() == "0171 23"

    with leads_on(page):
        button(page, "Approve").click()
    assert "with changes" in page.inner_text(":is(.messagelist, .hitl-toast)")
    value = Decision.objects.get().value
    assert value["contact"] == {"kind": "phone", "number": "0171 23"}
    assert value["lines"] == [
        {"sku": "A-1", "count": 5, "price": 12.5},
        {"sku": "C-3", "count": 7},
    ]


@pytest.mark.parametrize("language", ["en", "de"])
def test_request_form_with_three_invalid_fields_marks_three_errors_after_submission(
    log_in: Callable[..., Any], address: str, language: str, settings: Any
) -> None:
    settings.LANGUAGE_CODE = language
    page = log_in()
    page.goto(address)
    page.locator("[name='answer/contact?0/address']").fill("dana")
    page.locator("[name='answer/lines/0/count']").fill("100")
    page.locator("[name='answer/lines/0/price']").fill("twelve")
    with leads_on(page):
        page.locator("button[value=approve]").click()
    page.locator(":is(.errornote, .hitl-notice.is-bad:not([hidden]))").wait_for()
    said = {
        "en": ["for example dana@example.com", "between 1 and 99", "for example 12.50"],
        "de": ["zum Beispiel dana@example.com", "zwischen 1 und 99", "zum Beispiel 12,50"],
    }[language]
    found = page.locator(".errorlist li").all_inner_texts()
    assert len(found) == 3
    assert all(any(words in line for line in found) for words in said), found
    assert not Decision.objects.exists()


def test_reviewer_approving_after_another_reviewer_sees_the_conflict_and_entered_values(
    log_in: Callable[..., Any], address: str
) -> None:
    rita, ravi = log_in("rita"), log_in("ravi")
    for page in (rita, ravi):
        page.goto(address)
    with leads_on(ravi):
        button(ravi, "Approve").click()
    ravi.locator(":is(.messagelist, .hitl-toast)").wait_for()
    rita.get_by_role("radio", name="Phone").check()
    rita.get_by_label("Number").fill("0171 23")
    cell(rita, "Sku", 1).fill("Z-9")
    with leads_on(rita):
        button(rita, "Approve").click()
    told = rita.inner_text("#content")
    assert "ravi approved this" in told
    for kept in ("Phone", "0171 23", "Z-9"):
        assert kept in told


def test_draft_of_chosen_alternative_is_restored_after_navigation(
    log_in: Callable[..., Any], address: str
) -> None:
    page = log_in()
    page.goto(address)
    page.get_by_role("radio", name="Phone").check()
    page.get_by_label("Number").fill("0171 23")
    page.goto("/admin/")
    page.goto(address)
    wait_until(page, "document.querySelector(\"[name='answer/contact?kind'][value='1']\").checked")
    assert page.get_by_label("Number").input_value() == "0171 23"
