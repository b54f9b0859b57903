"""Items: the objects that the methods of a store return."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any


class Item:
    """A stored dict with its namespace and key."""

    __slots__ = ("created_at", "key", "namespace", "updated_at", "value")

    def __init__(
        self,
        *,
        value: Mapping[str, Any],
        key: str,
        namespace: Sequence[str],
        created_at: datetime | str,
        updated_at: datetime | str,
    ) -> None:
        self.value, self.key, self.namespace = dict(value), key, tuple(namespace)
        self.created_at, self.updated_at = _moment(created_at), _moment(updated_at)

    def dict(self) -> dict[str, Any]:
        """Return the item as a dict, with its times as ISO texts."""
        return {
            "namespace": [*self.namespace],
            "key": self.key,
            "value": self.value,
            "created_at": self.created_at.isoformat(),
            "updated_at": self.updated_at.isoformat(),
        }

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Item) and self.dict() == other.dict()

    def __hash__(self) -> int:
        return hash((self.namespace, self.key))

    def __repr__(self) -> str:
        shown = ", ".join(f"{name}={value!r}" for name, value in self.dict().items())
        return f"{type(self).__name__}({shown})"


class SearchItem(Item):
    """An item found by a search.

    ``score`` is its similarity to the query, or None without a query.
    """

    __slots__ = ("score",)

    def __init__(
        self,
        namespace: Sequence[str],
        key: str,
        value: Mapping[str, Any],
        created_at: datetime | str,
        updated_at: datetime | str,
        score: float | None = None,
    ) -> None:
        super().__init__(
            value=value,
            key=key,
            namespace=namespace,
            created_at=created_at,
            updated_at=updated_at,
        )
        self.score = score

    def dict(self) -> dict[str, Any]:
        return {**super().dict(), "score": self.score}


def _moment(given: datetime | str) -> datetime:
    return datetime.fromisoformat(given) if isinstance(given, str) else given
