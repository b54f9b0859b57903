"""The methods of a LangChain Runnable on a compiled graph.

Names, configs and batches work without LangChain. The other methods convert the graph to a real
Runnable, and raise ImportError if langchain-core isn't installed.
"""

from __future__ import annotations

import copy
import sys
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, Self

from ..bridges import find_langchain
from ..task.context import current
from ..types import RunnableConfig
from .batch import arun_jobs, run_jobs, sort_results
from .run_config import list_configs, merge_configs

Configs = RunnableConfig | Sequence[RunnableConfig] | None
#: The module of langchain's Runnable classes. If the module isn't loaded, no code can test whether
#: an object is a Runnable.
_RUNNABLES = "langchain_core.runnables.base"


class RunnableMethods:
    """Runnable methods for classes with ``invoke``, ``ainvoke``, ``stream`` and ``astream``.

    LangChain accepts objects of these classes as Runnables, as in ``prompt | graph``, because
    RunnableMethods is registered as a virtual subclass of LangChain's Runnable. The registration
    doesn't import LangChain. It happens when isinstance() checks such an object for the first time
    after LangChain was imported elsewhere.
    """

    name: str
    #: Merged with the config of each run.
    config: RunnableConfig | None = None
    # Defined by the subclass, with additional keyword arguments.
    invoke: Any
    ainvoke: Any
    stream: Any
    astream: Any
    saver: Any

    @property  # type: ignore[misc]
    def __class__(self) -> type[Self]:
        """The object's type. ``isinstance`` reads this attribute if ``type()`` doesn't match."""
        if _RUNNABLES in sys.modules:
            find_langchain().declare_runnable(RunnableMethods)
        return type(self)

    def get_name(self, suffix: str | None = None, *, name: str | None = None) -> str:
        """Return ``name``, by default the graph's name, followed by ``suffix``.

        The suffix has the style of the name, for example ``MyGraphInput`` or ``my_graph_input``.
        """
        own = name or self.name
        if not suffix:
            return own
        return f"{own}{suffix.title()}" if own[:1].isupper() else f"{own}_{suffix.lower()}"

    def with_config(self, config: RunnableConfig | None = None, **kwargs: Any) -> Self:
        """Return a copy of the graph with ``config`` merged into the config of each run."""
        twin = copy.copy(self)
        twin.config = merge_configs(self.config, config, kwargs)
        return twin

    def bind(self, **kwargs: Any) -> BoundGraph:
        """Return a BoundGraph that passes ``kwargs`` as default arguments to each graph call."""
        return BoundGraph(self, kwargs)

    def map(self) -> MappedGraph:
        """Return a graph that maps a list of inputs to a list of results."""
        return MappedGraph(self)

    def batch(
        self,
        inputs: Sequence[Any],
        config: Configs = None,
        *,
        return_exceptions: bool = False,
        **kwargs: Any,
    ) -> list[Any]:
        """Run the inputs in parallel and return the results in the order of the inputs.

        ``config`` is one shared config, or a list with one config per input. The config's
        ``max_concurrency`` limits the number of parallel runs. The first exception is raised. With
        ``return_exceptions``, exceptions are returned in place of results. Inside a node, and in an
        open transaction of the saver, the inputs run one after the other.
        """
        ended = self.batch_as_completed(
            inputs, config, return_exceptions=return_exceptions, **kwargs
        )
        return sort_results(ended)

    def batch_as_completed(
        self,
        inputs: Sequence[Any],
        config: Configs = None,
        *,
        return_exceptions: bool = False,
        **kwargs: Any,
    ) -> Iterator[tuple[int, Any]]:
        """Run the inputs like batch, but yield ``(index, result)`` as each run ends."""
        jobs = list(zip(inputs, list_configs(config, len(inputs)), strict=True))
        # Saver calls of a node run on the driver's OS thread, which may be the current thread.
        on_threads = current.get() is None and (self.saver is None or self.saver.serves_threads())
        run = partial(self._run_job, kwargs, on_threads and len(jobs) > 1)
        return run_jobs(run, jobs, keeps_errors=return_exceptions, on_threads=on_threads)

    async def abatch(
        self,
        inputs: Sequence[Any],
        config: Configs = None,
        *,
        return_exceptions: bool = False,
        **kwargs: Any,
    ) -> list[Any]:
        """Async variant of batch."""
        ended = self.abatch_as_completed(
            inputs, config, return_exceptions=return_exceptions, **kwargs
        )
        return sort_results([one async for one in ended])

    def abatch_as_completed(
        self,
        inputs: Sequence[Any],
        config: Configs = None,
        *,
        return_exceptions: bool = False,
        **kwargs: Any,
    ) -> AsyncIterator[tuple[int, Any]]:
        """Async variant of batch_as_completed."""
        jobs = list(zip(inputs, list_configs(config, len(inputs)), strict=True))
        return arun_jobs(partial(self.ainvoke, **kwargs), jobs, keeps_errors=return_exceptions)

    def _run_job(
        self, kwargs: Mapping[str, Any], leaves: bool, value: Any, config: RunnableConfig
    ) -> Any:
        try:
            return self.invoke(value, config, **kwargs)
        finally:
            if leaves and self.saver is not None and self.saver.leave_thread is not None:
                self.saver.leave_thread()

    def __or__(self, other: Any) -> Any:
        """Return a LangChain chain of this graph and ``other``, as in ``graph | parser``."""
        return self._runnable("|") | other

    def __ror__(self, other: Any) -> Any:
        """Return a LangChain chain of ``other`` and this graph, as in ``{"x": f} | graph``."""
        return other | self._runnable("|")

    def pipe(self, *others: Any, name: str | None = None) -> Any:
        """Return a LangChain chain of this graph and ``others``."""
        return self._runnable("pipe()").pipe(*others, name=name)

    def pick(self, keys: str | list[str]) -> Any:
        """Return a LangChain chain that picks one or several keys of the result."""
        return self._runnable("pick()").pick(keys)

    def assign(self, **kwargs: Any) -> Any:
        """Return a LangChain chain that adds keys to the result."""
        return self._runnable("assign()").assign(**kwargs)

    def with_retry(self, **kwargs: Any) -> Any:
        """Return a LangChain Runnable that retries a failed call."""
        return self._runnable("with_retry()").with_retry(**kwargs)

    def with_fallbacks(self, fallbacks: Sequence[Any], **kwargs: Any) -> Any:
        """Return a LangChain Runnable that calls a fallback after a failure."""
        return self._runnable("with_fallbacks()").with_fallbacks(fallbacks, **kwargs)

    def with_types(self, **kwargs: Any) -> Any:
        """Return a LangChain Runnable with declared input and output types."""
        return self._runnable("with_types()").with_types(**kwargs)

    def with_listeners(self, **kwargs: Any) -> Any:
        """Return a LangChain Runnable that calls listeners on start, end and failure."""
        return self._runnable("with_listeners()").with_listeners(**kwargs)

    def with_alisteners(self, **kwargs: Any) -> Any:
        """Return a LangChain Runnable that calls async listeners on start, end and failure."""
        return self._runnable("with_alisteners()").with_alisteners(**kwargs)

    def as_tool(self, **kwargs: Any) -> Any:
        """Return a LangChain tool that runs this graph."""
        return self._runnable("as_tool()").as_tool(**kwargs)

    def transform(
        self, input: Iterator[Any], config: RunnableConfig | None = None, **kwargs: Any
    ) -> Iterator[Any]:
        """Yield the output for an input that arrives in chunks, as in a LangChain chain."""
        return self._runnable("transform()").transform(input, config, **kwargs)  # type: ignore[no-any-return]

    def atransform(
        self, input: AsyncIterator[Any], config: RunnableConfig | None = None, **kwargs: Any
    ) -> AsyncIterator[Any]:
        """Async variant of transform."""
        return self._runnable("atransform()").atransform(input, config, **kwargs)  # type: ignore[no-any-return]

    def astream_events(
        self, input: Any, config: RunnableConfig | None = None, **kwargs: Any
    ) -> AsyncIterator[Any]:
        """Run the graph and yield LangChain's events of the run, its nodes and its models."""
        return self._runnable("astream_events()").astream_events(input, config, **kwargs)  # type: ignore[no-any-return]

    def astream_log(
        self, input: Any, config: RunnableConfig | None = None, **kwargs: Any
    ) -> AsyncIterator[Any]:
        """Run the graph and yield patches of LangChain's run log."""
        return self._runnable("astream_log()").astream_log(input, config, **kwargs)  # type: ignore[no-any-return]

    @property
    def config_specs(self) -> list[Any]:
        """The graph's configurable fields for LangChain chains. The list is always empty."""
        return []

    def _runnable(self, what: str) -> Any:
        langchain = find_langchain()
        if langchain is None:
            raise ImportError(f"{what} on a graph requires langchain-core, which isn't installed.")
        return langchain.GraphRunnable(self)


