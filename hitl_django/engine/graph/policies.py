"""Retry, cache and timeout policies and error handlers: of one node, and defaults for all."""

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
    """The policies of one node, or the defaults of all nodes.

    ``handler`` names the node that takes failures; ``handles`` says that this node is such a one.
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
        """Return policies from the arguments of the builder."""
        retries = (retry,) if isinstance(retry, RetryPolicy) else tuple(retry or ())
        return cls(retries, cache, TimeoutPolicy.coerce(timeout))

    def over(self, default: Policies) -> Policies:
        """Return these policies, with the defaults where nothing was given.

        A node that handles failures handles none of its own, and its results, which follow from
        a failure, are never used again.
        """
        return Policies(
            self.retry or default.retry,
            None if self.handles else self.cache or default.cache,
            self.timeout or default.timeout,
            None if self.handles else self.handler or default.handler,
            self.handles,
        )


class NodeDefaults:
    """The defaults that set_node_defaults has given for all nodes of one graph."""

    __slots__ = ("handler", "policies")

    def __init__(self) -> None:
        self.policies = Policies()
        self.handler: Any = None

    def update(self, policies: Policies, handler: Any) -> None:
        """Take the defaults of a further call, and keep those that it doesn't give."""
        if handler is not None:
            self.handler = handler
            policies.handler = DEFAULT_HANDLER
        self.policies = policies.over(self.policies)


def apply_defaults(name: str, action: Action, own: Policies, defaults: NodeDefaults) -> Policies:
    """Return the policies of a compiled node; raises ValueError where its timeout can't hold."""
    policies = own.over(defaults.policies)
    if policies.timeout is not None:
        check_stoppable(name, action)
    return policies


def check_free(name: str, taken: bool) -> None:
    """Raise GraphDefinitionError where a node has the name that an error handler gets."""
    if taken:
        raise GraphDefinitionError(
            f"The error handler needs the node name `{name}`, which is already in use."
        )
