"""Filter that removes interrupts from a thread's data if the user may not see them.

States, writes and events contain interrupts as the engine created them. Whether a user may see an
interrupt depends on the interrupt's row in the review queue. An interrupt without a row is visible
only to users who may see all interrupts.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from hitl_django.db.alias import write_alias
from hitl_django.engine.constants import INTERRUPT
from hitl_django.models import Interrupt
from hitl_django.permissions import select_visible


class ShownInterrupts:
    """The set of the interrupts of one thread that a user may see.

    Interrupts are identified by their ids in the engine, not by the ids of their rows.
    """

    def __init__(self, thread: int, by: Any) -> None:
        rows = Interrupt.objects.using(write_alias()).filter(thread=thread)
        self._rows = select_visible(rows, by)
        self.are_all = self._rows is rows
        #: Whether an event contained an interrupt that is hidden from the user.
        self.left_out = False
        self._known: set[str] = set()

    def look_up(self, ids: Iterable[str]) -> None:
        """Determine with at most one query which of these interrupts the user may see."""
        unknown = set() if self.are_all else {*ids} - self._known
        if unknown:
            found = self._rows.filter(interrupt_id__in=unknown)
            self._known.update(found.values_list("interrupt_id", flat=True))

    def __contains__(self, interrupt_id: Any) -> bool:
        return self.are_all or (isinstance(interrupt_id, str) and interrupt_id in self._known)

    def hide_in_writes(self, writes: list[Any]) -> list[Any]:
        """Return a task's writes (pairs of key and value) without hidden interrupts."""
        if self.are_all:
            return writes
        asked = [one for key, value in writes if key == INTERRUPT for one in value]
        self.look_up(one.id for one in asked)
        return [
            (key, [one for one in value if one.id in self] if key == INTERRUPT else value)
            for key, value in writes
        ]

    def hide_in_event(self, kind: str, data: Any) -> Any:
        """Return an event's data without hidden interrupts.

        Call ``look_up()`` with the ids of all interrupts in the event first.
        """
        if self.are_all or not isinstance(data, dict):
            return data
        for holder, key in find_interrupt_lists(kind, data):
            asked = _list_interrupts(holder[key])
            holder[key] = [one for one in asked if one.get("id") in self]
            self.left_out = self.left_out or len(holder[key]) < len(asked)
        return data


def find_interrupt_lists(kind: str, data: Any) -> Iterator[tuple[dict[str, Any], str]]:
    """Yield each object in an event's data that contains a list of interrupts.

    The object is yielded with the key of the list.
    """
    if not isinstance(data, dict):
        return
    holders: list[Any]
    if kind in ("values", "updates"):
        holders, key = [data], INTERRUPT
    elif kind == "tasks":
        holders, key = [data], "interrupts"
    elif kind == "checkpoints" and isinstance(data.get("tasks"), list):
        holders, key = data["tasks"], "interrupts"
    else:
        return
    for holder in holders:
        if isinstance(holder, dict) and key in holder:
            yield holder, key


def list_interrupt_ids(kind: str, data: Any) -> list[str]:
    """Return the ids of all interrupts in an event's data."""
    return [
        one["id"]
        for holder, key in find_interrupt_lists(kind, data)
        for one in _list_interrupts(holder[key])
        if isinstance(one.get("id"), str)
    ]


def _list_interrupts(value: Any) -> list[dict[str, Any]]:
    """Return the interrupts in a list from an event.

    In a truncated event, the list or its items may be replaced by values that aren't interrupts.
    These values are ignored.
    """
    return [one for one in value if isinstance(one, dict)] if isinstance(value, list) else []
