"""The stream mode ``messages``: what models say, token by token, and the messages of nodes."""

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
#: Tags of a model whose tokens nobody is to see.
SILENT = {TAG_NOSTREAM, "langsmith:nostream"}
#: Tags that langchain sets by itself begin so.
OWN_TAG = "seq:step"


class MessageStream(BaseCallbackHandler, _StreamingCallbackHandler):
    """Emits the chunks of a run's models as stream chunks: ``(message chunk, metadata)``.

    Langchain calls it for every model that is called with the run's config, or within its nodes.
    ``emit`` takes the chunks; without ``subgraphs`` only those at ``ns``, the run's own namespace.
    """

    #: On the calling thread, so that the tokens come in their order.
    run_inline = True

    def __init__(self, emit: Callable[[Chunk], None], ns: tuple[str, ...], subgraphs: bool) -> None:
        self._emit, self._ns, self.subgraphs = emit, ns, subgraphs
        #: The namespaces and the metadata of models that are speaking, by their langchain run.
        self._models: dict[UUID, tuple[tuple[str, ...], dict[str, Any]]] = {}
        #: The ids of messages that have been emitted, or that nodes were given.
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
        """Note a model that is called, unless nobody is to see what it says."""
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
        """Emit a chunk of a message."""
        if isinstance(chunk, ChatGenerationChunk) and run_id in self._models:
            self._say(self._models[run_id], chunk.message)

    def on_llm_end(self, response: LLMResult, *, run_id: UUID, **kwargs: Any) -> None:
        """Emit the message of a model that didn't give it in chunks."""
        model = self._models.pop(run_id, None)
        if model is None or not response.generations or not response.generations[0]:
            return
        generated = response.generations[0][0]
        if isinstance(generated, ChatGeneration) and generated.message.id not in self._known:
            self._say(model, generated.message)

    def on_llm_error(self, error: BaseException, *, run_id: UUID, **kwargs: Any) -> None:
        """Forget a model that failed."""
        self._models.pop(run_id, None)

    def tap_output_iter(self, run_id: UUID, output: Iterator[OutputT]) -> Iterator[OutputT]:
        """Leave what a model streams as it is."""
        return output

    def tap_output_aiter(self, run_id: UUID, output: Any) -> Any:
        """Leave what a model streams as it is."""
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
        """Return the chunks of messages that a node wrote, and that the stream doesn't know.

        It knows those it has emitted, and those that nodes were given: of a graph that a node
        calls they come back to that node, after a pause as new.
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
    """Return the namespace of the graph that a call belongs to, by the metadata of its task.

    A @task function belongs to the graph of the node that calls it, and has a level of its own
    below that node's.
    """
    levels, path = 1, metadata.get("langgraph_path") or ()
    while path and path[0] == PUSH and path[-1] is True:
        levels, path = levels + 1, path[1]
    return tuple(metadata.get("langgraph_checkpoint_ns", "").split(NS_SEP)[:-levels])


def add_handler(callbacks: Any, handler: BaseCallbackHandler) -> Any:
    """Return a config's callbacks, a list or a manager, with one more."""
    if isinstance(callbacks, BaseCallbackManager):
        manager = callbacks.copy()
        manager.add_handler(handler, inherit=True)
        return manager
    return [*(callbacks or ()), handler]


def _list_values(state: Any) -> Iterable[Any]:
    """Return the values of a state, or of what is a list of messages by itself."""
    if isinstance(state, Mapping):
        return state.values()
    if isinstance(state, BaseMessage | list):
        return (state,)
    return vars(state).values() if hasattr(state, "__dict__") else ()


def _find_messages(values: Iterable[Any]) -> Iterator[BaseMessage]:
    """Yield the messages among values, and in lists of them."""
    for value in values:
        inner = value.value if isinstance(value, Overwrite) else value
        if isinstance(inner, BaseMessage):
            yield inner
        elif isinstance(inner, Sequence) and not isinstance(inner, str | bytes):
            yield from (item for item in inner if isinstance(item, BaseMessage))
