"""Low-level graph building: nodes that subscribe to channels and write to channels."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from ..constants import RESERVED_KEYS, START, TASKS
from ..drivers.timeouts import check_stoppable
from ..task.nodes import Action, Node, Write, build_action
from ..types import CachePolicy, RetryPolicy, Timeout, TimeoutPolicy


class NodeBuilder:
    """A builder of one node: the channels to which it subscribes, its functions and its writes."""

    def __init__(self) -> None:
        self._channels: str | list[str] = []
        self._triggers: list[str] = []
        self._writes: list[tuple[str, Callable[[Any], Any]]] = []
        self._actions: list[Action] = []
        self._retry: list[RetryPolicy] = []
        self._cache: CachePolicy | None = None
        self._timeout: TimeoutPolicy | None = None
        self._tags: list[str] = []
        self._metadata: dict[str, Any] = {}

    def subscribe_only(self, channel: str) -> NodeBuilder:
        """Run the node when the channel is updated.

        The channel's value is the input of the node.
        """
        if self._channels:
            raise ValueError(
                "Cannot subscribe to single channels when other channels are already subscribed to"
            )
        self._channels = channel
        self._triggers.append(channel)
        return self

    def subscribe_to(self, *channels: str, read: bool = True) -> NodeBuilder:
        """Run the node when any of the channels is updated.

        With ``read``, the values of the channels are also part of the node's input.
        """
        if isinstance(self._channels, str):
            raise ValueError("Cannot subscribe to channels when subscribed to a single channel")
        if read:
            self._channels.extend(channels)
        self._triggers.extend(channels)
        return self

    def read_from(self, *channels: str) -> NodeBuilder:
        """Add the values of channels to the node's input, without subscribing to the channels."""
        if isinstance(self._channels, str):
            raise ValueError("Cannot read additional channels when subscribed to single channels")
        self._channels.extend(channels)
        return self

    def do(self, node: Any) -> NodeBuilder:
        """Add a function to the node.

        The function is called with the result of the function that was added before it.
        """
        self._actions.append(build_action(node))
        return self

    def write_to(self, *channels: str, **values: Any) -> NodeBuilder:
        """Write the node's result to channels.

        The keyword argument ``name=value`` writes ``value`` to the channel ``name``. If ``value``
        is a function, the function is called with the node's result, and its return value is
        written.
        """
        self._writes += [(channel, _itself) for channel in channels]
        self._writes += [
            (channel, value if callable(value) else _always(value))
            for channel, value in values.items()
        ]
        return self

    def meta(self, *tags: str, **metadata: Any) -> NodeBuilder:
        """Add tags and metadata to the node's config."""
        self._tags.extend(tags)
        self._metadata.update(metadata)
        return self

    def add_retry_policies(self, *policies: RetryPolicy) -> NodeBuilder:
        """Add retry policies to the node. The first policy that matches an error applies."""
        self._retry.extend(policies)
        return self

    def add_cache_policy(self, policy: CachePolicy) -> NodeBuilder:
        """Reuse the cached result of the node if it runs again with the same input."""
        self._cache = policy
        return self

    def set_timeout(self, timeout: Timeout | None) -> NodeBuilder:
        """Limit the duration of each attempt of the node. The node must be async."""
        self._timeout = TimeoutPolicy.coerce(timeout)
        return self

    def build(self) -> Node:
        channels = self._channels
        return Node(
            action=_chained(self._actions),
            timeout=self._timeout,
            cache=self._cache,
            triggers=tuple(self._triggers),
            keys=channels if isinstance(channels, str) else tuple(channels),
            writers=(_ChannelWriter(tuple(self._writes)),),
            retry=tuple(self._retry),
            tags=tuple(self._tags),
            metadata=dict(self._metadata),
        )


class _ChannelWriter:
    def __init__(self, writes: Sequence[tuple[str, Callable[[Any], Any]]]) -> None:
        self.writes = writes

    def __call__(self, output: Any) -> list[Write]:
        return [(channel, value(output)) for channel, value in self.writes]


