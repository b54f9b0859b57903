"""StateGraph: the builder of graphs over a shared state."""

from __future__ import annotations

import inspect
import logging
import re
import typing
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any, Literal, get_args, get_origin

from .adoption import adopt
from .cache import BaseCache
from .channels import (
    BaseChannel,
    EphemeralValue,
    LastValue,
    LastValueAfterFinish,
    NamedBarrierValue,
    NamedBarrierValueAfterFinish,
    Topic,
)
from .checkpoint import BaseCheckpointSaver
from .constants import BRANCH_TO, END, NS_END, NS_SEP, ROOT, START, TAG_HIDDEN, TASKS
from .errors import GraphDefinitionError
from .handlers import DEFAULT_HANDLER, handler_name
from .nodes import Action, Branch, Node, Write, action_of
from .policies import NodeDefaults, Policies, applied, check_free
from .pregel import Pregel
from .schema import ManagedValue, channels_of, coercion_for, hints_of
from .signatures import command_targets, first_parameter, hints_of_function
from .state_writer import StateWriter
from .types import All, CachePolicy, RetryPolicy, Send, TimeoutPolicy

logger = logging.getLogger("hitl_django")

#: A NUL, or half of a character: no database stores a text that has one.
_UNSTORABLE = re.compile("[\0\ud800-\udfff]")


@dataclass(slots=True)
class NodeSpec:
    """A node as it was added."""

    action: Action
    input_schema: Any
    metadata: Mapping[str, Any] = field(default_factory=dict)
    policies: Policies = field(default_factory=Policies)
    defer: bool = False
    ends: tuple[str, ...] = ()


@dataclass(slots=True)
class BranchSpec:
    """A conditional edge as it was added."""

    path: Action
    ends: Mapping[Hashable, str] | None
    input_schema: Any = None


