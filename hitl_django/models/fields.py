"""Model fields for JSON, encrypted values and namespaces, and digests of JSON values."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from django.core.exceptions import FieldError
from django.db import models

from hitl_django.encryption import decrypt_text, encrypt_text, find_key_ring

_FORMAT: dict[str, Any] = {
    "ensure_ascii": False,
    "allow_nan": False,
    "separators": (",", ":"),
}
if TYPE_CHECKING:
    _TextField = models.TextField[Any, Any]
    _BinaryField = models.BinaryField[Any, Any]
else:
    _TextField, _BinaryField = models.TextField, models.BinaryField

_encode = json.JSONEncoder(**_FORMAT).encode
_encode_sorted = json.JSONEncoder(**_FORMAT, sort_keys=True).encode


class JSONTextField(_TextField):
    """A field for JSON, stored as text.

    The JSON column types of databases change the order of keys and the format of numbers. Values
    that people have reviewed must be stored unchanged.
    """

    if TYPE_CHECKING:
        _pyi_private_set_type: Any
        _pyi_private_get_type: Any

    def from_db_value(self, value: str | None, expression: Any, connection: Any) -> Any:
        return None if value is None else json.loads(value)

    def to_python(self, value: Any) -> Any:
        return value

    def get_prep_value(self, value: Any) -> str | None:
        return self.encode(value)

    def encode(self, value: Any) -> str | None:
        """Return a value in its stored form.

        In a nullable column, None is stored as NULL. In other columns, None is stored as JSON's
        null.
        """
        # None is JSON's null, which is a valid response. Only nullable columns use NULL for a
        # missing value.
        if value is None and self.null:
            return None
        return _encode(value)

    def value_to_string(self, obj: models.Model) -> Any:
        # Serializers write the value as JSON, which ``to_python`` accepts.
        return self.value_from_object(obj)


class EncryptedField(_TextField):
    """A text column that is encrypted if ENCRYPTION_KEYS contains a key.

    With a key, queries for the column's contents raise an error, because they would never match.
    Queries for NULL and for empty values are allowed. Migrations contain a field of the unencrypted
    type instead, such as TextField.
    """

    if TYPE_CHECKING:
        _pyi_private_set_type: Any
        _pyi_private_get_type: Any

    def get_lookup(self, lookup_name: str) -> Any:
        if lookup_name not in ("exact", "isnull"):
            self._refuse_if_encrypted()
        return super().get_lookup(lookup_name)

    def get_db_prep_value(self, value: Any, connection: Any, prepared: bool = False) -> Any:
        if prepared and value:  # Values of lookups have been prepared before.
            self._refuse_if_encrypted()
        return super().get_db_prep_value(value, connection, prepared)

    def _refuse_if_encrypted(self) -> None:
        if find_key_ring() is not None:
            raise FieldError(f"{name_column(self)} is encrypted and can't be queried.")


class EncryptedTextField(EncryptedField):
    """An encrypted text.

    An empty text is stored without encryption.
    """

    def get_prep_value(self, value: Any) -> Any:
        if type(value) is not str:
            value = super().get_prep_value(value)
        return encrypt_text(value, name_column(self)) if value else value

    def from_db_value(self, value: str | None, expression: Any, connection: Any) -> str | None:
        return decrypt_text(value, name_column(self)) if value else value

    def deconstruct(self) -> Any:
        name, _, args, options = super().deconstruct()
        return name, "django.db.models.TextField", args, options


class EncryptedJSONField(EncryptedField, JSONTextField):
    """JSON that is encrypted in the database."""

    def get_prep_value(self, value: Any) -> str | None:
        text = self.encode(value)
        return None if text is None else encrypt_text(text, name_column(self))

    def from_db_value(self, value: str | None, expression: Any, connection: Any) -> Any:
        return None if value is None else json.loads(decrypt_text(value, name_column(self)))

    def deconstruct(self) -> Any:
        name, _, args, options = super().deconstruct()
        return name, f"{__name__}.{JSONTextField.__name__}", args, options


def name_column(field: models.Field[Any, Any]) -> str:
    """Return a field's column as ``table.column``, as needed to encrypt a text of the column."""
    return f"{field.model._meta.db_table}.{field.column}"


def canonical_json(value: Any) -> bytes:
    """Return canonical JSON: equal values have equal bytes, independent of the order of keys."""
    return _encode_sorted(value).encode()


def digest_json(value: Any) -> str:
    """Return the first 128 bits of the SHA-256 of a value's canonical JSON, in hexadecimal."""
    return hashlib.sha256(canonical_json(value)).hexdigest()[:32]


class NamespaceField(_BinaryField):
    """A field for a namespace, i.e. a tuple of labels.

    Each label is stored with a NUL at its end, and databases sort the column by its bytes. In an
    index, a namespace is therefore directly followed by the namespaces below it, ordered by their
    labels (``namespace_bounds``).
    """

    if TYPE_CHECKING:
        _pyi_private_set_type: Any
        _pyi_private_get_type: Any

    def from_db_value(self, value: Any, expression: Any, connection: Any) -> Any:
        return None if value is None else decode_namespace(bytes(value))

    def to_python(self, value: Any) -> Any:
        return value if value is None else tuple(value)

    def get_prep_value(self, value: Any) -> Any:
        return value if value is None or isinstance(value, bytes) else encode_namespace(value)

    def value_to_string(self, obj: models.Model) -> Any:
        labels: tuple[str, ...] = getattr(obj, self.attname)
        return [*labels]


def encode_namespace(labels: Sequence[str]) -> bytes:
    """Return the stored form of a namespace.

    Labels must not contain NUL.
    """
    return b"".join(label.encode() + b"\0" for label in labels)


def decode_namespace(data: bytes) -> tuple[str, ...]:
    return tuple(label.decode() for label in data.split(b"\0")[:-1])


def namespace_bounds(labels: Sequence[str]) -> tuple[bytes, bytes]:
    """Return the bounds of a namespace and all namespaces below it.

    The first bound is included in the range, the second is not.
    """
    first = encode_namespace(labels)
    return first, first[:-1] + b"\1"
