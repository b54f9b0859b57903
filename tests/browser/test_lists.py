"""Layout of lists on desktop and phone."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any
from urllib.parse import urlsplit

import pytest
from django.contrib.auth import get_user_model
from django.contrib.auth.models import Group, Permission
from django.utils import timezone

from hitl_django import START, ReviewPolicy, StateGraph, interrupt, services
from hitl_django.contrib.webhooks.models import Delivery, WebhookEndpoint
from hitl_django.graph_registry import registry
from hitl_django.models import Interrupt, Run
from hitl_django.worker import runner

from .conftest import PASSWORD, leads_on, wait_until
from .scenes import ask, people
from .test_layout import ZOOMED
from .test_reviewing import PHONE

pytestmark = [
    pytest.mark.browser,
    pytest.mark.any_database,
    pytest.mark.django_db(transaction=True),
]

DESK: dict[str, Any] = {"viewport": {"width": 1280, "height": 800}}
QUEUE, RUNS = "/admin/hitl_django/reviewitem/", "/admin/hitl_django/run/"
#: The rows of a list that are visible above the bar for selected rows.
SEEN = """() => {
    const rows = [...document.querySelectorAll(".hitl-row")];
    return rows.filter((row) => row.getBoundingClientRect().bottom <= innerHeight).length;
}"""
#: Cells whose text overflows the cell or the window.
CUT = """() => [
    ...document.querySelectorAll("#result_list :is(td, th), .hitl-row")
].filter((cell) =>
    cell.getClientRects().length
    && getComputedStyle(cell.closest("thead") ?? cell).position !== "absolute"
    && (cell.scrollWidth > cell.clientWidth + 1 || cell.getBoundingClientRect().right > innerWidth)
).map((cell) => cell.textContent)"""


def fill_queue(count: int = 30) -> Interrupt:
    """Create a request, and copies of the request."""
    item = ask("typed", customer="Dana K.", amount=120.0)
    Interrupt.objects.bulk_create(
        Interrupt(
            **{
                field.attname: getattr(item, field.attname)
                for field in Interrupt._meta.concrete_fields
                if field.name not in ("id", "interrupt_id", "title")
            },
            interrupt_id=f"{number:032}",
            title=f"Refund {number}.00 EUR to Dana K.?",
        )
        for number in range(count)
    )
    return item


def test_queue_on_desktop_shows_at_least_eleven_requests_without_scrolling(
    log_in: Callable[..., Any], start: Callable[..., Any]
) -> None:
    fill_queue()
    page = log_in("rita", **DESK)
    page.goto(QUEUE)
    assert 11 <= page.evaluate(SEEN) <= 13
    first = page.locator(".hitl-row").first.bounding_box()
    assert first["y"] <= 225


def test_queue_on_phone_shows_five_requests_above_the_review_next_button(
    log_in: Callable[..., Any], start: Callable[..., Any]
) -> None:
    fill_queue()
    page = log_in("rita", **PHONE)
    page.goto(QUEUE)
    bar = page.get_by_role("button", name="Review next").bounding_box()["y"]
    rows = [row.bounding_box() for row in page.locator(".hitl-row").all()[:6]]
    assert sum(row["y"] + row["height"] <= bar for row in rows) >= 5
    assert not page.locator(".hitl-bulk").is_visible()


def test_admin_opened_from_address_bar_shows_the_queue_and_home_link_shows_the_index(
    log_in: Callable[..., Any], start: Callable[..., Any]
) -> None:
    page = log_in("rita")
    ask("typed", customer="Dana K.", amount=120.0)
    for _time in range(2):
        page.goto("/admin/")
        assert urlsplit(page.url).path == QUEUE
        with leads_on(page):
            page.get_by_title("Menu").click()
            page.get_by_role("link", name="All admin pages").click()
        assert urlsplit(page.url).path == "/admin/"
        assert "1 request needs your review" in page.content()
    page.reload()
    assert urlsplit(page.url).path == "/admin/"


@pytest.mark.parametrize("look", [DESK, PHONE, ZOOMED], ids=["desk", "phone", "at 200 %"])
def test_queue_with_very_long_words_fits_desktop_phone_and_zoomed_viewport(
    log_in: Callable[..., Any], start: Callable[..., Any], look: dict[str, Any]
) -> None:
    rita, _ = people(PASSWORD)
    item = fill_queue(3)
    word = "Donaudampfschifffahrtsgesellschaft" * 6
    until = timezone.now() + timezone.timedelta(minutes=30)
    Interrupt.objects.filter(pk=item.pk).update(
        title=word, node=word, due_at=until, assignee_label=word, group_label=word[:150]
    )
    services.claim(item.pk, by=rita)
    Run.objects.update(started_by_label=word, state="failed", error=word)
    mail = WebhookEndpoint.objects.create(url="mailto:", description="Email")
    for state in Delivery.State.values:
        Delivery.objects.create(
            endpoint=mail, event="interrupt.created", state=state, attempts=3,
            data={"user": str(rita.pk)},
            fault=f"The mail server rejected the recipient ({word[:150]}).",
        )  # fmt: skip
    page = log_in("rita", **look)
    for url in (
        QUEUE,
        RUNS,
        "/admin/hitl_django/thread/",
        "/admin/hitl_django/interrupt/",
        "/admin/hitl_webhooks/delivery/",
    ):
        page.goto(url)
        assert page.evaluate(CUT) == [], url
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth"), url
    page.goto(QUEUE)
    title = page.locator(".hitl-row-title a", has_text=word)
    lines = title.evaluate(
        "(a) => a.getBoundingClientRect().height / parseFloat(getComputedStyle(a).lineHeight)"
    )
    assert lines < (1.1 if look is DESK else 2.1)


def test_queue_row_shows_its_title_and_facts_in_more_than_45_percent_of_its_width(
    log_in: Callable[..., Any], start: Callable[..., Any]
) -> None:
    rita, _ = people(PASSWORD)
    item = fill_queue(3)
    Interrupt.objects.filter(pk=item.pk).update(due_at=timezone.now(), group_label="Night shift")
    services.claim(item.pk, by=rita)
    page = log_in("rita", **DESK)
    page.goto(QUEUE)
    row = page.locator(".hitl-row").first
    assert row.get_by_text("Claimed by you").is_visible()
    width = row.locator(".hitl-row-main").bounding_box()["width"]
    assert width > 0.45 * row.bounding_box()["width"]


def test_delivery_list_shows_long_error_within_the_table(log_in: Callable[..., Any]) -> None:
    rita, _ = people(PASSWORD)
    mail = WebhookEndpoint.objects.create(url="mailto:", description="Email")
    Delivery.objects.create(
        endpoint=mail, event="interrupt.created", attempts=3,
        data={"user": str(rita.pk)},
        fault="The mail server rejected the recipient (550 5.1.1 <dana@example.com>: User "
        "unknown in table).",
    )  # fmt: skip
    page = log_in("rita", **DESK)
    page.goto("/admin/hitl_webhooks/delivery/")
    assert page.evaluate(CUT) == []
    assert page.locator("#result_list tbody tr").bounding_box()["height"] < 90
    assert page.locator("#result_list td.field-recipient").inner_text() == "rita"


def test_search_box_on_phone_is_wider_than_180_pixels(
    log_in: Callable[..., Any], start: Callable[..., Any]
) -> None:
    fill_queue(3)
    page = log_in("rita", **PHONE)
    for url in (QUEUE, RUNS):
        page.goto(url)
        assert page.locator("#searchbar").bounding_box()["width"] > 180, url


@pytest.mark.parametrize("look", [DESK, PHONE], ids=["desk", "phone"])
def test_bulk_action_bar_appears_with_the_first_selected_row_and_shows_the_selected_count(
    log_in: Callable[..., Any], start: Callable[..., Any], look: dict[str, Any]
) -> None:
    fill_queue()
    page = log_in("rita", **look)
    page.goto(QUEUE)
    bar = page.locator(".hitl-bulk")
    wait_until(page, "!document.querySelector('[data-hitl-all]').hidden")  # the script is loaded
    assert not bar.is_visible()
    for tick in page.locator("input[name=item]").all()[:3]:
        tick.check()
    box = bar.bounding_box()
    assert box["y"] + box["height"] <= look["viewport"]["height"] + 1
    assert page.locator(".hitl-row :checked").count() == 3
    page.click("[data-hitl-all]")
    assert page.locator(".hitl-row :checked").count() == 31
    with leads_on(page):
        bar.get_by_role("button", name="Approve").click()
    assert page.locator(".hitl-results [name=item]:checked").count() == 31


def test_queue_filter_without_javascript_shows_matching_rows(
    log_in: Callable[..., Any], start: Callable[..., Any]
) -> None:
    fill_queue(1)
    start("approval", text="the news")
    page = log_in("rita", java_script_enabled=False, **DESK)
    page.goto(QUEUE)
    graphs = page.locator(".hitl-tools .hitl-desk .hitl-menu", has_text="Graph")
    graphs.locator("summary").click()
    with leads_on(page):
        graphs.get_by_role("link", name="Approval").click()
    assert page.locator(".hitl-row").count() == 1
    assert graphs.locator("summary").inner_text().strip() == "Graph: Approval"


@pytest.mark.parametrize("permission", ["view_interrupt", "decide_interrupt"])
def test_fact_columns_lie_below_their_headings_with_and_without_permission_to_decide(
    log_in: Callable[..., Any], permission: str
) -> None:
    graph = StateGraph(dict).add_node("ask", interrupt).add_edge(START, "ask")
    registry.register("returns", review=ReviewPolicy(facts=["order", "note"]))(lambda: graph)
    user = get_user_model().objects.create_user("vera", password=PASSWORD, is_staff=True)
    codenames = ["view_interrupt", permission]
    user.user_permissions.set(Permission.objects.filter(codename__in=codenames))
    try:
        ask("returns", title="Refund Dana?", order="A-1", note="Torn.")
        page = log_in("vera", **DESK)
        page.goto(f"{QUEUE}?graph=returns")
        cells = page.locator(".hitl-row-title, .hitl-cell-fact").all()
        headings = page.locator(".hitl-heads > span").all()[: len(cells)]
        assert [cell.inner_text().split()[-1] for cell in cells] == ["Dana?", "A-1", "Torn."]
        starts = [[one.bounding_box()["x"] for one in row] for row in (headings, cells)]
        assert starts[0] == starts[1]
    finally:
        registry.unregister("returns")


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("scripts", [True, False])
def test_queue_has_the_color_scheme_of_the_admin_with_and_without_javascript(
    log_in: Callable[..., Any], scheme: str, scripts: bool
) -> None:
    page = log_in("rita", java_script_enabled=scripts, color_scheme=scheme)
    page.goto(QUEUE)
    light = page.locator("#hitl").evaluate("e => getComputedStyle(e).backgroundColor")
    assert (light == "rgb(244, 245, 247)") is (scheme == "light")


@pytest.fixture
def addresses() -> Iterator[str]:
    """Register a graph with a node whose name is in no title and no payload."""

    def verify_harbour(state: dict[str, Any]) -> dict[str, Any]:
        asked = {"title": "Is this where it goes?", "street": "Donaudampfschifffahrtsweg 7"}
        return {"answer": interrupt(asked)}

    graph = StateGraph(dict).add_node("verify_harbour", verify_harbour)
    registry.register("addresses")(lambda: graph.add_edge(START, "verify_harbour"))
    yield "addresses"
    registry.unregister("addresses")


def test_search_finds_requests_runs_and_threads_by_key_and_related_object(
    log_in: Callable[..., Any], start: Callable[..., Any], addresses: str
) -> None:
    about = Group.objects.create(pk=774411, name="Harbour")
    run = services.start(addresses, {}, key="parcel:90210", subject=about)
    runner.advance(str(run.id))
    start("typed", customer="Dana", amount=120.0)
    page = log_in("rita", **DESK)

    def search(url: str, text: str) -> list[str]:
        page.goto(url)
        page.locator("#searchbar").fill(text)
        with leads_on(page):
            page.keyboard.press("Enter")
        rows = page.locator(":is(#result_list tbody tr, .hitl-row)")
        return [row.inner_text() for row in rows.all()]

    # Searches for a word and a part of a word of the payload, the node, the run's key and the
    # subject.
    for text in ("Donaudampfschifffahrtsweg", "schifffahrt", "harbour", "90210", "774411"):
        [row] = search(QUEUE, text)
        assert "Is this where it goes?" in row, text
    assert search(QUEUE, "elephant") == []
    for url in (RUNS, "/admin/hitl_django/thread/"):
        for text in ("parcel:90210", "774411"):
            [row] = search(url, text)
            assert "parcel:90210" in row
            assert "774411" in row


def test_queue_filter_menu_closes_on_escape_and_outside_click(
    log_in: Callable[..., Any], start: Callable[..., Any]
) -> None:
    fill_queue(1)
    start("approval", text="the news")
    page = log_in("rita", **DESK)
    page.goto(QUEUE)
    wait_until(page, "!document.querySelector('[data-hitl-all]').hidden")
    graphs = page.locator(".hitl-tools .hitl-desk .hitl-menu", has_text="Graph")
    choices, summary = graphs.locator(".hitl-pop"), graphs.locator("summary")
    summary.press("Enter")
    assert choices.is_visible()
    page.keyboard.press("Escape")
    assert not choices.is_visible()
    assert summary.evaluate("(one) => one === document.activeElement")
    summary.click()
    page.locator(".hitl-foot").click()
    assert not choices.is_visible()
