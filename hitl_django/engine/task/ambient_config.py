"""The config of the node call that is running, as langchain finds it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from .context import TaskContext, current
from .run_context import RunContext

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

    def get(self, key: str, default: Any = None) -> Any:
        """Return the value of a key, or the default."""
        context = current.get()
        if context is not None and key == "callbacks":  # all that a nested graph reads
            return context.base_config().get(key, default)
        return self._read().get(key, default)

    def items(self) -> Any:
        """Return the items of one config."""
        return self._read().items()

    def _read(self) -> Mapping[str, Any]:
        context = current.get()
        return _EMPTY if context is None else {**context.config()}


_AMBIENT_CONFIG = AmbientConfig()


def get_ambient_config(run: RunContext, context: TaskContext) -> Mapping[str, Any]:
    """Return the config that langchain is to find in a node call that begins.

    With a trace it has the callbacks of what the call belongs to, which are known here alone.
    """
    return _AMBIENT_CONFIG if run.trace is None else {**context.config()}
