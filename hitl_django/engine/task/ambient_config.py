"""The config of the node call that is running, as langchain finds it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from .context import current

_EMPTY: Mapping[str, Any] = {}


class AmbientConfig(Mapping[str, Any]):
    """The config of the node call that is running, made when it is read.

    Langchain looks for one in a context variable whenever it is called without. There is one for
    all node calls: most call nothing of langchain's, and none has to pay for a config then.
    """

    __slots__ = ()

    def __getitem__(self, key: str) -> Any:
        return self._read()[key]

    def __iter__(self) -> Iterator[str]:
        return iter(self._read())

    def __len__(self) -> int:
        return len(self._read())

    def items(self) -> Any:
        """Return the items of one config."""
        return self._read().items()

    def _read(self) -> Mapping[str, Any]:
        context = current.get()
        return _EMPTY if context is None else {**context.config()}


AMBIENT_CONFIG = AmbientConfig()
