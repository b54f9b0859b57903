"""The config of the running node call, for LangChain calls made without a config."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from .context import current

_EMPTY: Mapping[str, Any] = {}


class AmbientConfig(Mapping[str, Any]):
    """A mapping that reads the config of the running node call.

    LangChain reads a context variable if it is called without a config. In all node calls, the
    variable contains this one mapping. The config of a node call is built only if LangChain reads
    it. Building a config for each call would slow down nodes that don't use LangChain.
    """

    __slots__ = ()

    def __getitem__(self, key: str) -> Any:
        return self._read()[key]

    def __iter__(self) -> Iterator[str]:
        return iter(self._read())

    def __len__(self) -> int:
        return len(self._read())

    def __bool__(self) -> bool:
        return current.get() is not None

    def items(self) -> Any:
        """Return the items of the config. The config is built once, not once for each key."""
        return self._read().items()

    def _read(self) -> Mapping[str, Any]:
        context = current.get()
        return _EMPTY if context is None else context.config()


AMBIENT_CONFIG = AmbientConfig()
