"""Webhooks sent by real workers, some of which are killed."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from hitl_django.contrib.webhooks import services as webhook_services
from hitl_django.contrib.webhooks.models import Delivery
from tests.contrib.webhooks.receiver import Behaviour, Receiver, answering, silent

from .conftest import IMPATIENT, Cluster, start_laps

pytestmark = [pytest.mark.cluster, pytest.mark.django_db(transaction=True)]

HITL = {
    **IMPATIENT,
    "WEBHOOK_NETWORKS": ["127.0.0.1"],
    "WEBHOOK_TIMEOUT_SECONDS": 2,
}


def delivered(count: int) -> Callable[[], bool]:
    return lambda: Delivery.objects.filter(state="delivered").count() == count


@pytest.mark.promise("P8")
def test_webhook_message_of_killed_worker_is_delivered_by_the_next_worker(
    cluster: Callable[..., Cluster], settings: Any
) -> None:
    settings.HITL = HITL
    started: list[Receiver] = []
    behaviours: list[Behaviour] = [silent(lambda: started[0]), answering(204)]
    started.append(Receiver(behaviours))
    receiver = started[0]
    try:
        hook = webhook_services.create_webhook(receiver.url)
        messages = {str(webhook_services.send_test_event(hook.id).id) for _ in range(5)}
        first = cluster("hitl", "worker", TEST_HITL=json.dumps(HITL)).ready()
        hanging = receiver.next().headers["webhook-id"]
        first.clear_up()  # sends SIGKILL to all of its processes

        second = cluster("hitl", "worker", TEST_HITL=json.dumps(HITL))
        second.wait_for(delivered(5))
    finally:
        receiver.close()
    sent = [received.headers["webhook-id"] for received in receiver.all()]
    assert {hanging, *sent} == messages
    assert hanging in sent
    assert Delivery.objects.get(pk=hanging).attempts >= 2


def test_runs_and_other_webhooks_continue_while_one_receiver_hangs(
    cluster: Callable[..., Cluster], settings: Any, book: Any
) -> None:
    settings.HITL = HITL
    started: list[Receiver] = []
    started.append(Receiver([silent(lambda: started[0])]))
    alive = Receiver([answering(200)])
    try:
        webhook_services.create_webhook(started[0].url)
        webhook_services.create_webhook(alive.url)
        runs = start_laps(book, 6, laps=2, seconds=0.01)
        workers = cluster("hitl", "worker", TEST_HITL=json.dumps(HITL)).ready()
        workers.wait_for(delivered(len(runs)))
        told = {json.loads(received.body)["data"]["run_id"] for received in alive.all()}
    finally:
        started[0].close()
        alive.close()
    assert told == {str(run) for run in runs}
    dead = Delivery.objects.exclude(state="delivered")
    assert dead.count() == len(runs)
    assert sum(dead.values_list("attempts", flat=True)) <= 3
