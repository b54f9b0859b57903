"""Independent verification of the audit chain with raw rows, ``hashlib`` and ``json``.

Only the decryption of details with ENCRYPTION_KEYS uses the package.

The hash of an entry is the SHA-256, in hexadecimal, of the previous entry's hash followed by the
entry's text. The first entry has no previous hash. The text is JSON in UTF-8 with sorted keys and
without spaces: ``thread`` (the thread's name), ``seq``, ``at`` (ISO 8601 in UTC), ``verb``,
``subject``, ``actor`` (a name), ``via`` and ``detail``. A reason in the detail is replaced by its
digest, i.e. the first 32 digits of the SHA-256 of its JSON. Entries are numbered from 1. The user
of an entry is the one in its detail, unless the user was deleted. The thread's row contains the
last number and hash.

``salts`` in the detail contains 32 digits for each place with a name, i.e. the actor or a key of
the detail. The hashed text contains ``{"name": …}`` in this place, with the SHA-256 of salt and
name. ``redacted`` contains this object for each place with a pseudonym. A later entry
``pseudonymize_user`` then lists the number, the place and the pseudonym. The hashed text contains
neither ``salts`` nor ``redacted``. The text of an entry without both keys may differ from the
hashed text in one case: no earlier entry has the keys, the entry contains the pseudonym of a later
``pseudonymize_user``, and that entry contains the SHA-256 of the changed text.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

from django.db import connection

from hitl_django.encryption import decrypt_text

ENTRIES = """
    SELECT seq, verb, subject, actor_id, actor_label, via, detail, at, prev_hash, hash
    FROM hitl_django_auditentry WHERE thread_id = %s ORDER BY seq
"""
HEAD = "SELECT thread_id, audit_seq, audit_hash FROM hitl_django_thread WHERE id = %s"


def faults(thread: int) -> Iterator[str]:
    """Yield the violated invariants of one thread's audit chain."""
    with connection.cursor() as cursor:
        cursor.execute(HEAD, [thread])
        [(name, last, head)] = cursor.fetchall()
        cursor.execute(ENTRIES, [thread])
        entries = cursor.fetchall()
    expected, before = 1, ""
    # Pseudonyms that a later entry must list, by entry number and place.
    unsaid: dict[tuple[int, str], Any] = {}
    for seq, verb, subject, account, actor, via, text, at, previous, found in entries:
        detail = json.loads(decrypt_text(text, "hitl_django_auditentry.detail"))
        if seq != expected:
            yield f"audit entry {expected} isn't there, but {seq}"
        if previous != before:
            yield f"audit entry {seq} doesn't follow"
        if account is not None and str(account) != detail["actor_id"]:
            yield f"audit entry {seq} leads to another account"
        salts, redacted = detail.pop("salts", {}), detail.pop("redacted", {})
        says = {**detail, "actor": actor}
        for salt in salts.values():
            if len(salt) != 32:
                yield f"audit entry {seq} has a salt that is none"
        for place in redacted:
            if not re.fullmatch("forgotten-[0-9a-f]{12}", says[place]):
                yield f"audit entry {seq} has a name that isn't proven"
            unsaid[seq, place] = says[place]
        counts = {place: sha256(salt + says[place]) for place, salt in salts.items()} | redacted
        counted = digested(detail) | {place: {"name": one} for place, one in counts.items()}
        told = {
            "thread": name,
            "seq": seq,
            "at": moment(at),
            "verb": verb,
            "subject": subject,
            "actor": counted.pop("actor", actor),
            "via": via,
            "detail": counted,
        }
        if found == hashlib.sha256(before.encode() + in_bytes(told)).hexdigest():
            if verb == "pseudonymize_user":
                settle(detail, unsaid)
        else:
            yield f"audit entry {seq} says what it didn't"
        expected, before = seq + 1, found
    for seq, _ in unsaid:
        yield f"audit entry {seq} says what it didn't"
    if (last, head) != (expected - 1, before):
        yield f"the thread's record ends with {last}, its entries with {expected - 1}"


def settle(detail: dict[str, Any], unsaid: dict[tuple[int, str], Any]) -> None:
    places = [(seq, place) for seq, places in detail["entries"] for place in places]
    for seq, place in places:
        if detail["pseudonym"] == unsaid.get((seq, place)):
            del unsaid[seq, place]


def sha256(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def in_bytes(value: Any) -> bytes:
    text = json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return text.encode("utf-8")


def digested(detail: dict[str, Any]) -> dict[str, Any]:
    reason = detail.get("reason")
    if not reason or not isinstance(reason, str):
        return detail
    return detail | {"reason": {"digest": hashlib.sha256(in_bytes(reason)).hexdigest()[:32]}}


def moment(at: Any) -> str:
    read = datetime.fromisoformat(at) if isinstance(at, str) else at
    return (read.replace(tzinfo=UTC) if read.tzinfo is None else read.astimezone(UTC)).isoformat()
