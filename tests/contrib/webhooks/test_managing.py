"""Management of webhooks and deliveries, by permission."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any
from unittest.mock import Mock

import pytest
from django.contrib.auth.models import Permission, User
from django.db.models import Model, QuerySet
from django.db.models.functions import Now

from hitl_django.contrib.webhooks import outbox, tasks
from hitl_django.contrib.webhooks import services as webhook_services
from hitl_django.contrib.webhooks.errors import WebhookNotFound
from hitl_django.contrib.webhooks.models import Delivery, WebhookEndpoint
from hitl_django.db.write_batch import WriteBatch
from hitl_django.engine.errors import InvalidInputError
from hitl_django.errors import NotAllowedError
from hitl_django.permissions import ModelPermissionPolicy
from tests.services.test_behind_the_lock import before_writing

from .test_sending import message_to

Hook = Callable[..., WebhookEndpoint]
URL = "https://crm.example/hooks"


@pytest.fixture
def person(db: None) -> Callable[..., User]:
    """Create a user with these permissions of the app."""

    def make(name: str, *codenames: str) -> User:
        made = User.objects.create_user(name)
        made.user_permissions.set(Permission.objects.filter(codename__in=codenames))
        return User.objects.get(pk=made.pk)

    return make


@pytest.fixture
def integrator(person: Callable[..., User]) -> User:
    return person("ina", "view_webhookendpoint", "manage_webhooks")


#: Operations on a webhook with a failed delivery.
DONE: dict[str, Callable[[WebhookEndpoint, User], object]] = {
    "change": lambda hook, by: webhook_services.change_webhook(hook.pk, url=f"{URL}/other", by=by),
    "delete": lambda hook, by: webhook_services.delete_webhook(hook.pk, by=by),
    "rotate": lambda hook, by: webhook_services.rotate_secret(hook.pk, by=by),
    "try": lambda hook, by: webhook_services.send_test_event(hook.pk, by=by),
    "redeliver": lambda hook, by: webhook_services.redeliver(hook.deliveries.get().pk, by=by),
}


@pytest.fixture
def three(hook: Hook) -> list[WebhookEndpoint]:
    """Create three paused webhooks, each with a failed delivery."""
    made = [hook(URL) for _ in range(3)]
    for endpoint in made:
        message_to(endpoint)
    Delivery.objects.update(
        state="dead", attempts=12, fault="The receiver returned 500.", status=500, finished_at=Now()
    )
    WebhookEndpoint.objects.update(failures=12, paused_until=Now() + timedelta(hours=1))
    return made


def rows(model: type[Model], **which: Any) -> list[str]:
    return sorted(map(str, model._default_manager.filter(**which).values()))


def rows_of(*hooks: WebhookEndpoint) -> list[str]:
    own = rows(WebhookEndpoint, pk__in=[hook.pk for hook in hooks])
    return own + rows(Delivery, endpoint__in=[hook.pk for hook in hooks])


@pytest.mark.parametrize("what", DONE)
def test_webhook_service_call_changes_no_other_webhook(
    three: list[WebhookEndpoint], integrator: User, what: str
) -> None:
    first, hook, last = three
    others, own = rows_of(first, last), rows_of(hook)
    DONE[what](hook, integrator)
    assert rows_of(first, last) == others
    assert rows_of(hook) != own


@pytest.mark.promise("P18")
@pytest.mark.parametrize("what", DONE)
def test_webhook_service_call_without_permission_raises_not_allowed_or_not_found(
    three: list[WebhookEndpoint], person: Callable[..., User], what: str
) -> None:
    before = rows_of(*three)
    with pytest.raises(NotAllowedError):
        DONE[what](three[1], person("vik", "view_webhookendpoint"))
    for name, rights in (("bo", ["manage_webhooks"]), ("cy", [])):
        with pytest.raises(WebhookNotFound):
            DONE[what](three[1], person(name, *rights))
    assert rows_of(*three) == before


@pytest.mark.promise("P18")
def test_webhook_creation_without_permission_raises_not_allowed_error(
    person: Callable[..., User],
) -> None:
    with pytest.raises(NotAllowedError):
        webhook_services.create_webhook(URL, by=person("vik", "view_webhookendpoint"))
    assert not WebhookEndpoint.objects.exists()


class AllButOne(ModelPermissionPolicy):
    """Django's permissions, except those for one webhook."""

    def visible_rows(self, user: Any, rows: QuerySet[Any]) -> QuerySet[Any]:
        return super().visible_rows(user, rows).exclude(url=f"{URL}/hidden")


