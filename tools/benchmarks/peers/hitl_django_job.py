"""The job with hitl-django, as in its README."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from hitl_django import services
from hitl_django.models import Interrupt

from ..jobs import graphs
from ..worker.cluster import WORKER
from .job import CENTS, CUSTOMER


def prepare() -> None:
    pass  # The tables are created by migrations.


def programs() -> Sequence[Sequence[str]]:
    return [WORKER]


def start(key: str) -> None:
    services.start(graphs.GRAPH, {"customer": CUSTOMER, "cents": CENTS}, key=key)


def list_pending() -> list[Any]:
    pending = Interrupt.objects.filter(status=Interrupt.Status.PENDING)
    return list(pending.values_list("pk", flat=True))


def decide(request: Any) -> None:
    services.decide(request, "approve")
