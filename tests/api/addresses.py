"""All API URLs, with arguments and bodies for successful requests."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from django.conf import settings
from django.test import override_settings

from hitl_django import services
from hitl_django.contrib.links.services import create_review_link
from hitl_django.contrib.schedules.services import create_schedule
from hitl_django.contrib.webhooks import services as webhook_services
from hitl_django.models import Checkpoint, Run

#: An id that no object has.
NOBODYS = "11111111-2222-4333-8444-555555555555"
BODIES: dict[str, dict[str, Any]] = {
    "runs": {"graph": "invoice", "input": {"amount": 12}},
    "runs-batch": {"runs": [{"graph": "invoice", "input": {"amount": 12}}]},
    "interrupts": {"payload": {"question": "Pay this invoice?"}},
    "decisions": {"type": "approve"},
    "decision-validate": {"type": "approve"},
    "decisions-bulk": {"decisions": [{"interrupt": NOBODYS, "type": "approve"}]},
    "links": {"name": "Dana K."},
    "snooze": {"until": "2999-01-01T00:00:00Z"},
    "comments": {"text": "Half of it?"},
    "schedules": {"graph": "invoice", "expression": "0 7 * * *", "input": {"amount": 12}},
    "webhooks": {"url": "https://crm.example/"},
    "webhook": {"description": "The other one"},
}
OF_A_INTERRUPT = (
    "interrupt", "decisions", "decision-validate", "claim", "release", "assign", "snooze",
    "comments",
)  # fmt: skip


@pytest.fixture
def bodies(arguments: dict[str, tuple[Any, ...]]) -> dict[str, dict[str, Any]]:
    (thread_id,) = arguments["thread-fork"]
    place = Checkpoint.objects.filter(thread__thread_id=thread_id).order_by("pk").first()
    assert place is not None
    return {**BODIES, "thread-fork": {"checkpoint": place.checkpoint_id}}


@pytest.fixture
def arguments(
    invoice: Any, asked: Callable[..., Any], make_run: Any, make_user: Any
) -> dict[str, tuple[Any, ...]]:
    """Return the arguments that each URL needs for an existing object."""
    interrupt, decided = asked(), asked()
    with override_settings(HITL={**settings.HITL, "UNDO_SECONDS": 600}):
        services.decide(decided.pk, "approve", by=make_user(is_superuser=True))
    failed, ended = make_run(state=Run.State.FAILED), make_run(state=Run.State.SUCCEEDED)
    schedule = create_schedule("invoice", "0 7 * * *", {"amount": 12})
    hook = webhook_services.create_webhook("https://hooks.example/")
    return {
        "graphs": (),
        "graph": ("invoice",),
        "graph-diagram": ("invoice",),
        "runs": (),
        "runs-batch": (),
        "run": (interrupt.run_id,),
        "run-cancel": (interrupt.run_id,),
        "run-events": (interrupt.run_id,),
        "run-retry": (failed.pk,),
        "threads": (),
        "thread": (ended.thread.thread_id,),
        "thread-state": (interrupt.thread.thread_id,),
        "thread-audit": (interrupt.thread.thread_id,),
        "thread-history": (interrupt.thread.thread_id,),
        "thread-fork": (interrupt.thread.thread_id,),
        "interrupts": (),
        "interrupt-stream": (),
        "next": (),
        **dict.fromkeys(OF_A_INTERRUPT, (interrupt.pk,)),
        "undo": (decided.pk,),
        "stats": (),
        "decisions-bulk": (),
        "schema": (),
        "links": (interrupt.pk,),
        "link-detail": (interrupt.pk, create_review_link(interrupt.pk, name="Dana K.").id),
        "schedules": (),
        "schedule": (schedule.id,),
        "webhooks": (),
        **dict.fromkeys(["webhook", "webhook-secret", "webhook-test", "deliveries"], (hook.id,)),
        **dict.fromkeys(["delivery", "redeliver"], (webhook_services.send_test_event(hook.id).id,)),
        "worker-health": (),
    }
