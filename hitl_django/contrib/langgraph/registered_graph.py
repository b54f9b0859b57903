"""Registered LangGraph graphs. A worker of this package runs them with LangGraph's engine."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from itertools import chain
from typing import Any, cast

from langgraph.constants import END
from langgraph.pregel import Pregel as ForeignPregel
from pydantic.errors import PydanticUndefinedAnnotation, PydanticUserError

from hitl_django.engine.constants import INPUT
from hitl_django.engine.errors import InvalidInputError, PendingInterruptsError
from hitl_django.engine.graph.pregel import Pregel
from hitl_django.engine.savers.checkpoint import BaseCheckpointSaver, Commit, Outcome
from hitl_django.engine.savers.checkpoint import CheckpointTuple as OurTuple
from hitl_django.engine.serde import add_code_of
from hitl_django.engine.task.runtime import RunControl
from hitl_django.engine.types import All, Command, RunnableConfig, StateUpdate

from .conversions import convert_command
from .graph_adapter import convert_channels, convert_nodes, find_called_graph, list_functions
from .graph_run import GraphRun, bind_saver
from .saver import BridgedSaver
from .whole_channels import store_channels_whole


class LangGraphAdapter(Pregel):
    """Compiled LangGraph graph with the interface of the engine's graphs.

    The graph's state is stored, read, compared and drawn like that of engine graphs. LangGraph
    itself starts, executes and updates the threads.
    """

    def __init__(
        self, source: ForeignPregel, known: dict[int, LangGraphAdapter] | None = None
    ) -> None:
        #: Adapters by LangGraph graph, so that a recursive graph has one adapter.
        self._known = {} if known is None else known
        self._known[id(source)] = self
        self.source = source = store_channels_whole(source)
        super().__init__(
            nodes=convert_nodes(source),
            channels=convert_channels(source),
            input_channels=source.input_channels,
            output_channels=source.output_channels,
            stream_channels=source.stream_channels_asis,
            interrupt_before_nodes=cast(Any, source.interrupt_before_nodes),
            interrupt_after_nodes=cast(Any, source.interrupt_after_nodes),
            checkpointer=source.checkpointer if isinstance(source.checkpointer, bool) else None,
            name=source.get_name(),
            state_schema=getattr(getattr(source, "builder", None), "state_schema", Any),
            context_schema=source.context_schema,
            auto_validate=False,
        )
        for function in list_functions(source):
            add_code_of(function)

    def subgraph_of(self, name: str) -> Pregel | None:
        """Return the subgraph called by a node, or None if no subgraph is detected."""
        called = find_called_graph(self.source, name)
        if called is None or called.checkpointer is False:
            return None
        return self._known.get(id(called)) or LangGraphAdapter(called, self._known)

    def get_input_jsonschema(self, config: RunnableConfig | None = None) -> dict[str, Any]:
        return _read_schema(self.source.get_input_jsonschema)

    def get_output_jsonschema(self, config: RunnableConfig | None = None) -> dict[str, Any]:
        return _read_schema(self.source.get_output_jsonschema)

    def validate_input(self, input: Any) -> None:
        """Raise InvalidInputError if the input isn't a dict, or has fields unknown to the graph.

        A graph without input fields accepts any input.

        The values of the fields are not validated, because a reducer may accept values that the
        schema doesn't describe.
        """
        fields = self._fields
        if isinstance(self.input_channels, str) and fields is None:
            return
        if not isinstance(input, Mapping):
            kind = type(input).__name__
            raise InvalidInputError(
                f"The input must be an object, not {kind}.",
                [("$", f"expected an object, got {kind}")],
            )
        if unknown := [str(name) for name in input if name not in (fields or ())]:
            raise InvalidInputError(
                f"Unknown input fields: {', '.join(unknown)}.",
                [(f"$.{name}", "unknown field") for name in unknown],
            )

    @cached_property
    def _fields(self) -> frozenset[str] | None:
        """The input fields of the graph, or None if the input has no fields."""
        schema, builder = self.get_input_jsonschema(), getattr(self.source, "builder", None)
        if not schema and builder is not None:
            return frozenset(builder.schemas[builder.input_schema])
        fields = schema.get("properties")
        return None if fields is None else frozenset(fields)

    def submit(
        self, input: Any, config: RunnableConfig, *, modes: frozenset[str] = frozenset()
    ) -> str:
        """Store ``input`` as the thread's next checkpoint, without running the graph.

        Return the id of the checkpoint.

        Raises:
            PendingInterruptsError: the thread has pending interrupts. Nothing is stored.
        """
        given = config["configurable"]
        mine = bind_saver(self.source, BridgedSaver(self._get_saver()))
        own = _select_coordinates(config)
        state = mine.get_state(own)
        if state.interrupts and not given.get("discard_pending"):
            raise PendingInterruptsError(
                f"Thread {given['thread_id']!r} has pending interrupts that new input "
                "would discard.",
                [asked.id for asked in state.interrupts],
                thread_id=given["thread_id"],
            )
        if state.tasks:
            # LangGraph would run pending nodes in addition to the nodes that the input triggers.
            mine.update_state(own, None, END)
        stored = mine.update_state(own, input, INPUT)
        return str(stored["configurable"]["checkpoint_id"])

    def advance(
        self,
        config: RunnableConfig,
        *,
        control: RunControl | None = None,
        modes: frozenset[str] = frozenset(),
        subgraphs: bool = False,
        keep: Callable[[Any], Any] | None = None,
        durability: str | None = None,
        interrupt_before: All | Sequence[str] | None = None,
        interrupt_after: All | Sequence[str] | None = None,
        context: Any = None,
    ) -> Outcome:
        """Resume the thread from its stored state, and return the outcome.

        The arguments are those of ``Pregel.advance``.
        """
        source = copy.copy(self.source)
        if interrupt_before is not None:
            source.interrupt_before_nodes = interrupt_before
        if interrupt_after is not None:
            source.interrupt_after_nodes = interrupt_after
        run = GraphRun(
            source, self._get_saver(), _select_coordinates(config),
            modes=modes, subgraphs=subgraphs, keep=keep, durability=durability or "sync",
            context=self.decode_context(context),
        )  # fmt: skip
        return run.advance(control)

    def bulk_update_state(
        self, config: RunnableConfig, supersteps: Sequence[Sequence[StateUpdate]]
    ) -> RunnableConfig:
        """Apply super-steps of updates in the same way as LangGraph.

        Each super-step is stored completely or not at all. LangGraph applies the updates, with two
        exceptions: a Command as input, and new input that discards pending nodes. If an update
        needs one of these features, the engine applies all super-steps.
        """
        discards = bool(config["configurable"].get("discard_pending"))
        for values, as_node, *_ in chain.from_iterable(supersteps):
            if as_node == INPUT and (discards or isinstance(values, Command)):
                return super().bulk_update_state(config, supersteps)
        own = _select_coordinates(config)
        for updates in supersteps:
            collected = _CollectedCommit(self._get_saver())
            mine = bind_saver(self.source, BridgedSaver(collected))
            own = mine.bulk_update_state(own, [[_convert_update(update) for update in updates]])
            collected.store()
        return cast(RunnableConfig, own)

    def _get_saver(self) -> BaseCheckpointSaver:
        assert self.saver is not None
        return self.saver


def _read_schema(build: Callable[[], dict[str, Any]]) -> dict[str, Any]:
    """Return LangGraph's JSON Schema or, if LangGraph can't create it, a schema without rules.

    LangGraph can't create a schema of string annotations or, before Python 3.12, of the standard
    library's TypedDict. The graphs themselves can run.
    """
    try:
        return build()
    except (PydanticUserError, PydanticUndefinedAnnotation):
        return {}


def _convert_update(update: StateUpdate) -> Any:
    if isinstance(update.values, Command):
        return update._replace(values=convert_command(update.values))
    return update


#: Config keys that workers and submissions pass to the engine only.
_FLAGS = frozenset({"discard_pending", "on_interrupt_change", "on_unknown_key", "rerun_unanswered"})


def _select_coordinates(config: RunnableConfig) -> Any:
    """Return a config with only the keys that LangGraph needs, such as the thread id.

    LangGraph would store the omitted keys of ``configurable`` as metadata. ``max_concurrency`` is
    omitted, because LangGraph counts its own stream as one of the concurrent tasks.
    """
    own = config["configurable"]
    kept = {"configurable": {name: own[name] for name in own if name not in _FLAGS}}
    known = ("metadata", "recursion_limit", "tags")
    return kept | {key: config[key] for key in known if key in config}


class _CollectedCommit(BaseCheckpointSaver[Any]):
    """Saver that collects a checkpoint and its writes in one commit.

    LangGraph stores the checkpoint and the writes separately.
    """

    def __init__(self, saver: BaseCheckpointSaver) -> None:
        self._saver = saver
        self._commits: list[Commit] = []

    def get_next_version(self, current: Any, channel: None) -> Any:
        return self._saver.get_next_version(current, channel)

    def get_tuple(self, config: RunnableConfig) -> OurTuple | None:
        return self._saver.get_tuple(config)

    def commit(self, commit: Commit) -> None:
        self._commits.append(commit)

    def store(self) -> None:
        """Store all collected commits as one commit."""
        (whole,) = [commit for commit in self._commits if commit.checkpoint is not None]
        whole.writes = [task for commit in self._commits for task in commit.writes]
        self._saver.commit(whole)