class BoundGraph(RunnableMethods):
    """A graph with default keyword arguments, which a call can override."""

    def __init__(self, graph: RunnableMethods, kwargs: Mapping[str, Any]) -> None:
        self.bound, self.kwargs = graph, dict(kwargs)
        self.name, self.saver = graph.name, graph.saver

    def invoke(self, input: Any, config: RunnableConfig | None = None, **kwargs: Any) -> Any:
        """Run the graph until it ends or pauses, like Pregel.invoke."""
        return self.bound.invoke(input, config, **{**self.kwargs, **kwargs})

    async def ainvoke(self, input: Any, config: RunnableConfig | None = None, **kwargs: Any) -> Any:
        """Async variant of invoke."""
        return await self.bound.ainvoke(input, config, **{**self.kwargs, **kwargs})

    def stream(
        self, input: Any, config: RunnableConfig | None = None, **kwargs: Any
    ) -> Iterator[Any]:
        """Run the graph and yield its stream chunks, like Pregel.stream."""
        return self.bound.stream(input, config, **{**self.kwargs, **kwargs})  # type: ignore[no-any-return]

    def astream(
        self, input: Any, config: RunnableConfig | None = None, **kwargs: Any
    ) -> AsyncIterator[Any]:
        """Async variant of stream."""
        return self.bound.astream(input, config, **{**self.kwargs, **kwargs})  # type: ignore[no-any-return]

    def with_config(self, config: RunnableConfig | None = None, **kwargs: Any) -> BoundGraph:
        """Return a copy with ``config`` merged into the config of each run."""
        return BoundGraph(self.bound.with_config(config, **kwargs), self.kwargs)

    def __getattr__(self, name: str) -> Any:
        """Return an attribute of the bound graph, such as its state methods, schemas or drawing."""
        if name in ("bound", "__deepcopy__"):
            raise AttributeError(name)
        return getattr(self.bound, name)


