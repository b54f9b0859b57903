"""A search finds words by their beginnings, wherever they stand, and the same on every database."""

from __future__ import annotations

import pytest

from hitl_django.models import Interrupt
from hitl_django.services.reviews import queue_filters

FOUND = [
    ("Refund Dana's order", "refund dana"),
    ("Refund Dana's order", "ord REF"),
    ("<b>urgent</b> call", "urgent"),
    ("<urgent> call", "urg"),
    ("See https://host.example/invoice-77?id=5#top", "invoice"),
    ("See https://host.example/invoice-77?id=5#top", "77 example id top"),
    ("Write to dana.k@shop.example", "dana shop"),
    ("Write to dana.k@shop.example", "dana.k@shop.example"),
    ("Read /srv/contracts/2026_final.pdf", "final contr pdf"),
    ("Pay -5.50 EUR & +7", "50 eur 7"),
    ("Ask a~b=c", "c b a"),
    ("R&amp;D budget", "d budget"),
    ("Zürich – Ärger", "züri ärg"),
    ("snake_case_name", "case na"),
    ("x2y 1e5", "x2 1e"),
]
NOT_FOUND = [
    ("Refund", "fund"),
    ("<b>urgent</b>", "gent"),
    ("https://host/invoice-77", "voice"),
    ("snake_case", "ake"),
    ("Refund", "refund order"),
    ("Refund", "!?"),
    ("Refund 100%", "%"),
]


@pytest.mark.parametrize(("title", "text"), FOUND)
def test_a_word_is_found_by_its_beginning_wherever_it_stands(
    title: str, text: str, question: Interrupt
) -> None:
    assert _finds(question, title, text)


@pytest.mark.parametrize(("title", "text"), NOT_FOUND)
def test_what_no_word_begins_with_is_not_found(title: str, text: str, question: Interrupt) -> None:
    assert not _finds(question, title, text)


def _finds(question: Interrupt, title: str, text: str) -> bool:
    rows = Interrupt.objects.filter(pk=question.pk)
    rows.update(title=title)
    for common in (False, True):
        found = rows.filter(queue_filters.match_words(text, common=common)).exists()
        assert rows.filter(queue_filters.match_words(text)).exists() is found
    return found
