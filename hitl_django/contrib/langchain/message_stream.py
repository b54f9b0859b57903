"""Stream mode ``messages``: tokens of models, and messages of nodes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, TypeVar
from uuid import UUID, uuid4

from langchain_core.callbacks import BaseCallbackHandler
from langchain_core.callbacks.base import BaseCallbackManager
from langchain_core.messages import BaseMessage
from langchain_core.outputs import ChatGeneration, ChatGenerationChunk, LLMResult
from langchain_core.tracers._streaming import _StreamingCallbackHandler

from hitl_django.engine.constants import NS_SEP, PUSH, TAG_NOSTREAM
from hitl_django.engine.types import Chunk, Overwrite

OutputT = TypeVar("OutputT")
#: Tags of models whose tokens the stream omits.
SILENT = {TAG_NOSTREAM, "langsmith:nostream"}
#: Prefix of tags that LangChain sets.
OWN_TAG = "seq:step"


class MessageStream(BaseCallbackHandler, _StreamingCallbackHandler):
    """Callback handler that emits the output of models as ``(message chunk, metadata)``.

    LangChain calls the handler for every model that is called with the run's config or inside the
    run's nodes. ``emit`` receives the chunks. Without ``subgraphs``, only chunks of the run's own
    namespace ``ns`` are emitted.
    """

    #: Run on the calling OS thread, so that tokens stay in order.
    run_inline = True

    def __init__(self, emit: Callable[[Chunk], None], ns: tuple[str, ...], subgraphs: bool) -> None:
        self._emit, self._ns, self.subgraphs = emit, ns, subgraphs
        #: Namespace and metadata of the models that are streaming, by LangChain run id.
        self._models: dict[UUID, tuple[tuple[str, ...], dict[str, Any]]] = {}
        #: Ids of messages that were already emitted or passed to nodes.
        self._known: set[str | None] = set()

    def on_chat_model_start(
        self,
        serialized: dict[str, Any],
        messages: list[list[BaseMessage]],
        *,
        run_id: UUID,
        tags: list[str] | None = None,
        metadata: dict[str, Any] | None = None,
        **kwargs: Any,
    ) -> None:
        if not metadata or "langgraph_checkpoint_ns" not in metadata or SILENT & set(tags or ()):
            return
        ns = get_graph_ns(metadata)
        if not self.subgraphs and ns != self._ns:
            return
        own = [tag for tag in tags or () if not tag.startswith(OWN_TAG)]
        self._models[run_id] = (ns, {**metadata, "tags": own} if own else metadata)

    def on_llm_new_token(
        self, token: Any, *, chunk: Any = None, run_id: UUID, **kwargs: Any
    ) -> None:
        if isinstance(chunk, ChatGenerationChunk) and run_id in self._models:
            self._say(self._models[run_id], chunk.message)

    def on_llm_end(self, response: LLMResult, *, run_id: UUID, **kwargs: Any) -> None:
        """Emit the message of a model that has streamed no chunks."""
        model = self._models.pop(run_id, None)
        if model is None or not response.generations or not response.generations[0]:
            return
        generated = response.generations[0][0]
        if isinstance(generated, ChatGeneration) and generated.message.id not in self._known:
            self._say(model, generated.message)

    def on_llm_error(self, error: BaseException, *, run_id: UUID, **kwargs: Any) -> None:
        self._models.pop(run_id, None)

    def tap_output_iter(self, run_id: UUID, output: Iterator[OutputT]) -> Iterator[OutputT]:
        return output

    def tap_output_aiter(self, run_id: UUID, output: Any) -> Any:
        return output

    def push(self, ns: tuple[str, ...], message: BaseMessage, metadata: dict[str, Any]) -> None:
        """Emit a message that a node writes before it returns."""
        if self.subgraphs or ns == self._ns:
            self._say((ns, metadata), message)

    def build_chunks(
        self,
        ns: tuple[str, ...],
        given: Any,
        written: Iterable[tuple[str, Any]],
        metadata: dict[str, Any],
    ) -> list[Chunk]:
        """Return chunks for the messages in ``written`` that are new to the stream.

        A message isn't new if the stream has emitted it, or if a node's input (``given``) contains
        it. For example, a subgraph may return its input messages. Without this rule, these messages
        would be emitted again after a pause.
        """
        self._known.update(message.id for message in _find_messages(_list_values(given)))
        chunks: list[Chunk] = []
        for message in _find_messages(value for _, value in written):
            if message.id is None or message.id not in self._known:
                self._name(message)
                chunks.append((ns, "messages", (message, metadata)))
        return chunks

    def _say(self, model: tuple[tuple[str, ...], dict[str, Any]], message: BaseMessage) -> None:
        ns, metadata = model
        self._name(message)
        self._emit((ns, "messages", (message, metadata)))

    def _name(self, message: BaseMessage) -> None:
        if message.id is None:
            message.id = str(uuid4())
        self._known.add(message.id)


def get_graph_ns(metadata: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the namespace of the graph that called a model or tool.

    ``metadata`` is the metadata that LangChain passes with the call. The namespace of a @task
    function is below the namespace of its caller, but both belong to the same graph.
    """
    levels, path = 1, metadata.get("langgraph_path") or ()
    while path and path[0] == PUSH and path[-1] is True:
        levels, path = levels + 1, path[1]
    return tuple(metadata.get("langgraph_checkpoint_ns", "").split(NS_SEP)[:-levels])


def add_handler(callbacks: Any, handler: BaseCallbackHandler) -> Any:
    """Return a config's callbacks (a list or a callback manager) with an additional handler."""
    if isinstance(callbacks, BaseCallbackManager):
        manager = callbacks.copy()
        manager.add_handler(handler, inherit=True)
        return manager
    return [*(callbacks or ()), handler]


def _list_values(state: Any) -> Iterable[Any]:
    """Return the values in a state. A state that is a list of messages counts as a single value."""
    if isinstance(state, Mapping):
        return state.values()
    if isinstance(state, BaseMessage | list):
        return (state,)
    return vars(state).values() if hasattr(state, "__dict__") else ()


def _find_messages(values: Iterable[Any]) -> Iterator[BaseMessage]:
    for value in values:
        inner = value.value if isinstance(value, Overwrite) else value
        if isinstance(inner, BaseMessage):
            yield inner
        elif isinstance(inner, Sequence) and not isinstance(inner, str | bytes):
            yield from (item for item in inner if isinstance(item, BaseMessage))
