"""StateGraph, the builder of graphs over a shared state."""

from __future__ import annotations

import inspect
import logging
import re
from collections.abc import Callable, Hashable, Mapping, Sequence
from datetime import timedelta
from typing import Any, Generic, Literal, get_args, get_origin

from ..arguments import check_names
from ..channels import BaseChannel, LastValue
from ..constants import END, NS_END, NS_SEP, ROOT, START
from ..deprecated_names import takes_old_names
from ..errors import GraphDefinitionError
from ..loop.error_handlers import DEFAULT_HANDLER, get_handler_name
from ..loop.node_cache import BaseCache
from ..savers.checkpoint import BaseCheckpointSaver
from ..state.register_types import register_schema_types
from ..state.schema import ManagedValue, build_channels, get_hints
from ..task.nodes import build_action
from ..task.signatures import get_first_parameter, list_command_targets, read_annotations
from ..types import All, CachePolicy, ContextT, InputT, OutputT, RetryPolicy, StateT, TimeoutPolicy
from .compiler import build_nodes, find_faults
from .node_spec import BranchSpec, NodeSpec
from .policies import NodeDefaults, Policies, check_free
from .pregel import Pregel

logger = logging.getLogger("hitl_django")

#: Matches NUL and lone surrogates, which databases can't store in text.
_UNSTORABLE = re.compile("[\0\ud800-\udfff]")


