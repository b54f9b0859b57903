"""A cache of stored values, so that the next commit only needs to store the differences."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from .value_deltas import ValueTip
from .version_deltas import VersionBase

MAX_BASES = 100  # The maximum number of namespaces with a base in the cache.


@dataclass(slots=True)
class CachedNamespace:
    """Committed data of one namespace. The next commit can store differences from this data.

    The data are lists and dicts that may grow, and the base of the channel versions.
    ``without_inline`` is the id of the newest checkpoint if its row contains no channel values.
    """

    tips: dict[str, ValueTip] = field(default_factory=dict)
    base: VersionBase | None = None
    without_inline: str | None = None


UNKNOWN = CachedNamespace()


class WriteCache:
    """A cache of committed data for at most ``most`` namespaces.

    At most ``wide`` of them have a version base (see ``version_deltas``).
    """

    def __init__(self, most: int, wide: int = MAX_BASES) -> None:
        self.most, self.wide = most, wide
        self._namespaces: dict[tuple[str, str], CachedNamespace] = {}
        self._bases = 0  # The number of cached namespaces that have a base.

    def get(self, thread_id: str, ns: str) -> CachedNamespace:
        """Return the cached data of a namespace, or UNKNOWN if no data is cached."""
        return self._namespaces.get((thread_id, ns), UNKNOWN)

    def add(
        self,
        thread_id: str,
        ns: str,
        tips: Mapping[str, ValueTip],
        base: VersionBase | None,
        without_inline: str | None = None,
    ) -> None:
        """Add the data of a committed checkpoint to the cached data of its namespace.

        If the cache is full, all cached data is removed first.
        """
        if not tips and base is None and without_inline is None:
            return
        known = self.get(thread_id, ns)
        new = base is not None and known.base is None
        full = known is UNKNOWN and len(self._namespaces) >= self.most
        if full or (new and self._bases >= self.wide):
            self.clear()
            known, new = UNKNOWN, base is not None
        if known is UNKNOWN:
            known = self._namespaces[thread_id, ns] = CachedNamespace()
        self._bases += new
        known.tips.update(tips)
        known.base = known.base if base is None else base
        known.without_inline = known.without_inline if without_inline is None else without_inline

    def replace(self, thread_id: str, ns: str, found: CachedNamespace) -> None:
        self._drop((thread_id, ns))
        self.add(thread_id, ns, found.tips, found.base, found.without_inline)

    def forget_thread(self, thread_id: str) -> None:
        """Remove the data of a thread, because its rows may have been deleted."""
        for key in [key for key in self._namespaces if key[0] == thread_id]:
            self._drop(key)

    def clear(self) -> None:
        self._namespaces.clear()
        self._bases = 0

    def _drop(self, key: tuple[str, str]) -> None:
        known = self._namespaces.pop(key, UNKNOWN)
        self._bases -= known.base is not None
