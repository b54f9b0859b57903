"""Columns that keep a value exactly as it was given, and the digest that names it."""

from __future__ import annotations

import hashlib
import json
from typing import TYPE_CHECKING, Any

from django.db import models


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
        # None is JSON's null, an answer like any other; only a nullable column has a NULL to
        # say "nothing was given".
        if value is None and self.null:
            return None
        return json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))

    def value_to_string(self, obj: models.Model) -> Any:
        # Serializers write it as the JSON it is, which ``to_python`` takes as it comes.
        return self.value_from_object(obj)


def canonical_json(value: Any) -> bytes:
    """Writes JSON so that equal values are equal bytes, whatever the order of their keys."""
    text = json.dumps(
        value, ensure_ascii=False, allow_nan=False, sort_keys=True, separators=(",", ":")
    )
    return text.encode()


def digest_json(value: Any) -> str:
    """Names a JSON value by 128 bits of SHA-256: nobody makes two values of one name."""
    return hashlib.sha256(canonical_json(value)).hexdigest()[:32]