def _itself(output: Any) -> Any:
    return output


def _always(value: Any) -> Callable[[Any], Any]:
    return lambda output: value


def _chained(actions: Sequence[Action]) -> Action | None:
    if len(actions) < 2:
        return actions[0] if actions else None
    plain = [action.sync or action for action in actions]

    def run(value: Any) -> Any:
        for action in plain:
            value = action.call(value)
        return value

    async def arun(value: Any) -> Any:
        for action in actions:
            value = action.call(value)
            if action.is_async:
                value = await value
        return value

    sync = None if any(action.is_async for action in plain) else Action(run, name=actions[0].name)
    if sync is not None and not any(action.is_async for action in actions):
        return sync
    return Action(arun, is_async=True, sync=sync, name=actions[0].name)


def build_node_map(
    nodes: Mapping[str, Node | NodeBuilder],
    retry: tuple[RetryPolicy, ...] = (),
    cache: CachePolicy | None = None,
) -> dict[str, Node]:
    """Build and validate the nodes of a graph.

    ``retry`` and ``cache`` are the default policies. They don't apply to hidden nodes, i.e. nodes
    that the compiler adds to the graph.
    """
    made = {}
    for name, node in nodes.items():
        if isinstance(node, NodeBuilder):
            node = node.build()
            if node.timeout is not None and node.action is not None:
                check_stoppable(name, node.action)
        if not isinstance(node, Node):
            raise TypeError(f"Invalid node type {type(node)}, expected a node or NodeBuilder")
        if (retry or cache) and not node.hidden:
            node = replace(node, retry=node.retry or retry, cache=node.cache or cache)
        made[name] = node
    return made


def check_graph(
    nodes: Mapping[str, Node],
    channels: Mapping[str, Any],
    managed: Mapping[str, Any],
    input_channels: str | Sequence[str],
    output_channels: Iterable[str],
    breakpoints: Iterable[str],
) -> None:
    """Check the names of a graph's channels and nodes.

    Raises:
        ValueError: a referenced channel or node doesn't exist, or a name is reserved.
    """
    shown = repr(sorted(channels))[:100]
    for name in channels:
        if name in RESERVED_KEYS and name not in (TASKS, START):
            raise ValueError(f"Channel name '{name}' is reserved")
    subscribed = {trigger for node in nodes.values() for trigger in node.triggers}
    for name, node in nodes.items():
        if name in RESERVED_KEYS and name != START:
            raise ValueError(f"Node name '{name}' is reserved")
        for key in (node.keys,) if isinstance(node.keys, str) else node.keys:
            if key not in channels and key not in managed:
                raise ValueError(
                    f"Node {name} reads channel '{key}' not in known channels: '{shown}'"
                )
    for name in sorted(subscribed):
        if name not in channels:
            raise ValueError(f"Subscribed channel '{name}' not in known channels: '{shown}'")
    _check_inputs(input_channels, channels, subscribed, shown)
    for name in output_channels:
        if name not in channels:
            raise ValueError(f"Output channel '{name}' not in known channels: '{shown}'")
    for name in breakpoints:
        if name not in nodes:
            raise ValueError(f"Node {name} not in nodes")


def _check_inputs(
    inputs: str | Sequence[str], channels: Mapping[str, Any], subscribed: set[str], shown: str
) -> None:
    names = (inputs,) if isinstance(inputs, str) else tuple(inputs)
    for name in names:
        if name not in channels:
            raise ValueError(f"Input channel '{name}' not in known channels: '{shown}'")
    if subscribed.isdisjoint(names):
        message = (
            f"Input channel {inputs} is not subscribed to by any node"
            if isinstance(inputs, str)
            else f"None of the input channels {list(inputs)} are subscribed to by any node"
        )
        raise ValueError(message)
