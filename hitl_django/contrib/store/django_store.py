"""The store in the project's database."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import takewhile

from asgiref.sync import sync_to_async
from django.db import transaction

from hitl_django.db.alias import write_alias
from hitl_django.db.retry import retry_on_conflict
from hitl_django.engine.errors import InvalidNamespaceError, PayloadLimitError
from hitl_django.engine.payload import check_json
from hitl_django.engine.store import (
    IndexConfig,
    Op,
    PutOp,
    Result,
    TTLConfig,
    validate_op_namespace,
)
from hitl_django.engine.store.indexed_store import IndexedStore
from hitl_django.engine.store.operations import ItemKey, Namespace, select_puts
from hitl_django.engine.store.search_index import EmbeddedTexts
from hitl_django.engine.store.ttl import read_ttl
from hitl_django.models.fields import encode_namespace
from hitl_django.models.functions import Now

from .expiry import BATCH, IS_EXPIRED, delete_expired
from .item_reads import read_batch, select_items
from .models import StoreItem
from .vector_bytes import encode_vectors

#: Maximum number of bytes of namespace and key together, because an index entry contains both.
MAX_NAME_BYTES = 2000


class DjangoStore(IndexedStore):
    """A store in the project's database, for all threads and processes.

    The store behaves like InMemoryStore, with some limits. Values are plain JSON, so a tuple is
    read as a list. Namespace and key have at most 2,000 bytes together. The results of a search in
    several namespaces are ordered by namespace. A batch is stored completely or not at all. If a
    transaction is open, for example by ``transact()``, the batch becomes part of the transaction.
    Times are on the database's clock.

    With ``index``, embeddings are computed when items are put. Items that were put without
    ``index`` are found without a score until they are put again. A semantic search reads the
    vectors of all matching items in its namespace. Semantic search is designed for up to about ten
    thousand items. Searching ten thousand items takes up to a few seconds, depending on the length
    of the vectors.

    Expired items are invisible, and the sweep (a periodic job) deletes them.
    """

    def __init__(self, *, index: IndexConfig | None = None, ttl: TTLConfig | None = None) -> None:
        super().__init__(index, ttl)

    def sweep_ttl(self) -> int:
        """Remove all expired items without waiting for the sweep, and return their number."""
        return sum(takewhile(bool, iter(lambda: delete_expired(BATCH), None)))

    def perform(self, ops: Sequence[Op], embedded: EmbeddedTexts) -> list[Result]:
        for op in ops:
            validate_op_namespace(op)
        puts = select_puts(ops)
        new = [self._make_row(op, embedded) for op in puts.values() if op.value is not None]
        if not puts:
            return read_batch(write_alias(), ops, embedded)
        return _perform_together(ops, embedded, list(puts), new)

    # Django's connections belong to OS threads, so async methods use asgiref's OS thread for
    # database calls.

    async def aperform(self, ops: Sequence[Op], embedded: EmbeddedTexts) -> list[Result]:
        return await sync_to_async(self.perform, thread_sensitive=True)(ops, embedded)

    def _make_row(self, op: PutOp, embedded: EmbeddedTexts) -> StoreItem:
        if not isinstance(op.key, str):
            raise TypeError(f"Store keys must be str, not {type(op.key).__name__}.")
        value = dict(op.value or {})
        check_json(op.key, "The store key")
        check_json(value, f"The store value {op.key!r}")
        _check_size(op.namespace, op.key)
        ttl = read_ttl(op.ttl)
        return StoreItem(
            namespace=op.namespace,
            key=op.key,
            value=value,
            vectors=encode_vectors(self._find_vectors(op, embedded)),
            ttl=ttl,
            expires_at=None if ttl is None else Now() + ttl,
        )


@retry_on_conflict
def _perform_together(
    ops: Sequence[Op], embedded: EmbeddedTexts, put: Sequence[ItemKey], new: Sequence[StoreItem]
) -> list[Result]:
    """Perform the reads and writes of a batch in one transaction.

    ``put`` contains the namespace and key of each item that is stored or deleted. ``new`` are the
    rows of the items that are stored. ``embedded`` contains the vectors of the search queries.
    """
    using = write_alias()
    kept = {(row.namespace, row.key) for row in new}
    with transaction.atomic(using=using):
        results = read_batch(using, ops, embedded)
        for rows in select_items(StoreItem.objects.using(using), put):
            # An expired item is not updated, because the new item with its name is a different
            # item.
            rows.filter(IS_EXPIRED).delete()
        removed = [name for name in put if name not in kept]
        for rows in select_items(StoreItem.objects.using(using), removed):
            rows.delete()
        StoreItem.objects.using(using).bulk_create(
            new,
            update_conflicts=True,
            unique_fields=["namespace", "key"],
            update_fields=["value", "vectors", "ttl", "expires_at", "updated_at"],
        )
    return results


def _check_size(namespace: Namespace, key: str) -> None:
    try:
        size = len(encode_namespace(namespace)) + len(key.encode())
    except UnicodeEncodeError as error:
        raise InvalidNamespaceError(
            f"Namespace labels cannot contain lone surrogates: {namespace!r}."
        ) from error
    if size > MAX_NAME_BYTES:
        raise PayloadLimitError(
            f"Namespace and key take {size:,} bytes; the limit is {MAX_NAME_BYTES:,}.",
            limit=MAX_NAME_BYTES,
            found=size,
        )
