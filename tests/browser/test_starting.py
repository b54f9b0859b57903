"""Starting runs and bulk operations in a browser, with and without JavaScript."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from django.contrib.auth import get_user_model
from django.contrib.auth.models import Permission

from hitl_django import services
from hitl_django.models import Interrupt, Run
from tests import graphs

from .conftest import PASSWORD, leads_on
from .test_accessibility import faults
from .test_operating import fits

pytestmark = [pytest.mark.browser, pytest.mark.django_db(transaction=True)]

MAY = ("view_interrupt", "view_run", "view_thread", "start_run", "operate_run")
WAYS = [
    {"viewport": {"width": 1280, "height": 800}},
    {
        "viewport": {"width": 390, "height": 844},
        "java_script_enabled": False,
        "color_scheme": "dark",
    },
]
NAMES = ["desktop", "phone without JavaScript, dark"]
RUNS = "/admin/hitl_django/run/"


@pytest.fixture
def operator(transactional_db: None) -> str:
    user = get_user_model().objects.create_user("otto", password=PASSWORD, is_staff=True)
    user.user_permissions.set(
        Permission.objects.filter(content_type__app_label__startswith="hitl_", codename__in=MAY)
    )
    return "otto"


@pytest.fixture
def failed(start: Callable[..., Run]) -> Iterator[list[Run]]:
    graphs.FAILING.add("now")
    made = [start("fragile", count=number) for number in range(3)]
    graphs.FAILING.clear()
    yield made
    graphs.FAILING.clear()


def looks(page: Any, options: dict[str, Any]) -> list[str]:
    if not options.get("java_script_enabled", True):
        return []
    assert fits(page)
    return faults(page)


def press(page: Any, name: str) -> None:
    with leads_on(page):
        page.get_by_role("button", name=name, exact=True).click()


@pytest.mark.parametrize("options", WAYS, ids=NAMES)
def test_run_list_links_to_start_form_that_starts_a_run(
    operator: str, start: Callable[..., Run], log_in: Callable[..., Any], options: dict[str, Any]
) -> None:
    page = log_in(operator, **options)
    page.goto(RUNS)
    with leads_on(page):
        page.get_by_role("link", name="Start a run").click()
    assert looks(page, options) == []
    with leads_on(page):
        page.get_by_role("link", name="typed", exact=True).click()
    page.get_by_label("Amount").fill("twelve")
    page.get_by_label("Customer").fill("Dana K.")
    press(page, "Start run")
    assert "The run was not started." in page.inner_text(".hitl-notice.is-bad")
    assert page.get_by_label("Amount").input_value() == "twelve"
    assert looks(page, options) == []
    page.get_by_label("Amount").fill("12.50")
    press(page, "Start run")
    run = Run.objects.get()
    assert page.url.endswith(f"{RUNS}{run.pk}/change/")
    assert "Run queued." in page.inner_text(":is(.messagelist, .hitl-toast)")
    assert run.started_by_label == "otto"


def test_start_form_draft_is_restored_after_navigation_and_deleted_after_start(
    operator: str, start: Callable[..., Run], log_in: Callable[..., Any]
) -> None:
    page = log_in(operator)
    page.goto(f"{RUNS}start/typed/")
    page.get_by_label("Customer").fill("Dana K.")
    page.goto(RUNS)
    page.goto(f"{RUNS}start/typed/")
    page.wait_for_selector(".hitl-unsent")
    assert page.get_by_label("Customer").input_value() == "Dana K."
    # Enter in a field doesn't submit the form. After the start, the page has no unsent input.
    page.get_by_label("Customer").press("Enter")
    assert not Run.objects.exists()
    press(page, "Start run")
    assert Run.objects.count() == 1
    page.goto(f"{RUNS}start/typed/")
    assert page.get_by_label("Customer").input_value() == ""


@pytest.mark.parametrize("options", WAYS, ids=NAMES)
def test_bulk_retry_and_bulk_cancel_of_runs_report_their_results(
    operator: str, failed: list[Run], log_in: Callable[..., Any], options: dict[str, Any]
) -> None:
    has_script = options.get("java_script_enabled", True)
    page = log_in(operator, **options)
    page.goto(RUNS)
    for run in failed[:2]:
        page.locator(f"[name=item][value='{run.pk}']").check()
    if has_script:
        assert page.inner_text("[data-hitl-ticked]").strip() == "(2)"
    press(page, "Retry…")
    assert looks(page, options) == []
    services.retry(failed[0].pk)
    press(page, "Retry 2 runs")
    assert "1 run queued." in page.inner_text("[role=status]")
    assert "Only failed or parked runs" in page.inner_text("section[aria-labelledby=failed]")
    assert looks(page, options) == []

    with leads_on(page):
        page.get_by_role("link", name="Back to runs").click()
    for tick in page.locator("[name=item]").all():
        tick.check()
    press(page, "Cancel…")
    page.get_by_label("Reason").fill("All of them by mistake.")
    assert looks(page, options) == []
    press(page, "Cancel 3 runs")
    assert "3 runs cancelled." in page.inner_text("[role=status]")
    assert set(Run.objects.values_list("state", flat=True)) == {"cancelled"}


@pytest.mark.parametrize("options", WAYS, ids=NAMES)
def test_bulk_button_decides_all_requests_of_its_run_only(
    start: Callable[..., Run], log_in: Callable[..., Any], options: dict[str, Any]
) -> None:
    run, other = start("panel"), start("approval", text="the news")
    page = log_in(**options)
    for address in (
        f"{RUNS}{run.pk}/change/",
        f"/admin/hitl_django/reviewitem/{Interrupt.objects.filter(run=run)[0].pk}/change/",
    ):
        page.goto(address)
        press(page, "Approve 2 requests…")
        listed = page.locator(".hitl-results .hitl-title").all_inner_texts()
        assert sorted(listed) == ["Question to left", "Question to right"]
    press(page, "Approve 2")
    assert "2 decisions saved." in page.inner_text("[role=status]")
    left = Interrupt.objects.filter(status="pending")
    assert list(left.values_list("run", flat=True)) == [other.pk]
