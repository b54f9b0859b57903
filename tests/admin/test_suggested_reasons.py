"""Suggested reasons from a graph's policy."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from django.test import Client
from django.utils.translation import gettext_lazy as _

from hitl_django import END, START, StateGraph, interrupt, register, services
from hitl_django.admin.display.bulk_buttons import get_checkbox_value
from hitl_django.answers.limits import REASON_LENGTH
from hitl_django.graph_registry import registry
from hitl_django.graph_registry.review_policy import ReviewPolicy
from hitl_django.models import Decision, Interrupt
from tests.graphs import Plain

from .browsing import press, sheet_of, text_of
from .conftest import page_of
from .test_bulk import BULK, confirmed

REASONS = ("Wrong <address>", _("never"))
POLICY = ReviewPolicy(reasons=REASONS, replies=["Ask the customer again."])


@pytest.fixture
def item(advance: Callable[[], int]) -> Iterator[Interrupt]:
    """Create an interrupt of a graph with suggested reasons."""
    with registry.hide_graphs():

        @register("worded", review=POLICY)
        def worded() -> StateGraph:
            graph = StateGraph(Plain).add_node("ask", lambda state: {"answer": interrupt("Pay?")})
            return graph.add_edge(START, "ask").add_edge("ask", END)

        run = services.start("worded", {"payload": 1})
        advance()
        yield Interrupt.objects.get(run_id=run.id)


def send(client: Client, item: Interrupt, button: str, **typed: str) -> Any:
    sheet = sheet_of(client, item)
    return press(client, item, button, {**sheet, **{name: [typed[name]] for name in typed}})


@pytest.mark.parametrize(
    ("own", "kept"), [("", "Wrong <address>"), ("No. 7", "Wrong <address>\nNo. 7")]
)
def test_rejection_with_suggested_reason_saves_suggestion_followed_by_typed_text(
    reviewer: Client, item: Interrupt, own: str, kept: str
) -> None:
    send(reviewer, item, "reject", suggested_reason="Wrong <address>", reason=own)
    made = Decision.objects.get()
    assert (made.type, made.reason) == ("reject", kept)


def test_suggested_reason_is_translated_if_lazy_and_unchanged_if_string(
    reviewer: Client, item: Interrupt, settings: Any
) -> None:
    settings.LANGUAGE_CODE = "de"
    page = text_of(reviewer.get(page_of(item)))
    assert "Wrong &lt;address&gt;</label>" in page
    assert "nie</label>" in page
    assert "Ask the customer again.</label>" in page


def test_suggested_reply_is_saved_as_the_response(reviewer: Client, item: Interrupt) -> None:
    send(reviewer, item, "respond", suggested_reply="Ask the customer again.")
    assert Decision.objects.get().value == "Ask the customer again."


def test_rejection_with_unknown_suggested_reason_shows_a_form_error_and_saves_no_decision(
    reviewer: Client, item: Interrupt
) -> None:
    response = send(reviewer, item, "reject", suggested_reason="Because")
    assert not Decision.objects.exists()
    assert "errorlist" in text_of(response)


def test_rejection_with_suggested_and_typed_reason_above_length_limit_saves_no_decision(
    reviewer: Client, item: Interrupt
) -> None:
    send(reviewer, item, "reject", suggested_reason=REASONS[0], reason="x" * REASON_LENGTH)
    assert not Decision.objects.exists()


def test_request_of_graph_without_suggestions_has_no_suggestion_fields(
    reviewer: Client, asked: Callable[..., Interrupt]
) -> None:
    assert "suggested_" not in text_of(reviewer.get(page_of(asked("approval"))))


@pytest.mark.parametrize("words", ["one text", [""], [3]])
def test_review_policy_with_reasons_that_are_not_a_list_of_texts_raises_type_or_value_error(
    words: Any,
) -> None:
    with pytest.raises((TypeError, ValueError)):
        ReviewPolicy(reasons=words)
    with pytest.raises((TypeError, ValueError)):
        ReviewPolicy(replies=words)


def test_bulk_rejection_page_offers_only_reasons_suggested_by_all_selected_graphs(
    reviewer: Client, item: Interrupt, advance: Callable[[], int]
) -> None:
    @register("other", review=ReviewPolicy(reasons=["never", "too late"]))
    def other() -> StateGraph:
        graph = StateGraph(Plain).add_node("ask", lambda state: {"answer": interrupt("Send?")})
        return graph.add_edge(START, "ask").add_edge("ask", END)

    services.start("worded", {"payload": 2})
    advance()
    two = list(Interrupt.objects.all())
    posted = {"item": [get_checkbox_value(one) for one in two], "decision": "reject"}
    page = reviewer.post(BULK, posted)
    assert text_of(page).count('name="suggested_reason"') == 1 + len(REASONS)
    # A suggested reason is sufficient, and other values are rejected.
    back = reviewer.post(BULK, confirmed(page, suggested_reason="Because"))
    assert "errorlist" in text_of(back)
    assert not Decision.objects.exists()
    reviewer.post(BULK, confirmed(page, suggested_reason="Wrong <address>", reason="See No. 7."))
    assert set(Decision.objects.values_list("reason", flat=True)) == {"Wrong <address>\nSee No. 7."}

    run, another = services.start("other", {"payload": 3}), services.start("worded", {"payload": 4})
    advance()
    mixed = Interrupt.objects.filter(run__in=[run.id, another.id])
    posted["item"] = [get_checkbox_value(one) for one in mixed]
    page = reviewer.post(BULK, posted)
    offered = re.findall(r'name="suggested_reason" value="(.*?)"', text_of(page))
    assert offered == ["never", ""]


def test_comment_with_mention_and_markup_highlights_the_user_and_escapes_markup(
    reviewer: Client, item: Interrupt, person: Callable[[str], Any]
) -> None:
    person("reader")
    services.comment(item.pk, "<b>@reader</b>, and @nobody?")
    page = text_of(reviewer.get(page_of(item)))
    marked = '&lt;b&gt;<strong class="hitl-mention">@reader</strong>&lt;/b&gt;, and @nobody?'
    assert marked in page
