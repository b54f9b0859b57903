"""Pending interrupts of an agent's run."""

from __future__ import annotations

from typing import Any

from hitl_django.models import Interrupt


def list_pending(run: Any) -> list[Interrupt]:
    return list(Interrupt.objects.filter(run=run.id, status="pending").order_by("pk"))