@pytest.mark.promise("P18")
@pytest.mark.parametrize("what", DONE)
def test_webhook_service_call_for_webhook_hidden_by_policy_raises_webhook_not_found(
    three: list[WebhookEndpoint], integrator: User, settings: Any, what: str
) -> None:
    WebhookEndpoint.objects.filter(pk=three[1].pk).update(url=f"{URL}/hidden")
    settings.HITL = {**settings.HITL, "POLICY": f"{__name__}.AllButOne"}
    before = rows_of(three[1])
    with pytest.raises(WebhookNotFound):
        DONE[what](three[1], integrator)
    assert rows_of(three[1]) == before
    DONE[what](three[0], integrator)
    DONE[what](three[2], integrator)


#: The last step of the operation, which fails.
LAST: dict[str, tuple[Any, str]] = {
    "try": (WriteBatch, "run"),
    "redeliver": (tasks, "enqueue_delivery"),
}


@pytest.mark.parametrize("what", LAST)
def test_webhook_service_call_failing_at_its_last_write_leaves_rows_unchanged(
    three: list[WebhookEndpoint],
    integrator: User,
    monkeypatch: pytest.MonkeyPatch,
    what: str,
) -> None:
    before = rows_of(*three)
    owner, name = LAST[what]
    monkeypatch.setattr(owner, name, Mock(side_effect=OSError("the disk is full")))
    with pytest.raises(OSError, match="the disk is full"):
        DONE[what](three[1], integrator)
    assert rows_of(*three) == before


def test_webhook_secret_rotated_twice_concurrently_stores_the_two_new_secrets(hook: Hook) -> None:
    endpoint, made = hook(URL), list[str]()
    with before_writing(
        "hitl_webhooks_webhookendpoint",
        lambda: made.append(webhook_services.rotate_secret(endpoint.pk).secret),
    ):
        made.append(webhook_services.rotate_secret(endpoint.pk).secret)
    endpoint.refresh_from_db()
    assert [endpoint.old_secret, endpoint.secret] == made


@pytest.mark.parametrize("what", ["change", "rotate"])
def test_webhook_deleted_during_change_or_rotation_raises_webhook_not_found(
    three: list[WebhookEndpoint], monkeypatch: pytest.MonkeyPatch, integrator: User, what: str
) -> None:
    def allow(policy: Any, by: User, permission: str) -> bool:
        if permission == "hitl_webhooks.manage_webhooks":
            monkeypatch.undo()
            webhook_services.delete_webhook(three[1].pk)
        return True

    monkeypatch.setattr(ModelPermissionPolicy, "has_permission", allow)
    with pytest.raises(WebhookNotFound):
        DONE[what](three[1], integrator)


def test_redelivery_of_pending_delivery_preserves_its_attempts(hook: Hook) -> None:
    message = message_to(hook(URL))
    Delivery.objects.update(attempts=3, fault="The receiver returned 500.")
    info = webhook_services.redeliver(message.pk)
    assert (info.state, info.attempts, info.fault) == ("pending", 3, "The receiver returned 500.")


def test_redelivery_of_finished_delivery_resets_attempts_and_is_due_immediately(
    three: list[WebhookEndpoint],
) -> None:
    message = three[0].deliveries.get()
    Delivery.objects.update(due_at=Now() - timedelta(days=1))
    before = three[0].deliveries.get()
    info = webhook_services.redeliver(message.pk)
    assert (info.state, info.attempts, info.fault) == ("pending", 0, "")
    assert info.finished_at is None
    assert info.due_at > before.due_at
    three[0].refresh_from_db()
    assert three[0].paused_until is None


@pytest.mark.django_db
def test_webhook_service_call_with_invalid_id_raises_webhook_not_found() -> None:
    for what in ("nothing", None):
        with pytest.raises(WebhookNotFound):
            webhook_services.redeliver(what)  # type: ignore[arg-type]
        with pytest.raises(WebhookNotFound):
            webhook_services.delete_webhook(what)  # type: ignore[arg-type]


