"""Re-encryption of all rows with the first key of ENCRYPTION_KEYS.

Afterwards, older keys can be removed. Rows are read in batches in the order of their primary keys,
with only the first bytes of encrypted columns. A row that doesn't use the first key is read
completely, and written if it hasn't changed since. The re-encryption can run while workers are
running, because processes with the same ENCRYPTION_KEYS already write with the first key. It can be
interrupted and repeated.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from django.db import models, transaction
from django.db.models import F
from django.db.models.functions import Cast, Substr

from hitl_django.checkpoints import value_deltas, version_deltas
from hitl_django.checkpoints.encrypted_rows import (
    decrypt_column,
    decrypt_row,
    encrypt_column,
    encrypt_row,
    is_encrypted,
    is_under_first_key,
)
from hitl_django.checkpoints.queries import Payloads
from hitl_django.db.alias import write_alias
from hitl_django.db.retry import retry_on_conflict
from hitl_django.encryption import (
    ENVELOPE_HEAD,
    decrypt_text,
    encrypt_text,
    find_key_ring,
    get_key_ring,
    is_envelope,
    is_envelope_current,
)
from hitl_django.engine.errors import CorruptPayloadError
from hitl_django.engine.serde import digest
from hitl_django.extensions import Archive, iterate_archives, list_models
from hitl_django.models import (
    ChannelBlob,
    Checkpoint,
    Interrupt,
    PendingWrite,
)
from hitl_django.models.fields import EncryptedField, name_column
from hitl_django.models.search import build_search_text, index_text

BATCH = 200  # The number of rows of one transaction.
TRIES = 5  # The number of attempts for a row that is changed concurrently.
#: The bytes of a row that are sufficient to identify its key, except for a delta with a longer
#: head.
HEAD = 64

#: The key of a column or row: an older key, no key, or the first key.
OLD, PLAIN, FIRST = "old", "plain", "first"


@dataclass(slots=True)
class RowCounts:
    """Counts of the rows in one table, by encryption status.

    Attributes:
        rows: all rows.
        old: rows encrypted with an older key.
        plain: rows without encryption.
        rewritten: rows that were encrypted with the first key.
        unreadable: damaged rows, and rows encrypted with a key that is no longer in
            ENCRYPTION_KEYS.
    """

    table: str
    rows: int = 0
    old: int = 0
    plain: int = 0
    rewritten: int = 0
    unreadable: int = 0


def count_rows() -> Iterator[RowCounts]:
    """Count the rows of all tables by encryption status. Yield the counts after each batch."""
    return _process_all(rewrite=False)


def rewrite_rows() -> Iterator[RowCounts]:
    """Encrypt all rows with the first key. Yield the counts of rows after each batch.

    Raises:
        CorruptPayloadError: ENCRYPTION_KEYS contains no key.
    """
    get_key_ring()
    return _process_all(rewrite=True)


def _process_all(*, rewrite: bool) -> Iterator[RowCounts]:
    if find_key_ring() is None:
        return
    # Archives are last, so that threads archived in the meantime are found there.
    for table in (
        _WriteTable(),
        _BlobTable(),
        _CheckpointTable(),
        *_find_text_tables(),
        _SearchTextTable(),
        *(_ArchiveTable(model, archive) for model, archive in iterate_archives()),
    ):
        last: Any = None
        while heads := table.read_heads(last):
            yield _process_batch(table, heads, rewrite=rewrite)
            last = heads[-1][0]


def _process_batch(table: _EncryptedTable, heads: list[Any], *, rewrite: bool) -> RowCounts:
    counts = RowCounts(table.model._meta.db_table, len(heads))
    chosen = []
    for pk, *head in heads:
        try:
            under = table.classify(pk, head)
        except CorruptPayloadError:
            counts.unreadable += 1
            continue
        counts.old += under == OLD
        counts.plain += under == PLAIN
        if under != FIRST:
            chosen.append(pk)
    if rewrite and chosen:
        counts.rewritten, unreadable = _rewrite_together(table, chosen)
        counts.unreadable += unreadable
    return counts


@retry_on_conflict
def _rewrite_together(table: _EncryptedTable, chosen: list[Any]) -> tuple[int, int]:
    """Encrypt the rows with the primary keys ``chosen`` in one transaction.

    Return the numbers of rewritten and unreadable rows.
    """
    rewritten = unreadable = 0
    with transaction.atomic(using=write_alias()):
        for pk in chosen:
            try:
                rewritten += _rewrite_row(table, pk)
            except CorruptPayloadError:
                unreadable += 1
    return rewritten, unreadable


def _rewrite_row(table: _EncryptedTable, pk: Any) -> bool:
    for _ in range(TRIES):
        with suppress(_ConcurrentChangeError):
            return table.rewrite(pk)
    return False


class _ConcurrentChangeError(Exception):
    """Raised if a row was changed or deleted after it was read."""


class _EncryptedTable:
    """A table with encrypted columns, whose rows can be counted and rewritten."""

    model: type[models.Model]
    heads: dict[str, Any]

    def read_heads(self, last: Any) -> list[Any]:
        """Return the first BATCH rows with primary keys greater than ``last``.

        If ``last`` is None, return the first rows of the table. Each result consists of the primary
        key, and the first bytes of each encrypted column.
        """
        rows = self.rows.order_by("pk")
        if last is not None:
            rows = rows.filter(pk__gt=last)
        heads = {f"head_{name}": head for name, head in self.heads.items()}
        return list(rows.annotate(**heads).values_list("pk", *heads)[:BATCH])

    @property
    def rows(self) -> models.QuerySet[Any]:
        return self.model._base_manager.using(write_alias())

    def classify(self, pk: Any, head: list[Any]) -> str:
        """Return the encryption status of a row: "old key", "plain" or "first key".

        ``head`` contains the first bytes of its encrypted columns.

        Raises:
            CorruptPayloadError: the status can't be determined.
        """
        raise NotImplementedError

    def rewrite(self, pk: Any) -> bool:
        """Encrypt a row with the first key, and return whether it was changed.

        Raises:
            _ConcurrentChangeError: another process has changed the row since it was read.
        """
        raise NotImplementedError


class _TextTable(_EncryptedTable):
    def __init__(self, model: type[models.Model], columns: list[Any]) -> None:
        self.model = model
        self.columns = {field.name: name_column(field) for field in columns}
        text = models.TextField()
        self.heads = {
            name: Substr(name, 1, ENVELOPE_HEAD, output_field=text) for name in self.columns
        }
        self.stored = {f"stored_{name}": Cast(name, text) for name in self.columns}

    def classify(self, pk: Any, head: list[Any]) -> str:
        return _join([_classify_text(text) for text in head])

    def rewrite(self, pk: Any) -> bool:
        row = self.rows.filter(pk=pk).alias(**self.stored)
        found = row.values(**self.stored).first()
        if found is None:
            return False
        changes: dict[str, Any] = {}
        for name, column in self.columns.items():
            stored = found[f"stored_{name}"]
            if _classify_text(stored) != FIRST:
                text = encrypt_text(decrypt_text(stored, column), column)
                changes[name] = models.Value(text, output_field=models.TextField())
        # Zero rows: another process has changed or deleted the row after it was read.
        if changes and not row.filter(**found).update(**changes):
            raise _ConcurrentChangeError
        return bool(changes)


def _find_text_tables() -> Iterator[_TextTable]:
    for model in list_models():
        encrypted = [
            field for field in model._meta.concrete_fields if isinstance(field, EncryptedField)
        ]
        if encrypted:
            yield _TextTable(model, encrypted)


class _SearchTextTable(_EncryptedTable):
    """The table of interrupts, with search texts that must not contain words of encrypted columns.

    A search text that contains such words counts as "plain" and is replaced by a text without them.
    """

    model = Interrupt
    #: The parts of a search text if ENCRYPTION_KEYS contains a key (run_leases.interrupts).
    names = ("title", "node", "run__key", "thread__subject_id")

    def __init__(self) -> None:
        self.heads = {name: F(name) for name in ("search_text", *self.names)}

    @property
    def rows(self) -> models.QuerySet[Any]:
        return super().rows.filter(search_text__isnull=False)

    def classify(self, pk: Any, head: list[Any]) -> str:
        text, *names = head
        return FIRST if text == build_search_text(*names) else PLAIN

    def rewrite(self, pk: Any) -> bool:
        found = self.rows.filter(pk=pk).values_list("search_text", "search_grams", *self.names)
        row = found.first()
        if row is None:
            return False
        before, grams, *names = row
        text = build_search_text(*names)
        index = None if grams is None else index_text(text, write_alias())
        changes = {"search_text": text, "search_grams": index}
        # Zero rows: another process has changed or deleted the row after it was read.
        if not self.rows.filter(pk=pk, search_text=before).update(**changes):
            raise _ConcurrentChangeError
        return True


class _BinaryTable(_EncryptedTable):
    """A table with encrypted binary columns, and a column with the digest of their contents."""

    def __init__(self) -> None:
        self.heads = {
            name: Substr(name, 1, HEAD, output_field=models.BinaryField()) for name in self.columns
        }

    columns: tuple[str, ...] = ("data",)

    def classify(self, pk: Any, head: list[Any]) -> str:
        return _join([_classify_bytes(bytes(data or b"")) for data in head])

    def rewrite(self, pk: Any) -> bool:
        row = self.rows.filter(pk=pk).first()
        if row is None:
            return False
        before = row.digest
        self.encrypt(row)
        changes = {name: getattr(row, name) for name in (*self.columns, "digest")}
        # Zero rows: another process has changed or deleted the row after it was read.
        if not self.rows.filter(pk=pk, digest=before).update(**changes):
            raise _ConcurrentChangeError
        return True

    def encrypt(self, row: Any) -> None:
        raise NotImplementedError

    def classify_row(self, row: Any) -> str:
        """Return the encryption status of a completely loaded row."""
        return _join([_classify_bytes(bytes(getattr(row, name))) for name in self.columns])


class _WriteTable(_BinaryTable):
    model = PendingWrite

    def encrypt(self, row: Any) -> None:
        plain, its_digest = decrypt_row(bytes(row.data), row.digest, 0, f"write {row.pk}")
        row.data, row.digest = encrypt_row(plain, its_digest, 0, get_key_ring())


class _BlobTable(_BinaryTable):
    model = ChannelBlob

    @property
    def rows(self) -> models.QuerySet[Any]:
        # Channel names and versions aren't encrypted.
        return super().rows.exclude(channel__startswith=version_deltas.PREFIX)

    def classify(self, pk: Any, head: list[Any]) -> str:
        data = bytes(head[0] or b"")
        size = value_deltas.head_size(data)
        if size + len(data[:6]) > HEAD:
            data = bytes(self.rows.values_list("data", flat=True).filter(pk=pk).first() or b"")
        return _classify_bytes(data[size:])

    def classify_row(self, row: Any) -> str:
        if row.channel.startswith(version_deltas.PREFIX):
            return FIRST
        data = bytes(row.data)
        return _classify_bytes(data[value_deltas.head_size(data) :])

    def encrypt(self, row: Any) -> None:
        data = bytes(row.data)
        head = value_deltas.head_size(data)
        plain, its_digest = decrypt_row(data, row.digest, head, f"channel {row.channel!r}")
        row.data, row.digest = encrypt_row(plain, its_digest, head, get_key_ring())


class _CheckpointTable(_BinaryTable):
    model = Checkpoint
    columns = ("scalars", "writes")

    def encrypt(self, row: Any) -> None:
        found = [bytes(getattr(row, name)) for name in Payloads._fields]
        if digest(b"".join(found)) != row.digest:
            raise CorruptPayloadError(f"Stored checkpoint {row.checkpoint_id} is corrupt.")
        for name in self.columns:
            data = bytes(getattr(row, name))
            setattr(row, name, encrypt_column(decrypt_column(data), get_key_ring()))
        row.digest = digest(b"".join(bytes(getattr(row, name)) for name in Payloads._fields))


class _ArchiveTable(_BinaryTable):
    """A table of archives. Each row contains the possibly encrypted rows of a thread."""

    def __init__(self, model: type[models.Model], archive: Archive) -> None:
        self.model, self.archive, self.columns = model, archive, (archive.column,)
        super().__init__()

    def classify(self, pk: Any, head: list[Any]) -> str:
        under = super().classify(pk, head)
        if under == OLD:
            return under
        row = self.rows.filter(pk=pk).first()
        if row is None:
            return FIRST
        rows = self.archive.read(row)
        inner = [table.classify_row(each) for table in _ROWS for each in rows[table.model]]
        return OLD if OLD in inner else under

    def encrypt(self, row: Any) -> None:
        rows = self.archive.read(row)
        for table in _ROWS:
            for each in rows[table.model]:
                if table.classify_row(each) != FIRST:
                    table.encrypt(each)
        for name, value in self.archive.write(rows).items():
            setattr(row, name, value)


#: The rows of an archived thread that may be encrypted.
_ROWS = (_WriteTable(), _BlobTable(), _CheckpointTable())


def _classify_text(stored: str | None) -> str:
    if not stored:
        return FIRST
    if not is_envelope(stored):
        return PLAIN
    return FIRST if is_envelope_current(stored, get_key_ring()) else OLD


def _classify_bytes(data: bytes) -> str:
    if not data:
        return FIRST
    if not is_encrypted(data):
        return PLAIN
    return FIRST if is_under_first_key(data, get_key_ring()) else OLD


def _join(found: list[str]) -> str:
    return next((under for under in (OLD, PLAIN) if under in found), FIRST)
