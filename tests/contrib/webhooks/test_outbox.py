"""Deliveries in the outbox: stored together with their event, or not at all."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta

import pytest
from django.db import transaction
from django.db.models.functions import Now

from hitl_django import run_leases, services
from hitl_django.contrib.webhooks import outbox
from hitl_django.contrib.webhooks.models import Delivery, WebhookEndpoint
from hitl_django.models import Interrupt, Run, Thread
from tools.benchmarks.counts import counting

Advance = Callable[[], int]
Hook = Callable[..., WebhookEndpoint]

URL = "https://hooks.example/a"


def told() -> list[str]:
    return [*Delivery.objects.order_by("created_at", "event").values_list("event", flat=True)]


def asked(advance: Advance) -> Interrupt:
    run = services.start("approval", {"text": "x"})
    advance()
    return Interrupt.objects.get(run=run.id)


def test_run_with_decision_publishes_created_decided_and_succeeded_events(
    hook: Hook, advance: Advance
) -> None:
    hook(URL)
    interrupt = asked(advance)
    services.decide(interrupt.pk, "approve")
    advance()
    assert told() == ["interrupt.created", "interrupt.decided", "run.succeeded"]
    created, decided, succeeded = (row.data for row in Delivery.objects.order_by("created_at"))
    ids = {
        "graph": "approval",
        "run_id": str(interrupt.run_id),
        "thread_id": interrupt.thread.thread_id,
    }
    about = {"interrupt_id": str(interrupt.pk), "digest": interrupt.payload_digest}
    assert created == {**ids, **about}
    assert decided == {**ids, **about, "decision_id": str(interrupt.decisions.get().pk)}
    assert succeeded == ids


def test_failed_parked_and_cancelled_runs_publish_their_events(
    hook: Hook, advance: Advance
) -> None:
    hook(URL, events=["run.failed", "run.parked", "run.cancelled"])
    services.start("unstorable", {"text": "x"})
    advance()
    cancelled = asked(advance)
    services.cancel(cancelled.run_id)
    parked = services.start("approval", {"text": "y"})
    lease = run_leases.claim(parked.id)
    assert lease is not None
    run_leases.park(lease, "it got nowhere")
    given_up = services.start("approval", {"text": "z"})
    lease = run_leases.claim(given_up.id)
    assert lease is not None
    run_leases.release(lease, ValueError("gone"), to_park=True)
    assert told() == ["run.failed", "run.cancelled", "run.parked", "run.parked"]


@pytest.mark.parametrize("then", ["park", "cancel", "answer"])
def test_expired_interrupt_publishes_expired_event_and_event_of_parked_or_cancelled_run(
    hook: Hook, advance: Advance, then: str
) -> None:
    interrupt = asked(advance)
    hook(URL)
    Interrupt.objects.filter(pk=interrupt.pk).update(
        expires_at=Now() - timedelta(seconds=1), expiry={"seconds": 1, "then": then, "answer": 1}
    )
    assert services.expire_due() == 1
    more = {"park": ["run.parked"], "cancel": ["run.cancelled"], "answer": []}[then]
    assert sorted(told()) == sorted(["interrupt.expired", *more])


def test_run_discarded_by_new_input_publishes_run_cancelled(hook: Hook, advance: Advance) -> None:
    interrupt = asked(advance)
    hook(URL)
    services.start(
        "approval",
        {"text": "again"},
        thread_id=interrupt.thread.thread_id,
        on_pending="discard",
    )
    assert told() == ["run.cancelled"]


@pytest.mark.promise("P3")
def test_rolled_back_decision_publishes_no_event(hook: Hook, advance: Advance) -> None:
    interrupt = asked(advance)
    hook(URL)
    with transaction.atomic():
        services.decide(interrupt.pk, "approve")
        assert told() == ["interrupt.decided"]
        transaction.set_rollback(True)
    assert told() == []


@pytest.mark.promise("P10")
def test_worker_with_lost_lease_publishes_no_event(hook: Hook, advance: Advance) -> None:
    run = services.start("approval", {"text": "x"})
    hook(URL)
    lease = run_leases.claim(run.id)
    assert lease is not None
    Thread.objects.update(epoch=99)
    assert run_leases.park(lease, "too late") is None
    assert (told(), Run.objects.get().state) == ([], "running")


def test_webhook_gets_only_events_of_its_event_types_and_graphs(
    hook: Hook, advance: Advance
) -> None:
    some = hook(URL, events=["interrupt.created"])
    other = hook(URL, graphs=["steps"])
    hook(URL, is_active=False)
    asked(advance)
    services.start("steps", {"log": []})
    advance()
    heard = set(Delivery.objects.values_list("endpoint", "event"))
    assert heard == {(some.pk, "interrupt.created"), (other.pk, "run.succeeded")}


def test_decision_in_project_without_webhooks_executes_no_webhook_statement(
    advance: Advance,
) -> None:
    asked(advance)
    interrupt = asked(advance)
    with counting() as deciding:
        services.decide(interrupt.pk, "approve")
    assert not [text for text in deciding.texts if "webhook" in text or "delivery" in text]
    outbox.clear_listeners()
    with counting() as looking:
        services.decide(asked(advance).pk, "approve")
    looks = [text for text in looking.texts if "webhook" in text or "delivery" in text]
    assert len(looks) == 1


def test_webhook_created_by_another_process_is_found_after_the_reload_delay(
    advance: Advance, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = [100.0]
    monkeypatch.setattr(outbox, "monotonic", lambda: now[0])
    asked(advance)
    # Not sent by the service, so no message exists.
    WebhookEndpoint.objects.create(url=URL, secret="whsec_")
    now[0] += outbox.LOOK_SECONDS / 2
    asked(advance)
    assert told() == []
    now[0] += outbox.LOOK_SECONDS / 2
    asked(advance)
    assert told() == ["interrupt.created"]


def test_decision_during_deletion_of_a_webhook_is_stored(hook: Hook, advance: Advance) -> None:
    interrupt = asked(advance)
    gone = hook(URL)
    outbox._listeners("default")
    WebhookEndpoint.objects.all().delete()  # by another process
    services.decide(interrupt.pk, "approve")
    assert Delivery.objects.get().endpoint_id == gone.pk
    assert interrupt.decisions.count() == 1
