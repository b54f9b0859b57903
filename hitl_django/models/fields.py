"""Columns that keep a value exactly as it was given, what they are written as, and its digest."""

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
_encode = json.JSONEncoder(**_FORMAT).encode
_encode_sorted = json.JSONEncoder(**_FORMAT, sort_keys=True).encode


class JSONTextField(models.TextField):
    """JSON kept as text.

    A database's own JSON type reorders keys and rewrites numbers; what a person was shown has
    to come back as it was.
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
        """Return a value as JSON."""
        # None is JSON's null, an answer like any other; only a nullable column has a NULL to
        # say "nothing was given".
        if value is None and self.null:
            return None
        return _encode(value)

    def value_to_string(self, obj: models.Model) -> Any:
        # Serializers write it as the JSON it is, which ``to_python`` takes as it comes.
        return self.value_from_object(obj)


class EncryptedField(models.TextField):
    """A column that is encrypted in the database where ENCRYPTION_KEYS has a key.

    A query that looks into it is refused then: it would find nothing, and not say so. Only whether
    it is empty can be asked. To migrations it is the field that it is to the database.
    """

    if TYPE_CHECKING:
        _pyi_private_set_type: Any
        _pyi_private_get_type: Any

    def get_lookup(self, lookup_name: str) -> Any:
        if lookup_name not in ("exact", "isnull"):
            self._refuse_if_encrypted()
        return super().get_lookup(lookup_name)

    def get_db_prep_value(self, value: Any, connection: Any, prepared: bool = False) -> Any:
        if prepared and value:  # so of a lookup, for which it was prepared before
            self._refuse_if_encrypted()
        return super().get_db_prep_value(value, connection, prepared)

    def _refuse_if_encrypted(self) -> None:
        if find_key_ring() is not None:
            raise FieldError(f"{name_column(self)} is encrypted and can't be queried.")


class EncryptedTextField(EncryptedField):
    """A text that is encrypted; an empty one stays as it is."""

    def get_prep_value(self, value: Any) -> Any:
        value = super().get_prep_value(value)
        return encrypt_text(value, name_column(self)) if value else value

    def from_db_value(self, value: str | None, expression: Any, connection: Any) -> str | None:
        return decrypt_text(value, name_column(self)) if value else value

    def deconstruct(self) -> Any:
        name, _, args, options = super().deconstruct()
        return name, "django.db.models.TextField", args, options


class EncryptedJSONField(EncryptedField, JSONTextField):
    """JSON that is encrypted."""

    def get_prep_value(self, value: Any) -> str | None:
        text = self.encode(value)
        return None if text is None else encrypt_text(text, name_column(self))

    def from_db_value(self, value: str | None, expression: Any, connection: Any) -> Any:
        return None if value is None else json.loads(decrypt_text(value, name_column(self)))

    def deconstruct(self) -> Any:
        name, _, args, options = super().deconstruct()
        return name, f"{__name__}.{JSONTextField.__name__}", args, options


def name_column(field: models.Field[Any, Any]) -> str:
    """Return the name under which a column's texts are encrypted."""
    return f"{field.model._meta.db_table}.{field.column}"


def canonical_json(value: Any) -> bytes:
    """Write JSON so that equal values are equal bytes, whatever the order of their keys."""
    return _encode_sorted(value).encode()


def digest_json(value: Any) -> str:
    """Name a JSON value by 128 bits of SHA-256: nobody makes two values of one name."""
    return hashlib.sha256(canonical_json(value)).hexdigest()[:32]


class NamespaceField(models.BinaryField):
    """The labels of a namespace, a tuple of texts.

    A NUL ends each label, and bytes are compared as they are on every database: so the namespaces
    below another are a range of the index (``namespace_bounds``), in the order of their labels.
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
    """Write the labels of a namespace, none of which has a NUL."""
    return b"".join(label.encode() + b"\0" for label in labels)


def decode_namespace(data: bytes) -> tuple[str, ...]:
    """Read the labels of a namespace."""
    return tuple(label.decode() for label in data.split(b"\0")[:-1])


def namespace_bounds(labels: Sequence[str]) -> tuple[bytes, bytes]:
    """Return where a namespace and those below it begin, and what comes behind them."""
    first = encode_namespace(labels)
    return first, first[:-1] + b"\1"
