"""Retry, cache and timeout policies and error handlers, for one node or as default values."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from ..drivers.timeouts import check_stoppable
from ..errors import GraphDefinitionError
from ..loop.error_handlers import DEFAULT_HANDLER
from ..task.nodes import Action
from ..types import CachePolicy, RetryPolicy, TimeoutPolicy


@dataclass(slots=True)
class Policies:
    """The policies of one node, or the default policies of all nodes.

    ``handler`` is the name of the error handler node for failures. ``handles`` is true if the node
    is itself an error handler.
    """

    retry: tuple[RetryPolicy, ...] = ()
    cache: CachePolicy | None = None
    timeout: TimeoutPolicy | None = None
    handler: str | None = None
    handles: bool = False

    @classmethod
    def given(
        cls,
        retry: RetryPolicy | Sequence[RetryPolicy] | None,
        cache: CachePolicy | None,
        timeout: float | timedelta | TimeoutPolicy | None,
    ) -> Policies:
        """Return policies built from the arguments of the graph builder."""
        retries = (retry,) if isinstance(retry, RetryPolicy) else tuple(retry or ())
        return cls(retries, cache, TimeoutPolicy.coerce(timeout))

    def over(self, default: Policies) -> Policies:
        """Return a copy of these policies in which unset policies are taken from ``default``.

        An error handler gets no default handler. The results of an error handler aren't cached,
        because they depend on a failure.
        """
        return Policies(
            self.retry or default.retry,
            None if self.handles else self.cache or default.cache,
            self.timeout or default.timeout,
            None if self.handles else self.handler or default.handler,
            self.handles,
        )


class NodeDefaults:
    """The default policies set by set_node_defaults for all nodes of a graph."""

    __slots__ = ("handler", "policies")

    def __init__(self) -> None:
        self.policies = Policies()
        self.handler: Any = None

    def update(self, policies: Policies, handler: Any) -> None:
        """Add the policies of another set_node_defaults call to the defaults."""
        if handler is not None:
            self.handler = handler
            policies.handler = DEFAULT_HANDLER
        self.policies = policies.over(self.policies)


def apply_defaults(name: str, action: Action, own: Policies, defaults: NodeDefaults) -> Policies:
    """Return the policies of a compiled node: its own policies, completed with the defaults.

    Raises:
        ValueError: a timeout is set for a sync node, which can't be stopped.
    """
    policies = own.over(defaults.policies)
    if policies.timeout is not None:
        check_stoppable(name, action)
    return policies


def check_free(name: str, taken: bool) -> None:
    """Raise GraphDefinitionError if the name of an error handler is already in use.

    ``taken`` is true if a node has the name.
    """
    if taken:
        raise GraphDefinitionError(
            f"The error handler needs the node name `{name}`, which is already in use."
        )
