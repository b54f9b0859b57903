"""Idempotency records, which store the idempotency keys and the results of requests.

Runs, decisions and claims need no record, because their own rows contain the key.
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
from hitl_django.permissions import check_user

Made = TypeVar("Made")

#: Time for which a key is valid, and maximum number of expired keys deleted per sweep.
KEPT, BATCH = timedelta(days=1), 1000


class IdempotentResult(NamedTuple):
    """Result of an idempotent call.

    Attributes:
        result: the result of the function, or None if the call was repeated.
        earlier_id: the id that the first call returned, or None if this is the first call.
    """

    result: Any
    earlier_id: str | None


def run_idempotent(
    act: Callable[[], Made], name: Callable[[Made], str], *, key: str, request: Any, by: Any
) -> IdempotentResult:
    """Call ``act`` unless the user has used the same idempotency key before.

    ``name`` is a function that returns the id of the result of ``act``. A repeated call returns the
    id from the first call. ``request`` is a JSON value that identifies the call, such as the HTTP
    method, path and body of an API request. The key and the changes of ``act`` are stored in one
    transaction, so an exception leaves the key unused. A key is valid for one day.

    Raises:
        IdempotencyKeyReusedError: if the key was used with a different ``request``.
    """
    check_user(by)
    digest = digest_json(request)
    earlier = _find(key, digest, by)
    if earlier is not None:
        return IdempotentResult(None, earlier)
    try:
        return IdempotentResult(_act(act, name, key, digest, by), None)
    except IntegrityError:
        # A concurrent call with the same key committed first, so its record exists by now.
        earlier = _find(key, digest, by)
        if earlier is None:
            raise
        return IdempotentResult(None, earlier)


def remove_old(limit: int = BATCH) -> int:
    """Delete at most ``limit`` expired idempotency records.

    Return the number of deleted records.
    """
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
        # Create the record first, so that a concurrent call with the same key waits for this
        # transaction.
        row = IdempotencyRecord.objects.using(using).create(user=by, key=key, digest=digest)
        try:
            made = act()
        except NotAllowedError as error:
            # Delete the record instead of rolling back, because this transaction also contains the
            # audit log entry of the denial.
            row.delete(using=using)
            refusal = error
        else:
            row.outcome = name(made)
            row.save(using=using, update_fields=["outcome"])
    if refusal is not None:
        raise refusal
    return made