class StateGraph:
    """Builds a graph whose nodes read and update one state.

    ``state_schema`` is a TypedDict, dataclass or pydantic model; each of its fields is a channel.
    A field annotated ``Annotated[T, reducer]`` folds every update with ``reducer(old, new)``,
    any other keeps the last one. ``input_schema`` and ``output_schema`` narrow what callers
    give and get.
    """

    def __init__(
        self,
        state_schema: Any,
        context_schema: Any = None,
        *,
        input_schema: Any = None,
        output_schema: Any = None,
    ) -> None:
        self.state_schema, self.context_schema = state_schema, context_schema
        self.input_schema = state_schema if input_schema is None else input_schema
        self.output_schema = state_schema if output_schema is None else output_schema
        self.nodes: dict[str, NodeSpec] = {}
        self.edges: dict[tuple[str, str], None] = {}
        self.waiting_edges: dict[tuple[tuple[str, ...], str], None] = {}
        self.branches: dict[str, dict[str, BranchSpec]] = {}
        self.channels: dict[str, BaseChannel] = {}
        self.managed: dict[str, ManagedValue] = {}
        self.schemas: dict[int, tuple[str, ...]] = {}
        self._kept_schemas: list[Any] = []
        self.compiled = False
        self._defaults = NodeDefaults()
        self._hints_seen: dict[Any, dict[str, Any]] = {}
        self._add_schema(state_schema)
        self._add_schema(self.input_schema, of_callers=True)
        self._add_schema(self.output_schema, of_callers=True)

    def _add_schema(self, schema: Any, *, of_callers: bool = False) -> None:
        if id(schema) in self.schemas:
            return
        channels, managed = channels_of(schema)
        if managed and of_callers:
            raise ValueError(
                f"Invalid managed channels detected in {getattr(schema, '__name__', schema)}: "
                f"{', '.join(managed)}. Managed channels are not permitted in Input/Output schema."
            )
        for name, channel in channels.items():
            known = self.channels.get(name)
            if known is None or (type(known) is LastValue and type(channel) is not LastValue):
                self.channels[name] = channel
            elif known != channel and type(channel) is not LastValue:
                raise ValueError(f"Channel '{name}' already exists with a different type")
        self.managed.update(managed)
        self.schemas[id(schema)] = (*channels, *managed)
        adopt(schema)
        self._kept_schemas.append(schema)  # an id is only good while its object lives

    def _keys(self, schema: Any) -> tuple[str, ...]:
        self._add_schema(schema)
        return self.schemas[id(schema)]

    def _schema_seen_by(self, function: Any, hints: Mapping[str, Any]) -> Any:
        """Returns the state class that a function's first parameter is annotated with."""
        hint = hints.get(first_parameter(function) or "")
        if not isinstance(hint, type):
            return None
        return hint if id(hint) in self.schemas or hints_of(hint) else None

    # Nodes.

    def add_node(
        self,
        node: Any,
        action: Any = None,
        *,
        defer: bool = False,
        metadata: Mapping[str, Any] | None = None,
        input_schema: Any = None,
        retry_policy: RetryPolicy | Sequence[RetryPolicy] | None = None,
        cache_policy: CachePolicy | None = None,
        error_handler: Any = None,
        timeout: float | timedelta | TimeoutPolicy | None = None,
        destinations: Sequence[str] | Mapping[str, str] | None = None,
    ) -> StateGraph:
        """Adds a node: ``add_node("name", function)`` or ``add_node(function)``.

        The function gets the state and returns an update of it, a Command, or None; it may be
        async, and it may be a compiled graph. Parameters named ``config``, ``runtime``,
        ``writer``, ``store`` and ``previous`` are filled in. ``defer`` makes it wait until no
        other node would run.

        ``error_handler`` is a function that runs in the same super-step when the node has failed
        for good: it gets the node's input, is told in a parameter ``error`` (a NodeError) what
        happened, and returns what a node may return; the failed node's own edges aren't taken.
        ``timeout`` limits each attempt at an async node, ``cache_policy`` lets its results be
        used again.
        """
        if not isinstance(node, str):
            action = node
            node = getattr(action, "__name__", None) or getattr(action, "name", None)
            if node is None:
                raise ValueError("Node name must be provided if action is not a function")
        elif action is None:
            raise GraphDefinitionError(f"Node `{node}` has no function.")
        self._check_name(node)
        if error_handler is not None:
            check_free(handler_name(node), handler_name(node) in self.nodes)
        function, hints = self._described(action)
        ends = tuple(destinations or ()) or command_targets(hints.get("return"))
        schema = input_schema or self._schema_seen_by(function, hints) or self.state_schema
        self._add_schema(schema)
        policies = Policies.given(retry_policy, cache_policy, timeout)
        self.nodes[node] = NodeSpec(
            action_of(action), schema, metadata or {}, policies, defer, ends
        )
        if error_handler is not None:
            policies.handler = handler_name(node)
            self.nodes[policies.handler] = self._handler(error_handler)
        return self

    def _described(self, action: Any) -> tuple[Any, dict[str, Any]]:
        """Returns the function that a call of ``action`` is, and its annotations."""
        function = getattr(action, "__call__", action) if not inspect.isroutine(action) else action  # noqa: B004
        return function, hints_of_function(function, self._hints_seen)

    def _handler(self, handler: Any) -> NodeSpec:
        ends = command_targets(self._described(handler)[1].get("return"))
        policies = Policies(handles=True)
        return NodeSpec(action_of(handler), self.state_schema, policies=policies, ends=ends)

    def set_node_defaults(
        self,
        *,
        retry_policy: RetryPolicy | Sequence[RetryPolicy] | None = None,
        cache_policy: CachePolicy | None = None,
        error_handler: Any = None,
        timeout: float | timedelta | TimeoutPolicy | None = None,
    ) -> StateGraph:
        """Sets what holds for every node that doesn't say otherwise; subgraphs have their own.

        ``retry_policy`` and ``timeout`` hold for error handlers too. What isn't given stays as an
        earlier call has set it.
        """
        self._defaults.update(Policies.given(retry_policy, cache_policy, timeout), error_handler)
        return self

    def _check_name(self, name: str) -> None:
        if self.compiled:
            logger.warning("A node was added after compiling; the compiled graph doesn't have it.")
        if name in self.nodes:
            raise ValueError(f"Node `{name}` already present.")
        if name in (START, END):
            raise ValueError(f"Node `{name}` is reserved.")
        if not name or _UNSTORABLE.search(name):
            raise ValueError(
                f"Node name {name!a} is empty or has a character that can't be stored."
            )
        for character in (NS_SEP, NS_END):
            if character in name:
                raise ValueError(
                    f"'{character}' is a reserved character and is not allowed in the node names."
                )

    # Edges.

    def add_edge(self, start_key: str | Sequence[str], end_key: str) -> StateGraph:
        """Runs ``end_key`` after ``start_key``; after all of several, where it is a list."""
        if end_key == START:
            raise ValueError("START cannot be an end node")
        if isinstance(start_key, str):
            if start_key == END:
                raise ValueError("END cannot be a start node")
            self.edges[start_key, end_key] = None
            return self
        for start in start_key:
            if start == END:
                raise ValueError("END cannot be a start node")
            if start not in self.nodes:
                raise ValueError(f"Need to add_node `{start}` first")
        if end_key != END and end_key not in self.nodes:
            raise ValueError(f"Need to add_node `{end_key}` first")
        self.waiting_edges[tuple(start_key), end_key] = None
        return self

    def add_conditional_edges(
        self,
        source: str,
        path: Callable[..., Any],
        path_map: Mapping[Hashable, str] | Sequence[str] | None = None,
    ) -> StateGraph:
        """Lets ``path(state)`` choose what runs after ``source``.

        It returns a node's name, END, a Send, or a list of them. It sees the state as ``source``
        leaves it and runs within the same task. ``path_map`` maps what it returns to names.
        """
        function = path if inspect.isroutine(path) else getattr(path, "__call__", path)  # noqa: B004
        hints = hints_of_function(function, self._hints_seen)
        action = action_of(path)
        name = action.name or "condition"
        branches = self.branches.setdefault(source, {})
        if name in branches:
            raise ValueError(f"Branch with name `{name}` already exists for node `{source}`")
        ends: Mapping[Hashable, str] | None = None
        if isinstance(path_map, Mapping):
            ends = dict(path_map)
        elif path_map is not None:
            ends = {target: target for target in path_map}
        elif get_origin(hints.get("return")) is Literal:
            ends = {target: target for target in get_args(hints["return"])}
        schema = self._schema_seen_by(function, hints)
        if schema is not None:
            self._add_schema(schema)
        branches[name] = BranchSpec(action, ends, schema)
        return self

    def add_sequence(self, nodes: Sequence[Any]) -> StateGraph:
        """Adds nodes that run one after the other; a node is a function or (name, function)."""
        if not nodes:
            raise ValueError("Sequence requires at least one node.")
        previous: str | None = None
        for item in nodes:
            name, action = item if isinstance(item, tuple) else (item.__name__, item)
            if name in self.nodes:
                raise ValueError(
                    f"Node names must be unique: node with the name '{name}' already exists. If "
                    "you need to use the same function twice, name it: (name, function)."
                )
            self.add_node(name, action)
            if previous is not None:
                self.add_edge(previous, name)
            previous = name
        return self

    def set_entry_point(self, key: str) -> StateGraph:
        """Runs ``key`` first."""
        return self.add_edge(START, key)

    def set_conditional_entry_point(
        self, path: Callable[..., Any], path_map: Any = None
    ) -> StateGraph:
        """Lets ``path(state)`` choose what runs first."""
        return self.add_conditional_edges(START, path, path_map)

    def set_finish_point(self, key: str) -> StateGraph:
        """Ends the graph after ``key``."""
        return self.add_edge(key, END)

    # Compiling.

    def validate(self, interrupt: Sequence[str] = ()) -> StateGraph:
        """Raises GraphDefinitionError, with all faults, unless the graph hangs together."""
        faults = list(self._faults(interrupt))
        if faults:
            raise GraphDefinitionError("\n".join(dict.fromkeys(faults)))
        return self

    def _faults(self, interrupt: Sequence[str]) -> typing.Iterator[str]:
        known = {*self.nodes, START}
        starts = {start for start, _ in self.edges} | set(self.branches)
        starts.update(start for several, _ in self.waiting_edges for start in several)
        for start in sorted(starts):
            if start not in known:
                yield f"Found edge starting at unknown node '{start}'"
        if START not in starts:
            yield (
                "Graph must have an entrypoint: add at least one edge from START to another node"
            )
        ends = {end for _, end in self.edges} | {end for _, end in self.waiting_edges}
        for end in sorted(ends):
            if end not in self.nodes and end != END:
                yield f"Found edge ending at unknown node `{end}`"
        for source, branches in self.branches.items():
            for name, branch in branches.items():
                for target in (branch.ends or {}).values():
                    if target not in self.nodes and target != END:
                        yield (
                            f"At '{source}' node, '{name}' branch found unknown target '{target}'"
                        )
        for source, spec in self.nodes.items():
            for target in spec.ends:
                if target not in self.nodes and target != END:
                    yield f"At '{source}' node, its Command names unknown target '{target}'"
        for name in interrupt:
            if name not in self.nodes:
                yield f"Interrupt node `{name}` not found"

    def compile(
        self,
        checkpointer: BaseCheckpointSaver | bool | None = None,
        *,
        cache: BaseCache | None = None,
        store: Any = None,
        interrupt_before: All | Sequence[str] | None = None,
        interrupt_after: All | Sequence[str] | None = None,
        name: str | None = None,
    ) -> CompiledStateGraph:
        """Returns the graph ready to run.

        ``checkpointer`` stores its threads; without one it can't stop for a person. ``cache``
        keeps the results of nodes that have a cache policy.
        ``interrupt_before`` and ``interrupt_after`` name nodes (``"*"``: all) at which each run
        stops.
        """
        before, after = interrupt_before or (), interrupt_after or ()
        self.validate([n for names in (before, after) if names != "*" for n in names])
        self.compiled = True
        channels: dict[str, BaseChannel] = dict(self.channels)
        channels[START] = EphemeralValue(self.input_schema, key=START)
        channels[TASKS] = Topic(Send, key=TASKS)
        ends, keys = self._ends(), frozenset(self.channels)
        nodes = {START: self._start_node(ends.get(START, []))}
        specs = dict(self.nodes)
        if self._defaults.handler is not None:
            check_free(DEFAULT_HANDLER, DEFAULT_HANDLER in specs)
            specs[DEFAULT_HANDLER] = self._handler(self._defaults.handler)
        for node_name, spec in specs.items():
            writer = StateWriter(keys, ends.get(node_name, []))
            nodes[node_name] = self._node(node_name, spec, channels, writer)
        self._attach_joins(nodes, channels)
        return CompiledStateGraph(
            builder=self,
            nodes=nodes,
            channels={**channels, **self.managed},
            input_channels=START,
            output_channels=self._output_keys(self.output_schema),
            stream_channels=self._output_keys(self.state_schema, all_schemas=True),
            checkpointer=checkpointer,
            cache=cache,
            store=store,
            interrupt_before_nodes=before,
            interrupt_after_nodes=after,
            auto_validate=False,
            name=name or "LangGraph",
            input_schema=self.input_schema,
            output_schema=self.output_schema,
            state_schema=self.state_schema,
            context_schema=self.context_schema,
        )

    def _output_keys(self, schema: Any, *, all_schemas: bool = False) -> tuple[str, ...] | str:
        keys = tuple(self.channels) if all_schemas else self._keys(schema)
        keys = tuple(key for key in keys if key in self.channels)
        return ROOT if keys == (ROOT,) else keys

    def _start_node(self, static: list[Write]) -> Node:
        keys = frozenset(key for key in self._keys(self.input_schema) if key in self.channels)
        return Node(
            action=None,
            triggers=(START,),
            keys=START,
            writers=(StateWriter(keys, static),),
            branches=self._branches(START, self.input_schema),
            tags=(TAG_HIDDEN,),
            hidden=True,
        )

    def _node(
        self, name: str, spec: NodeSpec, channels: dict[str, BaseChannel], writer: StateWriter
    ) -> Node:
        trigger = BRANCH_TO + name
        channels[trigger] = (
            LastValueAfterFinish(Any, trigger)
            if spec.defer
            else EphemeralValue(Any, guard=False, key=trigger)
        )
        keys = self._keys(spec.input_schema)
        policies = applied(name, spec.action, spec.policies, self._defaults)
        return Node(
            action=spec.action,
            triggers=(trigger,),
            keys=ROOT if keys == (ROOT,) else keys,
            coercion=coercion_for(spec.input_schema),
            writers=(writer,),
            branches=self._branches(name, spec.input_schema),
            retry=policies.retry,
            timeout=policies.timeout,
            cache=policies.cache,
            handler=policies.handler,
            metadata=spec.metadata,
        )

    def _ends(self) -> dict[str, list[Write]]:
        """Returns the writes of each node's own edges."""
        ends: dict[str, list[Write]] = {}
        for start, end in self.edges:
            if end != END:
                ends.setdefault(start, []).append((BRANCH_TO + end, None))
        return ends

    def _branches(self, start: str, schema: Any) -> tuple[Branch, ...]:
        made = []
        for spec in self.branches.get(start, {}).values():
            seen = spec.input_schema or (self.state_schema if start == START else schema)
            keys = tuple(key for key in self._keys(seen) if key in self.channels)
            made.append(
                Branch(
                    spec.path,
                    spec.ends,
                    ROOT if keys == (ROOT,) else keys,
                    coercion_for(seen),
                    passes_output=spec.input_schema is None,
                )
            )
        return tuple(made)

    def _attach_joins(self, nodes: dict[str, Node], channels: dict[str, BaseChannel]) -> None:
        for starts, end in self.waiting_edges:
            if end == END:
                continue
            name = f"join:{'+'.join(starts)}:{end}"
            kind = NamedBarrierValueAfterFinish if self.nodes[end].defer else NamedBarrierValue
            channels[name] = kind(str, set(starts), name)
            nodes[end].triggers += (name,)
            nodes[end].sorted_triggers = tuple(sorted(nodes[end].triggers))
            for start in starts:
                for writer in nodes[start].writers:
                    assert isinstance(writer, StateWriter)
                    writer.static.append((name, start))


class CompiledStateGraph(Pregel):
    """A StateGraph ready to run; ``builder`` is the StateGraph."""

    def __init__(self, *, builder: StateGraph, **parts: Any) -> None:
        super().__init__(**parts)
        self.builder = builder
