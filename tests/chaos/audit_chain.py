"""The audit chain, checked without the package: raw rows, ``hashlib`` and ``json``.

Of the package it has what decrypts a detail where there are ENCRYPTION_KEYS.

Each entry's hash is SHA-256, in hex, of the hash before it (nothing before the first) and of what
it says as JSON: ``thread`` (its name), ``seq``, ``at`` (ISO 8601 in UTC), ``verb``, ``subject``,
``actor`` (a name), ``via`` and ``detail``, the keys sorted, without spaces, in UTF-8. A reason in
the detail counts by its digest, the first 32 digits of the SHA-256 of its JSON. Entries are
numbered from 1, the account is the one that the detail names, unless that was deleted, and the
thread's row holds the last number and hash.
"""

from __future__ import annotations

import hashlib
import json
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
    """Yields what doesn't hold of the chain of one thread."""
    with connection.cursor() as cursor:
        cursor.execute(HEAD, [thread])
        [(name, last, head)] = cursor.fetchall()
        cursor.execute(ENTRIES, [thread])
        entries = cursor.fetchall()
    expected, before = 1, ""
    for seq, verb, subject, account, actor, via, text, at, previous, found in entries:
        detail = json.loads(decrypt_text(text, "hitl_django_auditentry.detail"))
        if seq != expected:
            yield f"audit entry {expected} isn't there, but {seq}"
        if previous != before:
            yield f"audit entry {seq} doesn't follow"
        if account is not None and str(account) != detail["actor_id"]:
            yield f"audit entry {seq} leads to another account"
        told = {
            "thread": name,
            "seq": seq,
            "at": moment(at),
            "verb": verb,
            "subject": subject,
            "actor": actor,
            "via": via,
            "detail": digested(detail),
        }
        if found != hashlib.sha256(before.encode() + in_bytes(told)).hexdigest():
            yield f"audit entry {seq} says what it didn't"
        expected, before = seq + 1, found
    if (last, head) != (expected - 1, before):
        yield f"the thread's record ends with {last}, its entries with {expected - 1}"


def in_bytes(value: Any) -> bytes:
    text = json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return text.encode("utf-8")


def digested(detail: dict[str, Any]) -> dict[str, Any]:
    reason = detail.get("reason")
    if not reason or not isinstance(reason, str):
        return detail
    return detail | {"reason": {"digest": hashlib.sha256(in_bytes(reason)).hexdigest()[:32]}}


def moment(at: Any) -> str:
    """Returns a moment as it is hashed; SQLite has it as text, in UTC."""
    read = datetime.fromisoformat(at) if isinstance(at, str) else at
    return (read.replace(tzinfo=UTC) if read.tzinfo is None else read.astimezone(UTC)).isoformat()
