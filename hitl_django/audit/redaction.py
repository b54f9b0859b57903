"""Replacement of names in audit log entries by a pseudonym, without changing the hashes."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from hitl_django.models import AuditEntry

from .names import ACTOR, REDACTED, SALTS, read_commitments, read_texts


class Redaction:
    """Replacement of names by a pseudonym in one thread's entries, with a list of changed places.

    The salt of each place is deleted, and the commitment of the place is stored instead. If an
    entry is damaged, a place may have no commitment. The hash of a damaged entry is invalid before
    and after the replacement.
    """

    def __init__(self, pseudonym: str) -> None:
        self.pseudonym = pseudonym
        self._entries: list[Any] = []

    def redact(self, entry: AuditEntry, places: Collection[str]) -> None:
        """Replace the names in the given places of an entry by the pseudonym."""
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
        """Return the details of the audit entry about the replacement, or None without changes.

        The details list the changed places of each entry.
        """
        entries, self._entries = self._entries, []
        return {"pseudonym": self.pseudonym, "entries": entries} if entries else None
