"""Formatted values, custom templates and custom forms under the strict policy."""

from __future__ import annotations

import base64
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from django import forms
from django.contrib.auth import get_user_model
from django.core.files.base import ContentFile
from django.core.files.storage import default_storage

from hitl_django import START, StateGraph, interrupt
from hitl_django.graph_registry import registry
from hitl_django.graph_registry.review_policy import ReviewPolicy
from hitl_django.models import Decision, Interrupt, Run

from .conftest import leads_on
from .test_accessibility import WAYS, faults
from .test_item import open_interrupt
from .test_reviewing import WITHOUT_JAVASCRIPT, button

pytestmark = [
    pytest.mark.browser,
    pytest.mark.any_database,
    pytest.mark.django_db(transaction=True),
]

WINDOWS = pytest.mark.parametrize(
    "window", [*WAYS, WITHOUT_JAVASCRIPT], ids=["desktop, light", "phone, dark", "plain"]
)
PICTURE = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)
PAPER = b"%PDF-1.4 an invoice"
ASKED = {
    "title": "Refund Dana?",
    "picture": "scans/shoe.png",
    "paper": "scans/invoice.pdf",
    "site": "https://shop.example/orders/7",
    "letter": "# Dear *shop*\n\n- too small\n\n<script>alert(1)</script>",
    "paid": 123456,
    "day": "2026-01-31",
}
SCHEMA = {
    "type": "object",
    "properties": {"amount": {"type": "string"}, "seats": {"type": "integer", "maximum": 9}},
    "required": ["amount"],
}
TEMPLATE = "<p class=own>{{ payload.title }} {{ payload.letter }}</p>{{ values }}"


class RefundForm(forms.Form):
    amount = forms.DecimalField(min_value=1, help_text="At most what was paid.")
    seats = forms.IntegerField(required=False)

    def clean_seats(self) -> int | None:
        seats: int | None = self.cleaned_data["seats"]
        if seats and seats % 2:
            raise forms.ValidationError("Seats are sold in pairs.")
        return seats


@pytest.fixture
def shop(settings: Any, tmp_path: Path) -> Iterator[str]:
    """A graph with hints for what it asks, and with a form and a template for one of its nodes."""
    settings.MEDIA_ROOT = tmp_path / "media"
    default_storage.save("scans/shoe.png", ContentFile(PICTURE))
    default_storage.save("scans/invoice.pdf", ContentFile(PAPER))
    own = tmp_path / "templates" / "hitl_django" / "requests" / "shop"
    own.mkdir(parents=True)
    (own / "check.html").write_text(TEMPLATE)
    [engine] = settings.TEMPLATES
    settings.TEMPLATES = [{**engine, "DIRS": [tmp_path / "templates"]}]

    def ask(state: dict[str, Any]) -> dict[str, Any]:
        return {"answer": interrupt(ASKED, response_schema=SCHEMA)}

    def build() -> StateGraph:
        graph = StateGraph(dict).add_node("ask", ask).add_node("check", ask)
        return graph.add_conditional_edges(START, lambda state: state["node"], ["ask", "check"])

    display = {
        "picture": "image scans/",
        "paper": "file scans/",
        "site": "link",
        "letter": "markdown",
        "paid": "money EUR",
        "day": "date",
    }
    registry.register("shop", review=ReviewPolicy(display=display, forms={"check": RefundForm}))(
        build
    )
    yield "shop"
    registry.unregister("shop")


def interrupt_of(run: Run) -> Interrupt:
    return Interrupt.objects.get(run=run)


@WINDOWS
def test_formatted_values_are_shown_and_files_require_view_permission(
    log_in: Callable[..., Any], start: Callable[..., Run], shop: str, window: dict[str, Any]
) -> None:
    item = interrupt_of(start(shop, node="ask"))
    page = log_in(**window)
    open_interrupt(page, item)
    shown = page.locator(".hitl-facts").first
    picture = shown.locator("img.hitl-image")
    picture.scroll_into_view_if_needed()
    assert picture.evaluate("async (image) => { await image.decode(); return image.naturalWidth; }")
    assert shown.get_by_role("link", name=ASKED["site"]).get_attribute("href") == ASKED["site"]
    letter = shown.locator(".hitl-markdown")
    assert letter.get_by_role("heading", name="Dear shop").locator("em").inner_text() == "shop"
    assert letter.get_by_role("listitem").inner_text() == "too small"
    assert "<script>alert(1)</script>" in letter.inner_text()
    said = shown.inner_text().replace("\xa0", " ")
    assert "1,234.56 EUR" in said
    assert "Jan. 31, 2026" in said
    paper = shown.get_by_role("link", name="invoice.pdf")
    with page.expect_download() as found:
        paper.click()
    assert found.value.suggested_filename == "invoice.pdf"
    assert Path(found.value.path()).read_bytes() == PAPER
    if window.get("java_script_enabled", True):
        assert faults(page) == []

    address = paper.get_attribute("href")
    stranger = log_in("sten", java_script_enabled=False)
    get_user_model().objects.get(username="sten").user_permissions.clear()
    assert stranger.request.get(address).status in (403, 404)
    stranger.context.clear_cookies()
    assert "/login/" in stranger.request.get(address).url


@WINDOWS
def test_node_template_and_custom_form_are_shown_and_save_the_response(
    log_in: Callable[..., Any], start: Callable[..., Run], shop: str, window: dict[str, Any]
) -> None:
    plain, item = interrupt_of(start(shop, node="ask")), interrupt_of(start(shop, node="check"))
    page = log_in(**window)
    open_interrupt(page, plain)
    assert page.locator(".own").count() == 0
    open_interrupt(page, item)
    # Its output is escaped.
    assert "<script>alert(1)</script>" in page.locator("p.own").inner_text()
    assert page.get_by_text("At most what was paid.").is_visible()
    page.get_by_label("Amount").fill("0")
    page.get_by_label("Seats").fill("3")
    if window.get("java_script_enabled", True):
        assert faults(page) == []
    with leads_on(page):
        button(page, "Approve").or_(button(page, "Send response")).click()
    said = page.locator(".errorlist").all_inner_texts()
    assert "Seats are sold in pairs." in said
    assert "Ensure this value is greater than or equal to 1." in said
    assert not Decision.objects.exists()
    page.get_by_label("Amount").fill("12.50")
    page.get_by_label("Seats").fill("4")
    if window.get("java_script_enabled", True):
        assert faults(page) == []
    with leads_on(page):
        button(page, "Approve").or_(button(page, "Send response")).click()
    assert Decision.objects.get().value == {"amount": "12.50", "seats": 4}
