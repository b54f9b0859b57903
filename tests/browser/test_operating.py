"""Pages of runs for operators: strict policy, without JavaScript, and on a phone."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from django.contrib.auth import get_user_model
from django.contrib.auth.models import Permission

from hitl_django import services
from hitl_django.models import Checkpoint, Interrupt, Run
from hitl_django.worker import runner
from tests import graphs

from .conftest import PASSWORD, leads_on, wait_until

pytestmark = [pytest.mark.browser, pytest.mark.django_db(transaction=True)]

MAY = (
    "view_interrupt", "view_run", "view_thread", "operate_run", "view_thread_state",
    "view_checkpoint",
)  # fmt: skip


@pytest.fixture
def operator(transactional_db: None) -> str:
    user = get_user_model().objects.create_user("otto", password=PASSWORD, is_staff=True)
    user.user_permissions.set(
        Permission.objects.filter(content_type__app_label__startswith="hitl_", codename__in=MAY)
    )
    return "otto"


def fits(page: Any) -> bool:
    return bool(
        page.evaluate(
            "document.documentElement.scrollWidth <= document.documentElement.clientWidth"
        )
    )


@pytest.mark.parametrize(
    "options",
    [
        {"viewport": {"width": 1280, "height": 900}},
        {"viewport": {"width": 390, "height": 844}, "java_script_enabled": False},
        {"viewport": {"width": 1280, "height": 900}, "locale": "ar", "color_scheme": "dark"},
    ],
    ids=["desktop", "phone without JavaScript", "dark"],
)
def test_operator_forks_a_thread_and_cancels_the_forked_run(
    operator: str, start: Callable[..., Run], log_in: Callable[..., Any], options: dict[str, Any]
) -> None:
    run = start("booking")
    page = log_in(operator, **options)
    page.goto("/admin/hitl_django/run/")
    with leads_on(page):
        page.click("text=booking")

    # The picture has texts and symbols, and nothing exceeds its edges.
    page.wait_for_selector("svg.hitl-graph[role=img]", state="attached")
    assert page.locator("svg .hitl-paused > .hitl-mark").count() == 2
    if options.get("java_script_enabled", True):
        assert fits(page)
    with leads_on(page):
        page.click("text=Continue from step 0…")
    page.wait_for_selector("text=These pending requests will be withdrawn", state="attached")
    page.locator("details:has(textarea[name=values]) > summary").click()
    page.fill("textarea[name=values]", "{oops")
    with leads_on(page):
        page.click("button:has-text('Continue')")
    page.wait_for_selector("text=Enter valid JSON", state="attached")
    assert page.input_value("textarea[name=values]") == "{oops"
    page.fill("textarea[name=values]", "")
    with leads_on(page):
        page.click("button:has-text('Continue')")
    page.wait_for_selector("text=New run queued from this step.", state="attached")

    new = Run.objects.exclude(pk=run.pk).get()
    runner.advance(str(new.pk))
    page.goto(f"/admin/hitl_django/run/{new.pk}/change/")
    with leads_on(page):
        page.click("text=Cancel run…")
    page.fill("textarea[name=reason]", "a mistake")
    with leads_on(page):
        page.click("button:has-text('Cancel run')")
    page.wait_for_selector("text=Run cancelled.", state="attached")
    page.goto(f"/admin/hitl_django/thread/{run.thread_id}/change/")
    page.wait_for_selector("text=Forked from an earlier step", state="attached")
    page.wait_for_selector("text=Cancelled the run", state="attached")
    assert set(Interrupt.objects.values_list("status", flat=True)) == {"superseded", "cancelled"}
    assert Checkpoint.objects.filter(source="fork").count() == 1


@pytest.mark.any_database
def test_run_page_shows_progress_without_reload(
    operator: str, start: Callable[..., Run], log_in: Callable[..., Any]
) -> None:
    info = services.start("typed", {"amount": 1, "customer": "Dana"})
    page = log_in(operator)
    page.goto(f"/admin/hitl_django/run/{info.id}/change/")
    assert "Queued" in page.inner_text(".hitl-page-head")
    page.evaluate("window.isSame = true")
    runner.advance(str(info.id))
    page.wait_for_selector(".hitl-page-head >> text=Waiting for review", timeout=15_000)
    page.wait_for_selector("a:has-text('Refund Dana?')")
    assert page.evaluate("window.isSame")


@pytest.mark.any_database
def test_wide_graph_diagram_on_phone_scrolls_inside_its_box_by_keyboard(
    operator: str, start: Callable[..., Run], log_in: Callable[..., Any]
) -> None:
    run = start("broad")
    page = log_in(operator, viewport={"width": 390, "height": 844})
    page.goto(f"/admin/hitl_django/run/{run.pk}/change/")
    assert fits(page)
    assert page.evaluate(
        "(() => { const box = document.querySelector('.hitl-canvas');"
        " return box.scrollWidth > box.clientWidth; })()"
    )
    # The picture can be scrolled by keyboard.
    page.focus(".hitl-canvas")
    page.keyboard.press("ArrowRight")
    wait_until(page, "document.querySelector('.hitl-canvas').scrollLeft > 0")


def test_run_error_text_is_shown_only_to_users_with_operate_permission(
    operator: str, start: Callable[..., Run], log_in: Callable[..., Any]
) -> None:
    graphs.FAILING.add("now")
    run = start("fragile", count=1)
    graphs.FAILING.clear()
    user = get_user_model().objects.create_user("vera", password=PASSWORD, is_staff=True)
    user.user_permissions.set(Permission.objects.filter(codename="view_run"))
    shown = {}
    for name in (operator, "vera"):
        page = log_in(name)
        page.goto("/admin/hitl_django/run/")
        shown[name] = [page.inner_text("body")]
        with leads_on(page):
            page.get_by_role("link", name="fragile").click()
        page.wait_for_url(f"**/run/{run.pk}/change/")
        closed = page.locator(".hitl-page details:not([open]) > summary")
        while closed.count():
            closed.first.click()
        shown[name].append(page.inner_text("body"))
    for said in shown[operator]:
        assert "the printer is on fire" in said
    for said in shown["vera"]:
        assert "failed" in said.lower()
        assert "printer" not in said
        assert "RuntimeError" not in said
    assert "visible to operators only" in shown["vera"][1]
