"""Redaction: a pseudonym takes a person's place in entries, which keep the hashes they have."""

from __future__ import annotations

import hashlib
from collections.abc import Collection
from typing import Any

from hitl_django.models import AuditEntry

from .entries import get_hashed_text
from .names import ACTOR, FORGOTTEN, SALTS, read_commitments


class Redaction:
    """Puts a pseudonym in entries of one thread, given in order, and notes what attests it.

    Where an entry has salts, that of each such place goes and its commitment stays. Where it is of
    an earlier release, its text is another from then on: of that the digest is noted.
    """

    def __init__(self, pseudonym: str, thread_id: str) -> None:
        self.pseudonym, self.thread_id = pseudonym, thread_id
        #: Numbers of entries that stay as they are: an earlier release wrote them behind one with
        #: salts, as while another is deployed, and behind one nothing can be attested.
        self.left: list[int] = []
        self._is_salted = False
        self._clear()

    def redact(self, entry: AuditEntry, places: Collection[str]) -> bool:
        """Redacts these places of an entry; returns whether that changed it."""
        commitments = read_commitments(entry)
        before, self._is_salted = self._is_salted, self._is_salted or bool(commitments)
        if not places:
            return False
        provable = commitments.keys() >= {*places} if commitments else not before
        if not provable:
            self.left.append(entry.seq)
            return False
        detail = entry.detail
        if commitments:
            salts = {at: salt for at, salt in detail.get(SALTS, {}).items() if at not in places}
            kept = {at: commitments[at] for at in places}
            detail = {key: value for key, value in detail.items() if key != SALTS}
            detail |= {FORGOTTEN: {**detail.get(FORGOTTEN, {}), **kept}}
            detail |= {SALTS: salts} if salts else {}
            self._entries.append([entry.seq, sorted(places)])
        if ACTOR in places:
            entry.actor_id, entry.actor_label = None, self.pseudonym
        entry.detail = {**detail, **dict.fromkeys({*places} - {ACTOR}, self.pseudonym)}
        if not commitments:
            text = get_hashed_text(entry, self.thread_id)
            self._attested.append([entry.seq, hashlib.sha256(text.encode()).hexdigest()])
        return True

    def take_detail(self) -> dict[str, Any] | None:
        """Returns the detail of the entry that attests what was redacted since; None of nothing."""
        entries, attested = self._entries, self._attested
        self._clear()
        if not (entries or attested):
            return None
        detail: dict[str, Any] = {"pseudonym": self.pseudonym, "entries": entries}
        return {**detail, "attested": attested} if attested else detail

    def _clear(self) -> None:
        self._entries: list[Any] = []
        self._attested: list[Any] = []
