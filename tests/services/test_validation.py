"""Validation of responses before the transaction of the decision."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.db import connection
from django.db.models import F
from django.test import Client
from django.urls import reverse

from hitl_django import audit, services
from hitl_django.admin.display.bulk_buttons import get_checkbox_value
from hitl_django.contrib.links.errors import LinkUnusableError
from hitl_django.contrib.links.services import create_review_link, decide_by_link
from hitl_django.engine.errors import InvalidAnswerError
from hitl_django.errors import InterruptNotFound, NotAllowedError, StaleInterruptError
from hitl_django.json_text import json_schema, schema_keywords
from hitl_django.models import Decision, Interrupt, Thread
from hitl_django.services.reviews.decide import MAX_READS
from tests.admin.browsing import post_of, press

from .conftest import asked

pytestmark = pytest.mark.django_db(transaction=True)

Advance = Callable[[], int]
Deciding = Callable[[Interrupt, User], object]

TYPED = {"amount": 12.5, "customer": "Dana"}
VALUE = {"amount": 5}
HUNDREDS = {
    "type": "object",
    "properties": {"approved": {"type": "boolean"}, "amount": {"type": "number", "minimum": 100}},
}


@pytest.fixture
def boss() -> User:
    return User.objects.create_superuser("boss")


@pytest.fixture
def entries(monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """Collect for each validation whether a transaction was open."""
    found: list[bool] = []
    apply = json_schema.find_faults

    def noted(schema: Any, value: Any) -> Any:
        found.append(connection.in_atomic_block)
        return apply(schema, value)

    monkeypatch.setattr(json_schema, "find_faults", noted)
    return found


def client_of(user: User) -> Client:
    client = Client()
    client.force_login(user)
    return client


def by_api(interrupt: Interrupt, user: User) -> None:
    path = reverse("hitl_django:decisions", args=[interrupt.pk])
    body = json.dumps({"type": "edit", "value": VALUE})
    response = client_of(user).post(path, body, content_type="application/json")
    assert response.status_code == 202, response.content


def by_bulk_api(interrupt: Interrupt, user: User) -> None:
    one = {"interrupt": str(interrupt.pk), "type": "edit", "value": VALUE}
    body = json.dumps({"decisions": [one]})
    path = reverse("hitl_django:decisions-bulk")
    response = client_of(user).post(path, body, content_type="application/json")
    assert response.json()["results"][0]["status"] == 202


def by_form(interrupt: Interrupt, user: User) -> None:
    assert press(client_of(user), interrupt, "approve", amount="5").status_code == 302


def by_bulk_form(interrupt: Interrupt, user: User) -> None:
    client, page = client_of(user), reverse("admin:hitl_django_reviewitem_bulk")
    form = {"item": get_checkbox_value(interrupt), "decision": "approve", "confirmed": "1"}
    assert "Approved." in client.post(page, form).content.decode()


def by_link(interrupt: Interrupt, user: User) -> None:
    token = create_review_link(interrupt.pk, name="Dana").url.rstrip("/").rsplit("/", 1)[1]
    decide_by_link(token, "edit", VALUE)


def by_page_of_link(interrupt: Interrupt, user: User) -> None:
    url, client = create_review_link(interrupt.pk, name="Dana").url, Client()
    form = post_of(client.get(url).content.decode())
    response = client.post(url, {**form, "answer/amount": "5", "decision": "approve"})
    assert response.status_code == 302


@pytest.mark.parametrize(
    "deciding",
    [
        lambda interrupt, user: services.decide(interrupt.pk, "edit", VALUE),
        lambda interrupt, user: services.decide(interrupt.pk, "edit", VALUE, by=user),
        lambda interrupt, user: services.decide(
            interrupt.pk, resume={"approved": True, "amount": 5}, by=user
        ),
        by_api,
        by_bulk_api,
        by_form,
        by_bulk_form,
        by_link,
        by_page_of_link,
    ],
    ids=[
        "code", "code for a user", "a resume value", "API", "bulk API", "form", "bulk form",
        "link", "page of a link",
    ],
)  # fmt: skip
def test_response_schema_validation_runs_outside_transactions(
    deciding: Deciding, boss: User, advance: Advance, entries: list[bool]
) -> None:
    interrupt = asked("typed", TYPED, advance)
    deciding(interrupt, boss)
    assert Decision.objects.get().effective
    assert entries
    assert not any(entries)


def test_response_schema_validation_of_approvals_and_proposals_runs_outside_transactions(
    boss: User, advance: Advance, entries: list[bool]
) -> None:
    terms = {"quorum": 2, "typed": True, "claim_required": True}
    interrupt = asked("reviewed", {"payload": {"seats": 2}, "terms": terms}, advance)
    for name, value in (("ann", 4), ("bob", 6), ("cai", 6)):
        voter = User.objects.create_superuser(name)
        services.claim(interrupt.pk, by=voter)
        services.check_answer(interrupt.pk, "respond", {"seats": value}, by=voter)
        services.decide(interrupt.pk, "respond", {"seats": value}, by=voter)
    assert Interrupt.objects.get().status == "decided"
    assert Decision.objects.count() == 3
    assert len(entries) >= 3
    assert not any(entries)


@pytest.fixture
def changing(monkeypatch: pytest.MonkeyPatch) -> Callable[..., list[Any]]:
    """Change an interrupt after each of the given number of validations of a response."""

    def change(interrupt: Interrupt, times: int, **columns: Any) -> list[Any]:
        apply, answers = json_schema.find_faults, list[Any]()
        rows = Interrupt.objects.filter(pk=interrupt.pk)

        def and_change(schema: Any, value: Any) -> Any:
            found = apply(schema, value)
            answers.append(value)
            if len(answers) <= times:
                rows.update(version=F("version") + 1, **columns)
            return found

        monkeypatch.setattr(json_schema, "find_faults", and_change)
        return answers

    return change


@pytest.mark.promise("P1")
@pytest.mark.parametrize("has_user", [True, False])
def test_response_invalid_for_schema_changed_during_validation_raises_invalid_answer_error(
    advance: Advance, boss: User, changing: Callable[..., list[Any]], has_user: bool
) -> None:
    interrupt = asked("typed", TYPED, advance)
    validated = changing(interrupt, 1, response_schema=HUNDREDS)
    with pytest.raises(InvalidAnswerError) as refused:
        services.decide(interrupt.pk, "edit", VALUE, by=boss if has_user else None)
    assert [pointer for pointer, _ in refused.value.faults] == ["/amount"]
    assert len(validated) == 2
    assert not Decision.objects.exists()
    assert Interrupt.objects.get().status == "pending"


@pytest.mark.parametrize("has_user", [True, False])
def test_response_valid_for_schema_changed_during_validation_is_stored(
    advance: Advance, boss: User, changing: Callable[..., list[Any]], has_user: bool
) -> None:
    interrupt = asked("typed", TYPED, advance)
    validated = changing(interrupt, 1, response_schema=HUNDREDS, payload_digest="0" * 32)
    made = services.decide(interrupt.pk, "edit", {"amount": 500}, by=boss if has_user else None)
    decision = Decision.objects.get()
    assert (made.value, decision.version) == ({"approved": True, "amount": 500}, 2)
    assert decision.payload_digest == "0" * 32
    assert len(validated) == 2
    assert audit.find_first_fault(Thread.objects.get()) is None


def test_decision_on_interrupt_changing_at_every_validation_raises_stale_interrupt_error(
    advance: Advance, boss: User, changing: Callable[..., list[Any]]
) -> None:
    interrupt = asked("typed", TYPED, advance)
    validated = changing(interrupt, 100)
    with pytest.raises(StaleInterruptError):
        services.decide(interrupt.pk, "edit", VALUE, by=boss)
    assert len(validated) == MAX_READS
    assert not Decision.objects.exists()


def test_decision_with_version_of_interrupt_changed_during_validation_raises_stale_interrupt_error(
    advance: Advance, boss: User, changing: Callable[..., list[Any]]
) -> None:
    interrupt = asked("typed", TYPED, advance)
    validated = changing(interrupt, 1)
    with pytest.raises(StaleInterruptError):
        services.decide(interrupt.pk, "edit", VALUE, by=boss, version=1)
    assert len(validated) == 1
    assert not Decision.objects.exists()


def test_decide_by_link_on_interrupt_changed_during_validation_raises_stale_link_error(
    advance: Advance, boss: User, changing: Callable[..., list[Any]]
) -> None:
    interrupt = asked("typed", TYPED, advance)
    url = create_review_link(interrupt.pk, name="Dana").url
    changing(interrupt, 1, response_schema=HUNDREDS)
    with pytest.raises(LinkUnusableError) as refused:
        decide_by_link(url.rstrip("/").rsplit("/", 1)[1], "edit", VALUE)
    assert refused.value.state == "stale"
    assert not Decision.objects.exists()


def test_invalid_response_of_user_without_permission_raises_permission_error(
    advance: Advance, user: Callable[..., User]
) -> None:
    interrupt = asked("typed", TYPED, advance)
    watcher, stranger = user("wanda", "view_interrupt"), user("sid")
    with pytest.raises(NotAllowedError):
        services.decide(interrupt.pk, "edit", {"amount": "x"}, by=watcher)
    with pytest.raises(InterruptNotFound):
        services.decide(interrupt.pk, "edit", {"amount": "x"}, by=stranger)


def test_schemas_applied_for_one_decision_share_one_work_limit(
    advance: Advance, monkeypatch: pytest.MonkeyPatch
) -> None:
    interrupt = asked("typed", {"amount": 5.0, "customer": "Dana"}, advance)
    made: list[schema_keywords.Budget] = []
    known: list[int] = []
    apply = json_schema.find_faults

    class Counted(schema_keywords.Budget):
        def __init__(self) -> None:
            super().__init__()
            made.append(self)

    def watched(*given: Any) -> list[tuple[str, str]]:
        known.append(len(made))
        with schema_keywords.limit_work():  # which opens a transaction unless one is open
            return apply(*given)

    monkeypatch.setattr(schema_keywords, "Budget", Counted)
    monkeypatch.setattr(json_schema, "find_faults", watched)
    services.decide(interrupt.pk, "approve", {"approved": True, "amount": 5})
    assert set(known) == {1}
    assert len(made) == 1
