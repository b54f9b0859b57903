"""Cache of what a saver has stored, so that its next commit writes only what differs from it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from .value_deltas import ValueTip
from .version_deltas import VersionBase

MAX_BASES = 100  # threads of wide states that are remembered


@dataclass(slots=True)
class CachedNamespace:
    """What is stored for good in one namespace: values that may grow, and the base of its versions.

    ``without_inline`` is the checkpoint, if one is known, whose row holds no value.
    """

    tips: dict[str, ValueTip] = field(default_factory=dict)
    base: VersionBase | None = None
    without_inline: str | None = None


UNKNOWN = CachedNamespace()


class WriteCache:
    """What is known by namespace: of as many as ``most``, and of fewer where they are wide."""

    def __init__(self, most: int, wide: int = MAX_BASES) -> None:
        self.most, self.wide = most, wide
        self._namespaces: dict[tuple[str, str], CachedNamespace] = {}
        self._bases = 0  # at most that many namespaces have one

    def get(self, thread_id: str, ns: str) -> CachedNamespace:
        """Return what is known of a namespace."""
        return self._namespaces.get((thread_id, ns), UNKNOWN)

    def add(
        self,
        thread_id: str,
        ns: str,
        tips: Mapping[str, ValueTip],
        base: VersionBase | None,
        without_inline: str | None = None,
    ) -> None:
        """Add what was committed."""
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
        """Set what was read, in place of whatever was known."""
        self._drop((thread_id, ns))
        self.add(thread_id, ns, found.tips, found.base, found.without_inline)

    def forget_thread(self, thread_id: str) -> None:
        """Forget a thread whose rows may be gone."""
        for key in [key for key in self._namespaces if key[0] == thread_id]:
            self._drop(key)

    def clear(self) -> None:
        """Forget all."""
        self._namespaces.clear()
        self._bases = 0

    def _drop(self, key: tuple[str, str]) -> None:
        known = self._namespaces.pop(key, UNKNOWN)
        self._bases -= known.base is not None
