"""Receivers, and webhooks to their URLs."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from hitl_django import testing
from hitl_django.contrib.webhooks import delivery
from hitl_django.contrib.webhooks import services as webhook_services
from hitl_django.contrib.webhooks.models import WebhookEndpoint

from .receiver import Behaviour, Receiver, all_closed, answering

#: Webhooks may be sent to this machine.
HERE = {"WEBHOOK_NETWORKS": ["127.0.0.1"], "WEBHOOK_TIMEOUT_SECONDS": 120}


@pytest.fixture(autouse=True)
def here(settings: Any, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    settings.HITL = dict(HERE)
    # Make one task send all deliveries of a test, even on a slow machine.
    monkeypatch.setattr(delivery, "SLICE", 3600.0)
    return settings.HITL


@pytest.fixture
def advance(db: None, here: Any) -> Iterator[Callable[[], int]]:
    with testing.inline() as advance_all:
        yield advance_all


@pytest.fixture
def receive() -> Iterator[Callable[..., Receiver]]:
    """Yield a function that starts receivers with given behaviours.

    By default, they respond with 204.
    """
    started: list[Receiver] = []

    def start(*behaviours: Behaviour) -> Receiver:
        started.append(Receiver([*behaviours] or [answering(204)]))
        return started[-1]

    yield start
    all_closed(started)


@pytest.fixture
def hook(db: None, here: Any) -> Callable[..., WebhookEndpoint]:
    """Return a function that creates a webhook to a URL or a receiver."""

    def make(to: Receiver | str, **options: Any) -> WebhookEndpoint:
        url = to if isinstance(to, str) else to.url
        return WebhookEndpoint.objects.get(pk=webhook_services.create_webhook(url, **options).id)

    return make
