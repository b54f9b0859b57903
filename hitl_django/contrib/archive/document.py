"""The document of an archived thread: all rows of the thread as compressed bytes, with a digest.

The document is a sequence of values in the format of the state codec, each preceded by its length.
The names of tables and columns precede the rows. With ENCRYPTION_KEYS, the document is encrypted.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from django.db import models

from hitl_django.checkpoints.codec import codec, verify
from hitl_django.checkpoints.encrypted_rows import encrypt_row
from hitl_django.encryption import find_key_ring
from hitl_django.engine.errors import CorruptPayloadError
from hitl_django.engine.serde import digest
from hitl_django.models.fields import JSONTextField
from hitl_django.models.thread_tables import list_thread_tables

from .compression_dictionary import DICTIONARY
from .models import ArchivedThread

#: The rows of a thread, by table.
ArchivedRows = Mapping[type[models.Model], Sequence[models.Model]]

FORMAT = 1

#: Maximum number of bytes per decompression step, so that a decompression bomb is detected early.
AT_A_TIME = 1 << 20

_LENGTH = struct.Struct(">I")


def write_document(rows: ArchivedRows) -> tuple[bytes, str]:
    """Return the document that contains these rows, and the document's digest.

    Raises:
        PayloadError: if a row is too large.
    """
    columns = {_name_table(model): [each.attname for each in _fields(model)] for model in rows}
    packer = zlib.compressobj(zdict=DICTIONARY)
    parts = [packer.compress(_frame({"format": FORMAT, "columns": columns}))]
    for model, each in rows.items():
        for row in each:
            values = [_to_plain(field, row) for field in _fields(model)]
            parts.append(packer.compress(_frame([_name_table(model), values])))
    data = b"".join([*parts, packer.flush()])

    ring = find_key_ring()
    if ring is None:
        return data, digest(data)
    return encrypt_row(data, digest(data), 0, ring)


def read_document(archived: ArchivedThread) -> ArchivedRows:
    """Return the rows of an archived thread, as unsaved instances.

    Raises:
        CorruptPayloadError: if the document is damaged.
    """
    data = verify(archived.document, archived.digest, f"archived thread {archived.pk}")
    frames = _read_frames(data)
    head = next(frames, None)
    if head is None:
        raise CorruptPayloadError("Archive document is empty.")
    if head["format"] != FORMAT:
        raise CorruptPayloadError(
            f"Archive document has format {head['format']}; this release reads {FORMAT}."
        )
    rows: dict[type[models.Model], list[models.Model]] = {
        model: [] for model in list_thread_tables()
    }
    tables = {_name_table(model): model for model in rows}
    for name, values in frames:
        if name not in tables:
            raise CorruptPayloadError(
                f"A document of the archive has rows of {name}; no installed app registers that "
                "table."
            )
        rows[tables[name]].append(_make_row(tables[name], head["columns"][name], values))
    return rows


def _name_table(model: type[models.Model]) -> str:
    # Every document contains the app's own tables, so their names are stored without the app label.
    options = model._meta
    return str(options.model_name) if options.app_label == "hitl_django" else options.label_lower


def _fields(model: type[models.Model]) -> list[models.Field[Any, Any]]:
    return list(model._meta.concrete_fields)


def _frame(value: Any) -> bytes:
    data = codec.encode(value)
    return _LENGTH.pack(len(data)) + data


def _read_frames(data: bytes) -> Iterator[Any]:
    """Yield the values of a document.

    The document is decompressed in parts. Each value must be within the codec's limits.
    """
    buffer = bytearray()
    for part in _decompress(data):
        buffer += part
        while len(buffer) >= _LENGTH.size:
            (size,) = _LENGTH.unpack_from(buffer)
            if size > codec.max_bytes:
                raise CorruptPayloadError("Archive document is corrupt.")
            end = _LENGTH.size + size
            if len(buffer) < end:
                break
            yield codec.decode(buffer[_LENGTH.size : end])
            del buffer[:end]
    if buffer:
        raise CorruptPayloadError("Archive document is incomplete.")


def _decompress(data: bytes) -> Iterator[bytes]:
    unpacker = zlib.decompressobj(zdict=DICTIONARY)
    while not unpacker.eof:
        try:
            part = unpacker.decompress(data, AT_A_TIME)
        except zlib.error as error:
            raise CorruptPayloadError("Archive document is corrupt.") from error
        data = unpacker.unconsumed_tail
        if not (part or data or unpacker.eof):
            raise CorruptPayloadError("Archive document is incomplete.")
        yield part


def _to_plain(field: models.Field[Any, Any], row: models.Model) -> Any:
    """Return the value of a row's column for the document.

    JSON is stored as text, because the codec's limits don't apply to text.
    """
    value = field.value_from_object(row)
    if isinstance(field, JSONTextField):
        return field.encode(value)
    return bytes(value) if isinstance(value, memoryview) else value


def _make_row(model: type[models.Model], names: Sequence[str], values: Sequence[Any]) -> Any:
    """Build a model instance from stored values. Ignore values of columns that no longer exist."""
    row = model()
    found = dict(zip(names, values, strict=True))
    for field in _fields(model):
        if field.attname not in found:
            continue
        value = found[field.attname]
        if isinstance(field, JSONTextField):
            value = field.from_db_value(value, None, None)
        setattr(row, field.attname, value)
    return row
