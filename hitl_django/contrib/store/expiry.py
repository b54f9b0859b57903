"""Expiry of items in the store: visibility, refresh and removal."""

from __future__ import annotations

from collections.abc import Sequence

from django.db.models import DateTimeField, ExpressionWrapper, F, Q, QuerySet

from hitl_django.db.alias import write_alias
from hitl_django.db.retry import retry_on_conflict
from hitl_django.models.functions import Now

from .models import StoreItem

IS_EXPIRED = Q(expires_at__lte=Now())
#: Maximum number of rows per statement.
BATCH = 500


def select_alive(using: str) -> QuerySet[StoreItem]:
    """Return the items that have not expired."""
    is_alive = Q(expires_at__isnull=True) | Q(expires_at__gt=Now())
    return StoreItem.objects.using(using).filter(is_alive)


def refresh_items(using: str, keys: Sequence[int]) -> None:
    """Restart the time to live of the items with the primary keys ``keys``."""
    later = ExpressionWrapper(Now() + F("ttl"), output_field=DateTimeField())
    for start in range(0, len(keys), BATCH):
        rows = StoreItem.objects.using(using).filter(pk__in=keys[start : start + BATCH])
        rows.update(expires_at=later)


@retry_on_conflict
def delete_expired(limit: int) -> int:
    """Delete at most ``limit`` expired items, earliest first, and return their number."""
    using = write_alias()
    expired = StoreItem.objects.using(using).filter(IS_EXPIRED).order_by("expires_at")
    keys = list(expired.values_list("pk", flat=True)[:limit])
    if not keys:
        return 0
    # Check again, because an item that was read or put in the meantime has not expired.
    rows = StoreItem.objects.using(using).filter(IS_EXPIRED, pk__in=keys)
    return rows.delete()[0]
