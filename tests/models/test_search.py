"""Search for letters within words of an interrupt, equal on all databases."""

from __future__ import annotations

from typing import Any

import pytest

from hitl_django.models import Interrupt
from hitl_django.models.search import LENGTH, build_grams, build_search_text
from hitl_django.services.reviews import queue_filters

FOUND = [
    ("Refund Dana's order", "refund dana"),
    ("Refund Dana's order", "ord REF"),
    ("Refund", "fund"),
    ("<b>urgent</b> call", "urgent"),
    ("<urgent> call", "gen"),
    ("See https://host.example/invoice-77?id=5#top", "voice"),
    ("See https://host.example/invoice-77?id=5#top", "77 example id top"),
    ("Write to dana.k@shop.example", "dana shop"),
    ("Write to dana.k@shop.example", "dana.k@shop.example"),
    ("Read /srv/contracts/2026_final.pdf", "final tracts pdf"),
    ("Pay -5.50 EUR & +7", "50 eur 7"),
    ("Ask a~b=c", "c b a"),
    ("R&amp;D budget", "d budget"),
    ("Zürich – Ärger", "ürich ärg"),
    ("Straße", "STRASSE"),
    ("snake_case_name", "ase na"),
    ("x2y 1e5", "x2 1e"),
    ({"lines": [{"sku": "A-17"}, {"count": 2044}], "express": True}, "17 204"),
]
NOT_FOUND = [
    ("Refund", "nd"),
    ("Refund", "refund order"),
    ("abc bcd", "abcd"),
    ("Refund", "!?"),
    ("Refund 100%", "%"),
    ({"customer": "Dana"}, "customer"),
    ({"express": True}, "true"),
]


@pytest.mark.parametrize(("asked", "text"), FOUND)
def test_search_finds_interrupt_by_parts_of_words_and_short_prefixes(
    asked: Any, text: str, interrupt: Interrupt
) -> None:
    assert _finds(interrupt, asked, text)


@pytest.mark.parametrize(("asked", "text"), NOT_FOUND)
def test_search_without_matching_words_does_not_find_the_interrupt(
    asked: Any, text: str, interrupt: Interrupt
) -> None:
    assert not _finds(interrupt, asked, text)


def test_search_text_and_grams_of_huge_payload_are_truncated_to_the_maximum_length() -> None:
    for asked in ("word " * 10**6, ["ﷺ" * 100] * 10**5, "x" * 10**7, {"a": ["y"] * 10**5}):
        text = build_search_text("A title", asked)
        assert text.startswith(" a title")
        assert len(text) <= LENGTH
        assert len(build_grams(text)) < 6 * LENGTH


def _finds(interrupt: Interrupt, asked: Any, text: str) -> bool:
    rows, written = Interrupt.objects.filter(pk=interrupt.pk), build_search_text(asked)
    rows.update(search_text=written, search_grams=build_grams(written))
    for common in (False, True):
        found = rows.filter(queue_filters.match_words(text, common=common)).exists()
        assert rows.filter(queue_filters.match_words(text)).exists() is found
    return found
