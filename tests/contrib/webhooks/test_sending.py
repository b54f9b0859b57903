"""Deliveries: at least once, signed, and with a constant id for all receivers."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import threading
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from functools import partial
from typing import Any

import pytest
from django.contrib.auth.models import Permission
from django.db.models import F
from django.db.models.functions import Now

from hitl_django import services
from hitl_django.contrib.webhooks import claims, maintenance, messages, signatures
from hitl_django.contrib.webhooks import delivery as sending
from hitl_django.contrib.webhooks import services as webhook_services
from hitl_django.contrib.webhooks.models import Delivery, WebhookEndpoint
from hitl_django.models import Interrupt
from hitl_django.worker.sweeper import sweep
from tests.contrib.webhooks import receiver as faults
from tests.docs.pages import Page

from .receiver import PATIENCE, Received, Receiver, answering

Hook = Callable[..., WebhookEndpoint]
Receive = Callable[..., Receiver]
Advance = Callable[[], int]


def due_now() -> None:
    Delivery.objects.update(due_at=Now() - timedelta(seconds=1))
    WebhookEndpoint.objects.update(paused_until=None, lease_until=None)


def the_time() -> datetime:
    found: datetime = WebhookEndpoint.objects.values_list(Now(), flat=True)[0]
    return found


def message_to(hook: WebhookEndpoint) -> Delivery:
    return Delivery.objects.get(pk=webhook_services.send_test_event(hook.pk).id)


def deliver(delivery: Delivery) -> Delivery:
    sending.deliver(str(delivery.endpoint_id))
    delivery.refresh_from_db()
    return delivery


def ask(advance: Advance) -> Delivery:
    services.start("approval", {"text": "x"})
    advance()
    return Delivery.objects.get()


def told(delivery: Delivery, receiver: Receiver) -> dict[str, Any]:
    if delivery.state != "pending":
        webhook_services.redeliver(delivery.pk)
    deliver(delivery)
    data: dict[str, Any] = json.loads(receiver.next().body)["data"]
    return data


def signature(secret: str, received: Received) -> str:
    headers = received.headers
    key = base64.b64decode(secret.removeprefix("whsec_"))
    signed = f"{headers['webhook-id']}.{headers['webhook-timestamp']}.".encode() + received.body
    return "v1," + base64.b64encode(hmac.new(key, signed, hashlib.sha256).digest()).decode()


def test_webhook_delivery_is_signed_and_contains_links_without_payload(
    hook: Hook, receive: Receive, advance: Advance, settings: Any
) -> None:
    settings.HITL = {**settings.HITL, "SITE_URL": "https://shop.example/"}
    receiver = receive()
    endpoint = hook(receiver)
    run = services.start("approval", {"text": "the secret"})
    advance()
    interrupt = Interrupt.objects.get(run=run.id)
    sending.deliver(str(endpoint.pk))

    received = receiver.next()
    delivery = Delivery.objects.get()
    assert (delivery.state, delivery.status, delivery.attempts) == ("delivered", 204, 1)
    assert received.head == "POST /hook?a=b HTTP/1.1"
    assert received.headers["host"] == f"127.0.0.1:{receiver.port}"
    assert received.headers["webhook-id"] == str(delivery.pk)
    assert abs(int(received.headers["webhook-timestamp"]) - time.time()) < PATIENCE
    assert received.headers["webhook-signature"] == signature(endpoint.secret, received)
    said = json.loads(received.body)
    assert said["type"] == "interrupt.created"
    assert datetime.fromisoformat(said["timestamp"]) == delivery.created_at
    links = said["data"].pop("links")
    assert said["data"] == delivery.data
    assert links == {
        "interrupt": f"https://shop.example/hitl/api/v1/interrupts/{interrupt.pk}/",
        "run": f"https://shop.example/hitl/api/v1/runs/{run.id}/",
        "review": f"https://shop.example/admin/hitl_django/reviewitem/{interrupt.pk}/change/",
    }
    assert b"secret" not in received.body


def find_page(user: Any, interrupt: Interrupt) -> str:
    assert user is None
    return f"https://office.example/{interrupt.run.graph}/{interrupt.pk}"


def test_webhook_link_to_review_is_the_url_returned_by_the_request_url_function(
    hook: Hook, receive: Receive, advance: Advance, settings: Any
) -> None:
    settings.HITL = {**settings.HITL, "REQUEST_URL": f"{__name__}.find_page"}
    receiver = receive()
    endpoint = hook(receiver)
    services.start("approval", {"text": "x"})
    advance()
    sending.deliver(str(endpoint.pk))
    review = json.loads(receiver.next().body)["data"]["links"]["review"]
    assert review == f"https://office.example/approval/{Interrupt.objects.get().pk}"


def test_webhook_delivery_after_secret_rotation_has_old_and_new_signature_for_a_day(
    hook: Hook, receive: Receive
) -> None:
    receiver = receive()
    endpoint = hook(receiver)
    rotated = webhook_services.rotate_secret(endpoint.pk)
    deliver(message_to(endpoint))
    received = receiver.next()
    both = [signature(secret, received) for secret in (rotated.secret, endpoint.secret)]
    assert received.headers["webhook-signature"].split(" ") == both
    WebhookEndpoint.objects.update(old_secret_until=Now())
    deliver(message_to(endpoint))
    received = receiver.next()
    assert received.headers["webhook-signature"] == signature(rotated.secret, received)


CLOSED = "The connection was closed before the response was complete."
FAULTS: dict[str, tuple[Any, str]] = {
    "500": (answering(500), "The receiver returned 500."),
    "400": (answering(400), "The receiver returned 400."),
    "a redirect": (
        answering(307, "Location: http://169.254.169.254/latest/"),
        "The receiver returned 307. Redirects are not followed.",
    ),
    "closed at once": (faults.closing, CLOSED),
    "closed mid-way": (faults.breaking_off, CLOSED),
    "no HTTP": (faults.babbling, "The response was not valid HTTP (BadStatusLine)."),
    "a flood of headers": (faults.flooding, "The response was not valid HTTP (HTTPException)."),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_failed_webhook_delivery_is_retried_with_unchanged_id_and_body(
    hook: Hook, receive: Receive, fault: str
) -> None:
    behaviour, said = FAULTS[fault]
    receiver = receive(behaviour, answering(200))
    delivery, began = message_to(hook(receiver)), the_time()
    deliver(delivery)
    assert (delivery.state, delivery.attempts) == ("pending", 1)
    assert delivery.fault == said
    assert began + timedelta(seconds=7) < delivery.due_at < the_time() + timedelta(seconds=13)

    due_now()
    assert (deliver(delivery).state, delivery.attempts, delivery.fault) == ("delivered", 2, "")
    first, second = receiver.next(), receiver.next()
    assert first.headers["webhook-id"] == second.headers["webhook-id"] == str(delivery.pk)
    assert first.body == second.body
    assert receiver.all() == []


@pytest.mark.parametrize("kind", [faults.silent, faults.dripping])
def test_webhook_delivery_to_slow_receiver_times_out_and_is_pending(
    hook: Hook, receive: Receive, settings: Any, kind: Any
) -> None:
    settings.HITL = {**settings.HITL, "WEBHOOK_TIMEOUT_SECONDS": 0.3}
    started: list[Receiver] = []
    started.append(receive(kind(lambda: started[0])))
    delivery = deliver(message_to(hook(started[0])))
    assert delivery.fault == "The receiver timed out."
    assert delivery.state == "pending"


def test_webhook_delivery_with_huge_response_is_delivered(hook: Hook, receive: Receive) -> None:
    assert deliver(message_to(hook(receive(faults.huge)))).state == "delivered"


def test_webhook_delivery_to_closed_port_fails_with_connection_refused(
    hook: Hook, receive: Receive
) -> None:
    receiver = receive()
    receiver.close()
    delivery = deliver(message_to(hook(receiver)))
    assert delivery.fault == "The connection failed: Connection refused."


def test_webhook_delivery_is_dead_after_webhook_attempts_until_redelivered(
    hook: Hook, receive: Receive, settings: Any
) -> None:
    settings.HITL = {**settings.HITL, "WEBHOOK_ATTEMPTS": 3}
    receiver = receive(*[answering(503)] * 3, answering(200))
    delivery = message_to(hook(receiver))
    for attempt in (1, 2, 3):
        assert delivery.state == "pending"
        due_now()
        assert deliver(delivery).attempts == attempt
    assert (delivery.state, delivery.fault) == ("dead", "The receiver returned 503.")
    due_now()
    assert deliver(delivery).attempts == 3

    assert webhook_services.redeliver(delivery.pk).state == "pending"
    assert (deliver(delivery).state, delivery.attempts) == ("delivered", 1)
    assert {received.headers["webhook-id"] for received in receiver.all()} == {str(delivery.pk)}


def test_webhook_delivery_attempt_of_a_dead_worker_counts_toward_webhook_attempts(
    hook: Hook, receive: Receive, settings: Any
) -> None:
    settings.HITL = {**settings.HITL, "WEBHOOK_ATTEMPTS": 1}
    endpoint = hook(receive())
    delivery = message_to(endpoint)
    held = claims.claim_endpoint(endpoint.pk)
    assert held is not None
    assert claims.claim_next(held) is not None  # and its worker is killed
    due_now()
    assert deliver(delivery).state == "dead"
    assert delivery.fault == "The worker died during the last attempt."
    assert delivery.attempts == 1


def test_webhook_retry_delays_grow_to_a_maximum_with_jitter() -> None:
    waits = [sending._growing(10, 3, attempt, 6 * 3600) for attempt in range(1, 12)]
    assert waits[:4] == [10, 30, 90, 270]
    assert waits[-1] == sending._growing(10, 3, 10_000, 6 * 3600) == 6 * 3600
    jittered = {sending._jittered(100) for _ in range(50)}
    assert len(jittered) > 1
    assert all(75 <= wait <= 125 for wait in jittered)


@pytest.mark.parametrize(
    ("header", "expected"),
    [
        ("120", 120),
        ("-5", 0),
        ("", 0),
        ("soon", 0),
        ("1e9", 0),
        ("9" * 400, 6 * 3600),
        ("9" * 5000, 0),
        ("Fri, 31 Dec 1999 23:59:59 GMT", 0),
        ("Fri, 99 Foo 1999", 0),
    ],
)
def test_webhook_retry_after_header_is_limited_to_six_hours_and_invalid_header_means_zero(
    header: str, expected: float
) -> None:
    assert sending._retry_after(header) == expected


def test_webhook_retry_after_header_accepts_a_date() -> None:
    later = format_datetime(datetime.now(UTC) + timedelta(hours=1), usegmt=True)
    assert sending._retry_after(later) == pytest.approx(3600, abs=PATIENCE)


def test_webhook_retry_after_header_delays_all_deliveries_of_the_webhook(
    hook: Hook, receive: Receive
) -> None:
    receiver = receive(answering(429, "Retry-After: 3600"), answering(200))
    endpoint = hook(receiver)
    began = the_time()
    first, second = message_to(endpoint), message_to(endpoint)
    assert deliver(first).state == "pending"
    assert deliver(second).attempts == 0  # the same task has skipped it
    endpoint.refresh_from_db()
    hour = timedelta(hours=1)
    for until in (endpoint.paused_until, first.due_at):
        assert until is not None
        assert began + hour <= until <= the_time() + hour
    # An old message would be sent again unless the endpoint is paused.
    WebhookEndpoint.objects.update(last_message_at=Now() - timedelta(minutes=1))
    assert maintenance.enqueue_due() == []
    assert len(receiver.all()) == 1


def test_webhook_delivery_rejected_with_422_does_not_delay_other_deliveries(
    hook: Hook, receive: Receive
) -> None:
    receiver = receive(answering(422), answering(200))
    endpoint = hook(receiver)
    refused, welcome = message_to(endpoint), message_to(endpoint)
    assert deliver(refused).state == "pending"
    welcome.refresh_from_db()
    assert welcome.state == "delivered"


def test_webhook_with_dead_receiver_is_paused_and_does_not_delay_other_webhooks(
    hook: Hook, receive: Receive
) -> None:
    dead = hook(receive(faults.closing))
    alive = hook(receive())
    to_dead = [message_to(dead) for _ in range(5)]
    for _ in range(3):
        due_now()
        began = the_time()
        sending.deliver(str(dead.pk))
    dead.refresh_from_db()
    assert dead.failures == 3
    assert sum(Delivery.objects.filter(endpoint=dead).values_list("attempts", flat=True)) == 3
    assert len(to_dead) == 5
    assert deliver(message_to(alive)).state == "delivered"

    assert dead.paused_until is not None
    assert began + timedelta(seconds=14) < dead.paused_until < the_time() + timedelta(seconds=26)


def test_webhook_failures_are_reset_by_a_successful_delivery(hook: Hook, receive: Receive) -> None:
    endpoint = hook(receive(faults.closing, answering(200)))
    delivery = message_to(endpoint)
    deliver(delivery)
    due_now()
    deliver(delivery)
    endpoint.refresh_from_db()
    assert (endpoint.failures, endpoint.lease_until) == (0, None)


def test_webhook_response_410_disables_the_webhook(
    hook: Hook, receive: Receive, advance: Advance
) -> None:
    receiver = receive(answering(410))
    endpoint = hook(receiver)
    delivery, other = message_to(endpoint), message_to(endpoint)
    assert deliver(delivery).state == "dead"
    endpoint.refresh_from_db()
    assert (endpoint.is_active, endpoint.stopped) == (False, "The receiver returned 410 Gone.")
    services.start("steps", {"log": []})
    advance()
    assert Delivery.objects.count() == 2
    assert deliver(other).attempts == 0
    webhook_services.change_webhook(endpoint.pk, is_active=True)
    endpoint.refresh_from_db()
    assert (endpoint.is_active, endpoint.stopped) == (True, "")


def test_webhook_with_interrupt_option_sends_payload_unless_payload_digest_has_changed(
    hook: Hook, receive: Receive, advance: Advance
) -> None:
    receiver = receive()
    hook(receiver, with_interrupt=True, events=["interrupt.created"])
    delivery = ask(advance)
    interrupt = Interrupt.objects.get()
    assert told(delivery, receiver)["interrupt"] == {
        "title": "Publish x?",
        "payload": interrupt.payload,
        "response_schema": interrupt.response_schema,
    }
    Interrupt.objects.update(payload_digest="0" * 32)
    assert "interrupt" not in told(delivery, receiver)


def test_webhook_deliveries_contain_the_interrupt_of_their_event(
    hook: Hook, receive: Receive, advance: Advance
) -> None:
    receiver = receive()
    endpoint = hook(receiver, with_interrupt=True, events=["interrupt.created"])
    for text in ("x", "y", "z"):
        services.start("approval", {"text": text})
    advance()
    sending.deliver(str(endpoint.pk))
    sent = [json.loads(received.body)["data"] for received in receiver.all()]
    titles = {data["interrupt_id"]: data["interrupt"]["title"] for data in sent}
    assert not any("links" in data for data in sent)  # no SITE_URL for the links
    assert titles == {str(row.pk): row.title for row in Interrupt.objects.all()}
    assert sorted(titles.values()) == ["Publish x?", "Publish y?", "Publish z?"]


@pytest.mark.promise("P18")
def test_webhook_payload_is_sent_only_while_its_creator_is_permitted(
    hook: Hook, receive: Receive, advance: Advance, django_user_model: Any
) -> None:
    maker = django_user_model.objects.create_superuser("ada")
    receiver = receive()
    hook(receiver, with_interrupt=True, events=["interrupt.created"], by=maker)
    delivery = ask(advance)
    assert "interrupt" in told(delivery, receiver)
    django_user_model.objects.update(is_active=False)
    assert "interrupt" not in told(delivery, receiver)
    maker.delete()
    assert "interrupt" not in told(delivery, receiver)


@pytest.mark.promise("P18")
@pytest.mark.parametrize("change", ["url", "with_interrupt"])
def test_webhook_change_of_url_or_contents_by_unpermitted_user_stops_sending_the_payload(
    hook: Hook,
    receive: Receive,
    advance: Advance,
    django_user_model: Any,
    change: str,
) -> None:
    first, receiver = receive(), receive()
    maker = django_user_model.objects.create_superuser("ada")
    endpoint = hook(first, with_interrupt=change == "url", events=["interrupt.created"], by=maker)
    eve = django_user_model.objects.create_user("eve")
    eve.user_permissions.set(Permission.objects.filter(codename__contains="webhook"))
    webhook_services.change_webhook(endpoint.pk, description="hers no more", is_active=True, by=eve)
    endpoint.refresh_from_db()
    assert endpoint.created_by == maker
    given = {"url": receiver.url} if change == "url" else {"with_interrupt": True}
    webhook_services.change_webhook(endpoint.pk, by=eve, **given)
    assert "interrupt" not in told(ask(advance), receiver if change == "url" else first)


@pytest.mark.promise("P18")
def test_webhook_of_deactivated_creator_named_system_sends_no_payload(
    hook: Hook, receive: Receive, advance: Advance, django_user_model: Any
) -> None:
    maker = django_user_model.objects.create_superuser("system")
    receiver = receive()
    hook(receiver, with_interrupt=True, events=["interrupt.created"], by=maker)
    django_user_model.objects.update(is_active=False)
    delivery = ask(advance)
    assert "interrupt" not in told(delivery, receiver)
    maker.delete()
    assert "interrupt" not in told(delivery, receiver)


@pytest.mark.promise("P8")
def test_webhook_delivery_whose_message_was_lost_is_enqueued_by_the_sweep(
    hook: Hook, receive: Receive, monkeypatch: pytest.MonkeyPatch
) -> None:
    endpoint, quiet = hook(receive()), hook(receive())
    message_to(endpoint)
    hinted: list[str] = []
    monkeypatch.setattr(
        "hitl_django.contrib.webhooks.tasks.enqueue_delivery",
        lambda pk, batch: hinted.append(str(pk)),
    )
    sweep()
    assert hinted == []  # a message was just sent, so a worker may start soon
    WebhookEndpoint.objects.update(last_message_at=Now() - timedelta(minutes=1))
    sweep()
    sweep()
    assert hinted == [str(endpoint.pk)]
    assert quiet.deliveries.count() == 0


def test_old_webhook_deliveries_are_deleted_if_finished_or_of_inactive_or_deleted_webhook(
    hook: Hook, settings: Any
) -> None:
    endpoint, gone = hook("https://a.example/"), hook("https://b.example/")
    off = hook("https://c.example/", is_active=False)
    finished, young, waiting = (message_to(endpoint) for _ in range(3))
    Delivery.objects.filter(pk=finished.pk).update(
        state="delivered", finished_at=Now() - timedelta(days=31)
    )
    Delivery.objects.filter(pk=young.pk).update(state="dead", finished_at=Now())
    message_to(gone)
    message_to(off)
    Delivery.objects.exclude(endpoint=endpoint).update(due_at=Now() - timedelta(days=31))
    WebhookEndpoint.objects.filter(pk=gone.pk)._raw_delete("default")
    assert maintenance.remove_old() == 3
    assert set(Delivery.objects.all()) == {young, waiting}


def test_webhook_task_at_end_of_its_time_slice_enqueues_remaining_deliveries(
    hook: Hook, receive: Receive, monkeypatch: pytest.MonkeyPatch
) -> None:
    endpoint = hook(receive())
    first, second = message_to(endpoint), message_to(endpoint)
    hinted: list[Any] = []
    monkeypatch.setattr(
        "hitl_django.contrib.webhooks.tasks.enqueue_delivery", lambda pk, batch: hinted.append(pk)
    )
    monkeypatch.setattr(sending, "SLICE", 0)
    assert deliver(first).state == "delivered"
    second.refresh_from_db()
    assert (second.attempts, hinted) == (0, [endpoint.pk])


def test_webhook_delivery_created_while_the_webhook_is_released_is_sent(
    hook: Hook, receive: Receive, monkeypatch: pytest.MonkeyPatch
) -> None:
    endpoint = hook(receive())
    message_to(endpoint)
    let_go, late = claims.release_endpoint, list[Delivery]()

    def meanwhile(held: WebhookEndpoint, **changes: Any) -> None:
        if not late:
            late.append(message_to(endpoint))
            sending.deliver(str(endpoint.pk))  # a second worker finds the first one active
        let_go(held, **changes)

    monkeypatch.setattr(claims, "release_endpoint", meanwhile)
    sending.deliver(str(endpoint.pk))
    late[0].refresh_from_db()
    assert late[0].state == "delivered"


def test_webhook_worker_with_lost_lease_stores_no_result(
    hook: Hook, receive: Receive, monkeypatch: pytest.MonkeyPatch
) -> None:
    receiver = receive()
    endpoint = hook(receiver)
    delivery = message_to(endpoint)
    held = claims.claim_endpoint(endpoint.pk)
    assert held is not None
    claim = claims.claim_next(held)
    assert claim is not None
    due_now()
    deliver(delivery)  # another worker, meanwhile
    late = sending._attempt(
        claims.Claim(claim.delivery, claim.attempt, claim.deadline - 3600), held
    )
    assert late is not None
    assert late.fault == "The receiver timed out."  # and nothing was sent
    assert len(receiver.all()) == 1
    sending._settle(claim, held, late)
    delivery.refresh_from_db()
    endpoint.refresh_from_db()
    assert (delivery.state, endpoint.failures, endpoint.paused_until) == ("delivered", 0, None)


@pytest.mark.parametrize("moment", ["lease_until", "paused_until"])
def test_webhook_is_not_claimed_during_its_lease_or_pause(
    hook: Hook, receive: Receive, moment: str
) -> None:
    endpoint = hook(receive())
    rows = WebhookEndpoint.objects.filter(pk=endpoint.pk)
    rows.update(**{moment: Now() + timedelta(seconds=60)})
    assert claims.claim_endpoint(endpoint.pk) is None
    # Simulates a claim that a killed worker didn't release.
    rows.update(**{moment: Now() - timedelta(seconds=1)})
    held = claims.claim_endpoint(endpoint.pk)
    assert held is not None
    assert held.epoch == endpoint.epoch + 1
    assert claims.claim_endpoint(endpoint.pk) is None
    rows.update(lease_until=None, is_active=False)
    assert claims.claim_endpoint(endpoint.pk) is None


def test_webhook_response_after_delivery_became_dead_is_not_stored(
    hook: Hook, receive: Receive
) -> None:
    endpoint = hook(receive())
    delivery = message_to(endpoint)
    held = claims.claim_endpoint(endpoint.pk)
    assert held is not None
    claim = claims.claim_next(held)
    assert claim is not None
    Delivery.objects.update(state="dead")
    sending._settle(claim, held, sending.AttemptResult(204))
    delivery.refresh_from_db()
    assert delivery.state == "dead"


OUTCOMES = {
    "delivered": sending.AttemptResult(204),
    "refused": sending.AttemptResult(400),
    "failed": sending.AttemptResult(500),
    "gone": sending.AttemptResult(410),
    "nobody knows": None,
}


#: Responses, the resulting state of the delivery, and whether the endpoint is paused.
ANSWERS: dict[sending.AttemptResult, tuple[str, bool]] = {
    **{sending.AttemptResult(status): ("delivered", False) for status in (200, 202, 299)},
    **{
        sending.AttemptResult(status): ("pending", False)
        for status in (199, 300, 400, 404, 422, 499)
    },
    **{
        sending.AttemptResult(status): ("pending", True)
        for status in (408, 425, 429, 500, 503, 599)
    },
    sending.AttemptResult(fault="The receiver timed out."): ("pending", True),
}


@pytest.mark.parametrize("answer", ANSWERS, ids=lambda answer: str(answer.status))
def test_webhook_response_status_determines_delivery_state_and_webhook_pause(
    hook: Hook, answer: sending.AttemptResult
) -> None:
    endpoint = hook("https://a.example/")
    message = message_to(endpoint)
    held = claims.claim_endpoint(endpoint.pk)
    assert held is not None
    claim = claims.claim_next(held)
    assert claim is not None
    went_on = sending._settle(claim, held, answer)
    message.refresh_from_db()
    endpoint.refresh_from_db()
    state, rests = ANSWERS[answer]
    assert (message.state, message.status) == (state, answer.status)
    assert (message.finished_at is not None) == (state == "delivered")
    assert (went_on, endpoint.failures) == (not rests, rests)
    # The claim of a paused endpoint is released. An active endpoint keeps it for the next delivery.
    assert (endpoint.paused_until is not None, endpoint.lease_until is None) == (rests, rests)


@pytest.mark.parametrize(("given", "most"), [(None, 20.0), (5.0, 5.0), (20.0, 20.0), (60.0, 20.0)])
def test_webhook_task_time_slice_is_limited_by_the_worker_time_slice(
    monkeypatch: pytest.MonkeyPatch, given: float | None, most: float
) -> None:
    monkeypatch.setattr(sending, "SLICE", 20.0)
    monkeypatch.setattr("hitl_django.task_queue.dispatcher.get_time_slice", lambda: given)
    assert sending._slice() == most


def test_repeatedly_failed_webhook_delivery_is_due_after_growing_delays(hook: Hook) -> None:
    endpoint = hook("https://a.example/")
    message = message_to(endpoint)
    for attempt, least, most in ((1, 7, 13), (2, 22, 38), (3, 67, 113)):
        due_now()
        held = claims.claim_endpoint(endpoint.pk)
        assert held is not None
        claim = claims.claim_next(held)
        assert claim is not None
        began = the_time()
        sending._settle(claim, held, sending.AttemptResult(500))
        message.refresh_from_db()
        assert message.attempts == attempt
        waits = (began + timedelta(seconds=least), the_time() + timedelta(seconds=most))
        assert waits[0] < message.due_at < waits[1]


@pytest.mark.parametrize("outcome", OUTCOMES)
def test_webhook_result_of_worker_with_lost_lease_does_not_change_the_current_attempt(
    hook: Hook, receive: Receive, outcome: str
) -> None:
    endpoint = hook(receive())
    delivery = message_to(endpoint)
    frozen = claims.claim_endpoint(endpoint.pk)
    assert frozen is not None
    stale = claims.claim_next(frozen)
    assert stale is not None
    due_now()
    held = claims.claim_endpoint(endpoint.pk)
    assert held is not None
    claim = claims.claim_next(held)
    assert claim is not None
    before = [list(model.objects.values()) for model in (Delivery, WebhookEndpoint)]

    sending._settle(stale, frozen, OUTCOMES[outcome])
    assert claims.claim_next(frozen) is None
    claims.release_endpoint(frozen, failures=7)

    assert [list(model.objects.values()) for model in (Delivery, WebhookEndpoint)] == before
    sending._settle(claim, held, sending.AttemptResult(204))
    delivery.refresh_from_db()
    assert (delivery.state, delivery.attempts) == ("delivered", 2)


def test_webhook_delivery_claimed_by_concurrent_workers_has_distinct_attempt_numbers(
    hook: Hook, receive: Receive, monkeypatch: pytest.MonkeyPatch
) -> None:
    endpoint = hook(receive())
    message_to(endpoint)
    held = claims.claim_endpoint(endpoint.pk)
    assert held is not None
    looks, due = [], claims.select_due

    def look(endpoint: WebhookEndpoint) -> Any:
        looks.append(1)
        if len(looks) == 2:  # the worker has read the delivery, and is about to claim it
            Delivery.objects.update(attempts=F("attempts") + 1)
        return due(endpoint)

    monkeypatch.setattr(claims, "select_due", look)
    claim = claims.claim_next(held)
    assert claim is not None
    assert (claim.attempt, Delivery.objects.get().attempts) == (2, 2)


def test_webhook_delivery_result_changes_no_other_webhook_or_delivery(
    hook: Hook, receive: Receive
) -> None:
    first, second = hook(receive()), hook(receive())
    mine, other = message_to(first), message_to(second)
    also = message_to(first)
    bystander = list(Delivery.objects.filter(pk=other.pk).values())
    held = claims.claim_endpoint(first.pk)
    assert held is not None
    claim = claims.claim_next(held)
    assert claim is not None
    assert claim.delivery.pk == mine.pk
    sending._settle(claim, held, sending.AttemptResult(500))
    second.refresh_from_db()
    also.refresh_from_db()
    assert (also.attempts, second.epoch, second.failures, second.lease_until) == (0, 0, 0, None)
    assert list(Delivery.objects.filter(pk=other.pk).values()) == bystander


@pytest.mark.django_db(transaction=True)
def test_webhook_deliveries_with_six_concurrent_workers_are_sent_once_each(
    hook: Hook, receive: Receive
) -> None:
    receiver = receive()
    endpoint = hook(receiver)
    messages = [message_to(endpoint) for _ in range(10)]
    from django.db import connections

    start = threading.Barrier(6)

    def work() -> None:
        start.wait(PATIENCE)
        sending.deliver(str(endpoint.pk))
        connections.close_all()

    threads = [threading.Thread(target=work) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(PATIENCE)
    assert Delivery.objects.filter(state="delivered", attempts=1).count() == 10
    sent = [received.headers["webhook-id"] for received in receiver.all()]
    assert sorted(sent) == sorted(str(message.pk) for message in messages)


def test_webhook_delivery_with_unexpected_error_is_logged_and_stays_pending(
    hook: Hook, receive: Receive, monkeypatch: pytest.MonkeyPatch, caplog: Any
) -> None:
    endpoint = hook(receive())
    monkeypatch.setattr(messages, "post_body", partial(int, "the database is away"))
    message_to(endpoint)
    sending.deliver(str(endpoint.pk))
    sending.deliver("no id")
    assert caplog.text.count("could not process deliveries") == 2
    assert Delivery.objects.filter(attempts=F("attempts"), state="pending").count() == 1


@pytest.mark.parametrize("why", ["held", "resting", "off", "gone"])
def test_webhook_leased_paused_disabled_or_deleted_gets_no_delivery_and_logs_no_error(
    hook: Hook, receive: Receive, caplog: Any, why: str
) -> None:
    receiver = receive()
    endpoint = hook(receiver)
    message_to(endpoint)
    later = Now() + timedelta(minutes=1)
    rows = WebhookEndpoint.objects.filter(pk=endpoint.pk)
    if why == "gone":
        rows._raw_delete("default")
    else:
        changes = {"held": {"lease_until": later}, "resting": {"paused_until": later}}
        rows.update(**changes.get(why, {"is_active": False}))
    sending.deliver(str(endpoint.pk))
    assert receiver.all() == []
    assert Delivery.objects.get().attempts == 0
    assert "could not process deliveries" not in caplog.text


def test_verify_function_of_the_webhook_guide_accepts_old_and_new_secret_after_rotation(
    hook: Hook, receive: Receive
) -> None:
    names: dict[str, Any] = {}
    programs = Page("docs/guides/webhooks.md").programs
    (snippet,) = [program.code for program in programs if "def verify(" in program.code]
    exec(snippet, names)
    verify = names["verify"]
    receiver = receive()
    endpoint = hook(receiver)
    deliver(message_to(endpoint))
    received = receiver.next()
    headers = received.headers
    assert verify(endpoint.secret, headers, received.body)
    assert not verify(endpoint.secret, headers, received.body + b" ")
    assert not verify(signatures.make_secret(), headers, received.body)
    assert not verify(endpoint.secret, {**headers, "webhook-id": "another"}, received.body)
    old = {**headers, "webhook-timestamp": str(int(headers["webhook-timestamp"]) - 301)}
    assert not verify(endpoint.secret, old, received.body)
    rotated = webhook_services.rotate_secret(endpoint.pk)
    deliver(message_to(endpoint))
    received = receiver.next()
    for secret in (rotated.secret, endpoint.secret):
        assert verify(secret, received.headers, received.body)
