"""What an open page asks: what has become of its questions, and who else looks at them."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from django.core.cache import cache
from django.test import Client

from hitl_django.models import Interrupt

from .browsing import press
from .conftest import make_question, page_of

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def _empty_cache() -> Iterator[None]:
    cache.clear()
    yield
    cache.clear()


def watch(client: Client, item: Interrupt, *shown: str) -> dict[str, Any]:
    url = page_of(item).removesuffix("change/") + "watch/"
    news: dict[str, Any] = client.get(url, {"question": shown}).json()
    return news


def test_says_nothing_while_nothing_happens(
    reviewer: Client, asked: Callable[..., Interrupt]
) -> None:
    item = asked()
    news = {"questions": {str(item.pk): ""}, "viewers": ""}
    for _again in range(2):
        assert watch(reviewer, item, f"{item.pk}.{item.version}") == news


def test_says_who_decided_and_that_another_version_is_asked(
    reviewer: Client, browse: Callable[[str], Client], asked: Callable[..., Interrupt]
) -> None:
    decided, changed = asked(), asked()
    press(reviewer, decided, "approve")
    Interrupt.objects.filter(pk=changed.pk).update(version=2)
    shown = [f"{one.pk}.1" for one in (decided, changed)]
    assert watch(browse("engineer"), changed, *shown)["questions"] == {
        str(decided.pk): "reviewer approved this",
        str(changed.pk): "The question has changed since you opened it",
    }
    assert watch(reviewer, decided, shown[0])["questions"][str(decided.pk)] == "You approved this"


def test_names_the_others_who_look_and_forgets_them_after_a_while(
    reviewer: Client, browse: Callable[[str], Client], monkeypatch: pytest.MonkeyPatch
) -> None:
    item = make_question({})
    watch(browse("reader"), item)
    watch(browse("engineer"), item)
    assert watch(reviewer, item)["viewers"] == "Also looking at this: engineer and reader."
    assert watch(reviewer, make_question({}))["viewers"] == ""
    later = time.time() + 31
    monkeypatch.setattr("hitl_django.admin.presence.time.time", lambda: later)
    assert watch(reviewer, item)["viewers"] == ""


@pytest.mark.promise("P18")
def test_tells_nothing_of_what_one_may_not_see(
    browse: Callable[[str], Client], reviewer: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen, hidden = make_question({}), make_question({})
    assert browse("nobody").get(page_of(seen).replace("change", "watch")).status_code == 404
    monkeypatch.setattr(
        "hitl_django.permissions.ModelPermissionPolicy.visible_interrupts",
        lambda self, user, rows: rows.exclude(pk=hidden.pk),
    )
    assert watch(reviewer, seen, f"{seen.pk}.1", f"{hidden.pk}.1")["questions"].keys() == {
        str(seen.pk)
    }


@pytest.mark.parametrize("shown", ["", "x", ".", "x.y.z", "\x00.1", "1" * 5000])
def test_takes_whatever_a_stranger_names(reviewer: Client, shown: str) -> None:
    assert watch(reviewer, make_question({}), shown)["questions"] == {}


def test_takes_few_queries(reviewer: Client, django_assert_max_num_queries: Any) -> None:
    items = [make_question({}) for _n in range(20)]
    for item in items[:10]:
        press(reviewer, item, "reject")
    shown = [f"{one.pk}.1" for one in items]
    with django_assert_max_num_queries(8):
        watch(reviewer, items[0], *shown)
