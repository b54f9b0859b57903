"""Replacement of names in audit log entries by a pseudonym, without changing the hashes."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from hitl_django.models import AuditEntry

from .names import ACTOR, REDACTED, SALTS, read_commitments, read_texts


class Redaction:
    """Replacement of names by a pseudonym in the audit log entries of one thread.

    The replaced names of each entry are remembered for ``take_detail``. The salt of a replaced name
    is deleted, and the commitment to the name is stored instead. In a damaged entry, a name may
    have no commitment. The hash of a damaged entry is invalid before and after the replacement.
    """

    def __init__(self, pseudonym: str) -> None:
        self.pseudonym = pseudonym
        self._entries: list[Any] = []

    def redact(self, entry: AuditEntry, places: Collection[str]) -> None:
        """Replace the names in the given places of an entry (``list_places``) by the pseudonym."""
        commitments = read_commitments(entry)
        salts = {at: salt for at, salt in read_texts(entry, SALTS) if at not in places}
        redacted = dict(read_texts(entry, REDACTED))
        redacted |= {at: commitments[at] for at in places if at in commitments}
        detail = {key: value for key, value in entry.detail.items() if key != SALTS}
        detail |= {REDACTED: redacted} | ({SALTS: salts} if salts else {})
        if ACTOR in places:
            entry.actor_id, entry.actor_label = None, self.pseudonym
        entry.detail = {**detail, **dict.fromkeys({*places} - {ACTOR}, self.pseudonym)}
        self._entries.append([entry.seq, sorted(places)])

    def take_detail(self) -> dict[str, Any] | None:
        """Return the details of the new audit log entry about the replacement.

        The details list the places changed since the last call, by entry. Return None if no entry
        was changed.
        """
        entries, self._entries = self._entries, []
        return {"pseudonym": self.pseudonym, "entries": entries} if entries else None
