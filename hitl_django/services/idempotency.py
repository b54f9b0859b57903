"""run_idempotent: what changes something happens once for each idempotency key of a user.

For what has no key of its own: a start, a decision and the taking of a question keep theirs with
what they make.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any, NamedTuple, TypeVar

from django.db import IntegrityError, transaction

from hitl_django.db.alias import write_alias
from hitl_django.db.retry import retry_on_conflict
from hitl_django.errors import IdempotencyKeyReusedError, NotAllowedError
from hitl_django.models import IdempotencyRecord
from hitl_django.models.fields import digest_json
from hitl_django.models.functions import Now

Made = TypeVar("Made")

#: How long a key is known, and how many the sweep removes at a time.
KEPT, BATCH = timedelta(days=1), 1000


class IdempotentResult(NamedTuple):
    """What came of a request: what was made just now, or the id of what was made before."""

    made: Any
    earlier: str | None


def run_idempotent(
    act: Callable[[], Made], name: Callable[[Made], str], *, key: str, request: Any, by: Any
) -> IdempotentResult:
    """Call ``act``, unless the user has had it called under the same key before.

    ``name`` gives the id of what was made, under which a repeat finds it. ``request`` is JSON that
    says what is asked for; the same key with another is an IdempotencyKeyReusedError. One
    transaction holds the key and what is done under it. Whatever raises leaves the key free. A key
    is known for a day.
    """
    digest = digest_json(request)
    earlier = _find(key, digest, by)
    if earlier is not None:
        return IdempotentResult(None, earlier)
    try:
        return IdempotentResult(_act(act, name, key, digest, by), None)
    except IntegrityError:
        # The same came at once: the constraint let one through, which is there by now.
        earlier = _find(key, digest, by)
        if earlier is None:
            raise
        return IdempotentResult(None, earlier)


def remove_old(limit: int = BATCH) -> int:
    """Delete keys that are no longer known, so many at most; returns how many there were."""
    rows = IdempotencyRecord.objects.using(write_alias())
    old = rows.filter(created_at__lt=Now() - KEPT).order_by("created_at")
    gone = list(old.values_list("pk", flat=True)[:limit])
    return rows.filter(pk__in=gone).delete()[0] if gone else 0


def _find(key: str, digest: str, by: Any) -> str | None:
    row = IdempotencyRecord.objects.using(write_alias()).filter(user=by, key=key).first()
    if row is None:
        return None
    if row.digest != digest:
        raise IdempotencyKeyReusedError(
            f"Idempotency key {key!r} was already used for a different request."
        )
    return row.outcome


@retry_on_conflict
def _act(
    act: Callable[[], Made], name: Callable[[Made], str], key: str, digest: str, by: Any
) -> Made:
    using, refusal = write_alias(), None
    with transaction.atomic(using=using):
        # Before anything is done: who comes with the same key waits here.
        row = IdempotencyRecord.objects.using(using).create(user=by, key=key, digest=digest)
        try:
            made = act()
        except NotAllowedError as error:
            # That it was refused is in the thread's record, which is of this transaction.
            row.delete(using=using)
            refusal = error
        else:
            row.outcome = name(made)
            row.save(using=using, update_fields=["outcome"])
    if refusal is not None:
        raise refusal
    return made
