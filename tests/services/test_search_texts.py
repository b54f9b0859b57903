"""The stored search text of an interrupt, and its removal when the interrupt is erased."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from django.contrib.auth.models import User
from django.db import connection

from hitl_django import services
from hitl_django.models import Interrupt
from hitl_django.services.reviews.queue_filters import match_words

from .conftest import asked

pytestmark = pytest.mark.django_db(transaction=True)
HAS_INDEX = connection.vendor == "postgresql"


def finds(text: str) -> bool:
    return Interrupt.objects.filter(match_words(text)).exists()


@pytest.fixture
def interrupt(advance: Callable[[], int]) -> Interrupt:
    customer = User.objects.create(pk=774411, username="customer")
    given = {"amount": 1917.25, "customer": "Dana"}
    run = services.start("typed", given, key="refund:90210", subject=customer)
    advance()
    return Interrupt.objects.get(run=run.id)


def test_queue_search_finds_interrupt_by_title_node_key_subject_and_payload(
    interrupt: Interrupt,
) -> None:
    for text in ("dana", "ask", "0210", "74411", "917"):
        assert finds(text), text
    assert not finds("kim")
    assert (interrupt.search_grams is not None) is HAS_INDEX


@pytest.mark.parametrize("how", ["decided", "cancelled"])
def test_closed_interrupt_preserves_its_search_text_but_is_removed_from_the_search_index(
    interrupt: Interrupt, how: str
) -> None:
    if how == "decided":
        services.decide(interrupt.pk, "approve")
    else:
        services.cancel(interrupt.run_id)
    interrupt.refresh_from_db()
    assert interrupt.search_grams is None
    assert "dana" in (interrupt.search_text or "")


def test_erase_thread_removes_search_text_of_its_interrupts(interrupt: Interrupt) -> None:
    services.cancel(interrupt.run_id)
    services.erase_thread(interrupt.thread.thread_id)
    interrupt.refresh_from_db()
    assert (interrupt.search_text, interrupt.search_grams) == (None, None)


def test_queue_search_finds_interrupt_pending_again_after_rejected_response(
    advance: Callable[[], int],
) -> None:
    interrupt = asked("booking", {"log": []}, advance)
    services.decide(interrupt.pk, "respond", {"seats": 3})
    assert not (HAS_INDEX and finds("seats"))
    advance()
    interrupt.refresh_from_db()
    assert interrupt.status == "pending"
    assert finds("eats 1")
