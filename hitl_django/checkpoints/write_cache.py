"""What a saver knows to be stored, so that the next commit may build upon it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from .list_deltas import Tip
from .version_deltas import Base

WIDE = 100  # threads of wide states that are remembered


@dataclass(slots=True)
class Ground:
    """What is stored for good at one place: lists that may grow, and the base of its versions.

    ``apart`` is the checkpoint, if it is known, all values of which have rows of their own.
    """

    tips: dict[str, Tip] = field(default_factory=dict)
    base: Base | None = None
    apart: str | None = None


NOTHING = Ground()


class Grounds:
    """What may be built upon, by place: of as many as ``most``, and fewer where they are wide."""

    def __init__(self, most: int, wide: int = WIDE) -> None:
        self.most, self.wide = most, wide
        self._places: dict[tuple[str, str], Ground] = {}
        self._bases = 0  # at most that many places have one

    def of(self, thread_id: str, ns: str) -> Ground:
        return self._places.get((thread_id, ns), NOTHING)

    def add(
        self,
        thread_id: str,
        ns: str,
        tips: Mapping[str, Tip],
        base: Base | None,
        apart: str | None = None,
    ) -> None:
        """Notes what is stored for good."""
        if not tips and base is None and apart is None:
            return
        known = self.of(thread_id, ns)
        new = base is not None and known.base is None
        full = known is NOTHING and len(self._places) >= self.most
        if full or (new and self._bases >= self.wide):
            self.clear()
            known, new = NOTHING, base is not None
        if known is NOTHING:
            known = self._places[thread_id, ns] = Ground()
        self._bases += new
        known.tips.update(tips)
        known.base = known.base if base is None else base
        known.apart = known.apart if apart is None else apart

    def replace(self, thread_id: str, ns: str, found: Ground) -> None:
        """Notes what was found stored, in place of whatever was thought to be."""
        self._drop((thread_id, ns))
        self.add(thread_id, ns, found.tips, found.base, found.apart)

    def forget(self, thread_id: str) -> None:
        """Forgets a thread whose rows may be gone."""
        for place in [place for place in self._places if place[0] == thread_id]:
            self._drop(place)

    def clear(self) -> None:
        """Forgets all."""
        self._places.clear()
        self._bases = 0

    def _drop(self, place: tuple[str, str]) -> None:
        known = self._places.pop(place, NOTHING)
        self._bases -= known.base is not None