class InvokedRunnable(RunnableMethods):
    """Runnable methods for classes that define only ``invoke`` and ``ainvoke``."""

    saver = None

    def stream(
        self, input: Any, config: RunnableConfig | None = None, **kwargs: Any
    ) -> Iterator[Any]:
        """Call ``invoke`` and yield the result as a single chunk."""
        yield self.invoke(input, config, **kwargs)

    async def astream(
        self, input: Any, config: RunnableConfig | None = None, **kwargs: Any
    ) -> AsyncIterator[Any]:
        """Async variant of stream."""
        yield await self.ainvoke(input, config, **kwargs)


class MappedGraph(InvokedRunnable):
    """A graph that runs a list of inputs in parallel and returns a list of results."""

    def __init__(self, graph: RunnableMethods) -> None:
        self.bound = graph
        self.name = f"Each<{graph.name}>"

    def invoke(
        self, input: Sequence[Any], config: RunnableConfig | None = None, **kwargs: Any
    ) -> list[Any]:
        """Run the graph for each input, like ``batch``."""
        return self.bound.batch(input, config, **kwargs)

    async def ainvoke(
        self, input: Sequence[Any], config: RunnableConfig | None = None, **kwargs: Any
    ) -> list[Any]:
        """Async variant of invoke."""
        return await self.bound.abatch(input, config, **kwargs)

    def with_config(self, config: RunnableConfig | None = None, **kwargs: Any) -> MappedGraph:
        """Return a copy with ``config`` merged into the config of each run."""
        return MappedGraph(self.bound.with_config(config, **kwargs))