def test_webhook_failures_are_reset_by_url_change_or_activation_only(
    three: list[WebhookEndpoint],
) -> None:
    before = WebhookEndpoint.objects.get(pk=three[0].pk)
    for changes in ({"is_active": False}, {"description": "CRM"}):
        info = webhook_services.change_webhook(three[0].pk, **changes)
        assert (info.failures, info.paused_until) == (12, before.paused_until)
    for changes in ({"is_active": True}, {"url": URL}):
        WebhookEndpoint.objects.update(
            failures=12, paused_until=Now(), stopped="The receiver returned 410."
        )
        info = webhook_services.change_webhook(three[0].pk, **changes)
        assert (info.failures, info.paused_until, info.stopped) == (0, None, "")
    three[1].refresh_from_db()
    assert three[1].failures == 12


@pytest.mark.promise("P18")
def test_webhook_creator_changes_only_if_the_url_changes_or_contents_are_added(
    hook: Hook, integrator: User, person: Callable[..., User]
) -> None:
    eve = person("eve", "view_webhookendpoint", "manage_webhooks")
    endpoint = hook(URL, with_interrupt=True, by=integrator)

    def stands_for_it(**changes: Any) -> str:
        return webhook_services.change_webhook(endpoint.pk, by=eve, **changes).created_by_label

    for changes in ({"url": URL}, {"with_interrupt": True}, {"with_interrupt": False}):
        assert stands_for_it(**changes) == "ina"
    assert stands_for_it(with_interrupt=True) == "eve"
    assert webhook_services.change_webhook(endpoint.pk, url=f"{URL}/x").created_by_label == "system"
    assert WebhookEndpoint.objects.get().created_by is None
    assert stands_for_it(url=URL) == "eve"


def test_webhook_description_above_255_characters_raises_invalid_input_error(hook: Hook) -> None:
    endpoint = hook(URL, description="x" * 255)
    assert len(endpoint.description) == 255
    with pytest.raises(InvalidInputError):
        webhook_services.change_webhook(endpoint.pk, description="x" * 256)


def test_webhook_change_with_unknown_or_invalid_field_raises_an_error_and_leaves_row_unchanged(
    hook: Hook,
) -> None:
    endpoint = hook(URL)
    for changes in ({"secret": "mine"}, {"epoch": 7}, {"created_by": None}):
        with pytest.raises(TypeError, match="Unknown webhook fields"):
            webhook_services.change_webhook(endpoint.pk, **changes)
    with pytest.raises(InvalidInputError):
        webhook_services.change_webhook(endpoint.pk, url="https://127.0.0.2/")
    assert WebhookEndpoint.objects.values().get() == vars_of(endpoint)


def vars_of(endpoint: WebhookEndpoint) -> dict[str, Any]:
    return {field.attname: getattr(endpoint, field.attname) for field in endpoint._meta.fields}


def test_webhook_change_applies_immediately_in_the_process_that_made_it(
    hook: Hook, integrator: User
) -> None:
    def heard() -> list[Any]:
        return [listener.id for listener in outbox._listeners("default")]

    assert heard() == []
    endpoint = hook(URL)
    assert heard() == [endpoint.pk]
    webhook_services.change_webhook(endpoint.pk, is_active=False)
    assert heard() == []
    webhook_services.change_webhook(endpoint.pk, is_active=True)
    assert heard() == [endpoint.pk]
    webhook_services.delete_webhook(endpoint.pk)
    assert heard() == []


def test_webhook_cache_filled_during_a_change_is_cleared_after_the_change(hook: Hook) -> None:
    endpoint = hook(URL)
    with before_writing("hitl_webhooks_webhookendpoint", lambda: outbox._listeners("default")):
        webhook_services.change_webhook(endpoint.pk, is_active=False)
    assert outbox._listeners("default") == ()


def test_webhook_reactivation_enqueues_its_pending_deliveries(
    hook: Hook, monkeypatch: pytest.MonkeyPatch
) -> None:
    endpoint, told = hook(URL), list[Any]()
    monkeypatch.setattr(tasks, "enqueue_delivery", lambda pk, batch: told.append(pk))
    webhook_services.change_webhook(endpoint.pk, is_active=False)
    assert told == []
    webhook_services.change_webhook(endpoint.pk, is_active=True)
    assert told == [endpoint.pk]
