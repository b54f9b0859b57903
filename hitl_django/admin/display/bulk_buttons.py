"""Buttons that open the confirmation page for deciding several interrupts of a run."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from hitl_django import services
from hitl_django.decision_types import DECISION_TYPES
from hitl_django.models import Interrupt
from hitl_django.permissions import get_policy

#: Decision types that can be applied to several interrupts in one form.
BULK = {row.name: row.bulk for row in DECISION_TYPES.values() if row.bulk is not None}


@dataclass(frozen=True, slots=True)
class BulkButton:
    """A button for deciding several interrupts. ``items`` are the interrupts' checkbox values."""

    decision: str
    label: Any
    items: Sequence[str]


@dataclass(frozen=True, slots=True)
class ListedInterrupt:
    """A selected interrupt, in the version that the list showed."""

    pk: UUID
    version: int
    digest: str

    @classmethod
    def parse(cls, text: str) -> ListedInterrupt | None:
        """Parse the value of a checkbox, or return None if the value is invalid."""
        pk, _, rest = text.partition(".")
        version, _, digest = rest.partition(".")
        try:
            return cls(UUID(pk), int(version), digest)
        except ValueError:
            return None

    @property
    def value(self) -> str:
        """The value of the checkbox."""
        return f"{self.pk}.{self.version}.{self.digest}"


def get_checkbox_value(item: Interrupt) -> str:
    """Return the value of a checkbox: id, version and digest of a listed interrupt.

    If the interrupt has changed since the list was rendered, a decision with this value is
    rejected.
    """
    return ListedInterrupt(item.pk, item.version, item.payload_digest).value


def list_bulk_buttons(user: Any, items: Sequence[Interrupt]) -> list[BulkButton]:
    """Return a button for each decision type that the user may apply to two or more of ``items``.

    The buttons leave out interrupts that need several approvals or have ``no_self_approval``.
    """
    may_decide = get_policy().may_decide
    waiting = [
        item
        for item in items
        if item.status == Interrupt.Status.PENDING
        # Checking whether the user may approve would take a query per interrupt.
        and not (item.quorum > 1 or item.no_self_approval)
        and may_decide(user, item)
    ]
    found = []
    for decision, texts in BULK.items() if len(waiting) > 1 else ():
        refused = services.find_refusals([item.pk for item in waiting], decision, by=user)
        ticks = [get_checkbox_value(item) for item in waiting if item.pk not in refused]
        if len(ticks) > 1:
            label = texts.together % {"n": len(ticks)}
            found.append(BulkButton(decision, label, ticks))
    return found