class StateGraph(Generic[StateT, ContextT, InputT, OutputT]):
    """Builder of a graph whose nodes read and update a shared state.

    ``state_schema`` is a TypedDict, a dataclass or a pydantic model. Each of its fields is a
    channel. A field annotated ``Annotated[T, reducer]`` combines updates with ``reducer(old,
    new)``. Any other field has the value of the last update. ``input_schema`` and ``output_schema``
    restrict the fields of input and output.
    """

    @takes_old_names(config_schema="context_schema", input="input_schema", output="output_schema")
    def __init__(
        self,
        state_schema: type[StateT] | Any,
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
        self.defaults = NodeDefaults()
        self._hints_seen: dict[Any, dict[str, Any]] = {}
        self._add_schema(state_schema)
        self._add_schema(self.input_schema, of_callers=True)
        self._add_schema(self.output_schema, of_callers=True)

    def _add_schema(self, schema: Any, *, of_callers: bool = False) -> None:
        if id(schema) in self.schemas:
            return
        channels, managed = build_channels(schema)
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
        register_schema_types(schema)
        # The reference keeps the schema alive, because its id is a key.
        self._kept_schemas.append(schema)

    def keys_of(self, schema: Any) -> tuple[str, ...]:
        """Return the keys of a schema, and add the schema to the graph if it is new."""
        self._add_schema(schema)
        return self.schemas[id(schema)]

    def _get_state_annotation(self, function: Any, hints: Mapping[str, Any]) -> Any:
        hint = hints.get(get_first_parameter(function) or "")
        if not isinstance(hint, type):
            return None
        return hint if id(hint) in self.schemas or get_hints(hint) else None

    @takes_old_names(retry="retry_policy", input="input_schema")
    def add_node(
        self,
        # The first type gives the parameter of a lambda its type.
        node: str | Callable[[StateT], Any] | Any,
        action: Callable[[StateT], Any] | Any = None,
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
        """Add a node: ``add_node("name", function)`` or ``add_node(function)``.

        The function receives the state and returns an update of the state, a Command, or None.
        Instead of a function, the node can be an async function, a generator, a compiled graph, or
        a dict of functions (the result is then a dict of their results). Parameters named
        ``config``, ``runtime``, ``writer``, ``store`` and ``previous`` are injected. With
        ``defer``, the node runs only when no other node is left to run.

        ``error_handler`` is a function that runs in the same super-step after the node's last
        failed attempt. It receives the node's input, and a NodeError as ``error``. Like a node, it
        returns an update of the state, a Command, or None. The edges of the failed node are not
        followed.

        ``timeout`` limits each attempt of an async node. ``cache_policy`` enables the reuse of
        results.
        """
        if not isinstance(node, str):
            action = node
            node = build_action(action).name
        elif action is None:
            raise GraphDefinitionError(f"Node `{node}` has no function.")
        self._check_name(node)
        if error_handler is not None:
            check_free(get_handler_name(node), get_handler_name(node) in self.nodes)
        function, hints = self._get_function_and_hints(action)
        ends = _list_ends(destinations or list_command_targets(hints.get("return")))
        schema = input_schema or self._get_state_annotation(function, hints) or self.state_schema
        self._add_schema(schema)
        policies = Policies.given(retry_policy, cache_policy, timeout)
        self.nodes[node] = NodeSpec(
            build_action(action), schema, metadata or {}, policies, defer, ends
        )
        if error_handler is not None:
            policies.handler = get_handler_name(node)
            self.nodes[policies.handler] = self._make_handler(error_handler)
        return self

    def _get_function_and_hints(self, action: Any) -> tuple[Any, dict[str, Any]]:
        function = getattr(action, "__call__", action) if not inspect.isroutine(action) else action  # noqa: B004
        return function, read_annotations(function, self._hints_seen)

    def _make_handler(self, handler: Any) -> NodeSpec:
        ends = _list_ends(
            list_command_targets(self._get_function_and_hints(handler)[1].get("return"))
        )
        policies = Policies(handles=True)
        return NodeSpec(build_action(handler), self.state_schema, policies=policies, ends=ends)

    def set_node_defaults(
        self,
        *,
        retry_policy: RetryPolicy | Sequence[RetryPolicy] | None = None,
        cache_policy: CachePolicy | None = None,
        error_handler: Any = None,
        timeout: float | timedelta | TimeoutPolicy | None = None,
    ) -> StateGraph:
        """Set default policies for the nodes of this graph.

        Nodes of subgraphs are not affected. ``retry_policy`` and ``timeout`` also apply to error
        handlers. A policy that isn't given keeps its value from an earlier call.
        """
        self.defaults.update(Policies.given(retry_policy, cache_policy, timeout), error_handler)
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

    def add_edge(self, start_key: str | Sequence[str], end_key: str) -> StateGraph:
        """Run the node ``end_key`` after the node ``start_key``.

        If ``start_key`` is a list, ``end_key`` runs after all nodes of the list.
        """
        if end_key == START:
            raise ValueError("START cannot be an end node")
        if not isinstance(end_key, str):
            raise TypeError(f"end_key must be the name of a node, not {end_key!r}.")
        if isinstance(start_key, str):
            if start_key == END:
                raise ValueError("END cannot be a start node")
            self.edges[start_key, end_key] = None
            return self
        starts = check_names("start_key", start_key)
        for start in starts:
            if start == END:
                raise ValueError("END cannot be a start node")
            if start not in self.nodes:
                raise ValueError(f"Need to add_node `{start}` first")
        if end_key != END and end_key not in self.nodes:
            raise ValueError(f"Need to add_node `{end_key}` first")
        self.waiting_edges[starts, end_key] = None
        return self

    def add_conditional_edges(
        self,
        source: str,
        path: Callable[[StateT], Any] | Any,
        path_map: Mapping[Hashable, str] | Sequence[str] | None = None,
    ) -> StateGraph:
        """Let the function ``path`` choose the nodes that run after ``source``.

        ``path`` returns a node name, END, a Send, or a list of these. The function receives the
        state including the writes of ``source``, and runs in the same task as ``source``.
        ``path_map`` maps return values to node names.
        """
        if not isinstance(source, str):
            raise TypeError(f"source must be the name of a node, not {source!r}.")
        function = path if inspect.isroutine(path) else getattr(path, "__call__", path)  # noqa: B004
        hints = read_annotations(function, self._hints_seen)
        action = build_action(path)
        name = action.name or "condition"
        branches = self.branches.setdefault(source, {})
        if name in branches:
            raise ValueError(f"Branch with name `{name}` already exists for node `{source}`")
        ends: Mapping[Hashable, str] | None = None
        if isinstance(path_map, Mapping):
            ends = dict(path_map)
        elif path_map is not None:
            ends = {target: target for target in check_names("path_map", path_map)}
        elif get_origin(hints.get("return")) is Literal:
            ends = {target: target for target in get_args(hints["return"])}
        schema = self._get_state_annotation(function, hints)
        if schema is not None:
            self._add_schema(schema)
        branches[name] = BranchSpec(action, ends, schema)
        return self

    def add_sequence(self, nodes: Sequence[Any]) -> StateGraph:
        """Add nodes that run one after the other.

        Each is a function or a pair ``(name, function)``.
        """
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
        """Run the node ``key`` first."""
        return self.add_edge(START, key)

    def set_conditional_entry_point(
        self, path: Callable[..., Any], path_map: Any = None
    ) -> StateGraph:
        """Let the function ``path`` choose the first nodes from the input."""
        return self.add_conditional_edges(START, path, path_map)

    def set_finish_point(self, key: str) -> StateGraph:
        """End the graph after the node ``key``."""
        return self.add_edge(key, END)

    def validate(self, interrupt: Sequence[str] = ()) -> StateGraph:
        """Check the graph definition, and return the builder.

        ``interrupt`` are the names of nodes with breakpoints.

        Raises:
            GraphDefinitionError: the definition has faults, all of which are listed.
        """
        found = list(find_faults(self, interrupt))
        if found:
            raise GraphDefinitionError("\n".join(dict.fromkeys(found)))
        return self

    def compile(
        self,
        checkpointer: BaseCheckpointSaver | bool | None = None,
        *,
        cache: BaseCache | None = None,
        store: Any = None,
        interrupt_before: All | Sequence[str] | None = None,
        interrupt_after: All | Sequence[str] | None = None,
        debug: bool = False,
        name: str | None = None,
        renamed: Mapping[str, str] | None = None,
    ) -> CompiledStateGraph:
        """Return the compiled graph.

        ``checkpointer`` stores threads. It's required if the graph has interrupts. ``cache`` stores
        the results of nodes with a cache policy. ``interrupt_before`` and ``interrupt_after`` are
        the names of the nodes (``"*"`` for all) before or after which each run pauses. With
        ``debug``, runs print their progress. ``renamed`` maps former names of nodes and state keys
        to current names, so that threads stored under the former names can resume.

        Raises:
            GraphDefinitionError: the graph definition has faults.
        """
        before, after = interrupt_before or (), interrupt_after or ()
        self.validate(
            [
                node
                for name, nodes in (("interrupt_before", before), ("interrupt_after", after))
                if nodes != "*"
                for node in check_names(name, nodes)
            ]
        )
        self.compiled = True
        specs = dict(self.nodes)
        if self.defaults.handler is not None:
            check_free(DEFAULT_HANDLER, DEFAULT_HANDLER in specs)
            specs[DEFAULT_HANDLER] = self._make_handler(self.defaults.handler)
        nodes, channels = build_nodes(self, specs)
        graph = CompiledStateGraph(
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
            stream_mode="updates",
            auto_validate=False,
            debug=debug,
            name=name or "LangGraph",
            input_schema=self.input_schema,
            output_schema=self.output_schema,
            state_schema=self.state_schema,
            context_schema=self.context_schema,
        )
        return graph.with_renames(renamed) if renamed else graph

    def _output_keys(self, schema: Any, *, all_schemas: bool = False) -> tuple[str, ...] | str:
        keys = tuple(self.channels) if all_schemas else self.keys_of(schema)
        keys = tuple(key for key in keys if key in self.channels)
        return ROOT if keys == (ROOT,) else keys


def _list_ends(destinations: Sequence[str] | Mapping[str, str]) -> Mapping[str, str | None]:
    if isinstance(destinations, Mapping):
        return dict(destinations)
    return dict.fromkeys(check_names("destinations", destinations))


class CompiledStateGraph(Pregel[StateT, ContextT, InputT, OutputT]):
    """A compiled StateGraph. ``builder`` is the StateGraph from which it was compiled."""

    def __init__(self, *, builder: StateGraph, **parts: Any) -> None:
        super().__init__(**parts)
        self.builder = builder
