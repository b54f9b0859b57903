"""What a compiled graph has of a langchain Runnable.

What needs no langchain is done here: names, configs, several inputs at a time. The rest makes a
real Runnable of the graph, and is an error where langchain-core isn't installed.
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
#: Where langchain's class of Runnables is: a program that hasn't loaded it asks for none.
_RUNNABLES = "langchain_core.runnables.base"


class RunnableMethods:
    """The methods of a Runnable, for what has ``invoke``, ``ainvoke``, ``stream`` and ``astream``.

    For langchain its objects are Runnables by declaration, and not by descent: so they go where
    one is expected, as in ``prompt | graph``, and the engine knows no langchain. The declaration
    is made when an object is first looked at with langchain there, whichever came first.
    """

    name: str
    #: What each run's config is merged with.
    config: RunnableConfig | None = None
    # A graph's own, whose keyword arguments are its own, too.
    invoke: Any
    ainvoke: Any
    stream: Any
    astream: Any
    saver: Any

    @property  # type: ignore[misc]
    def __class__(self) -> type[Self]:
        """Its type; ``isinstance`` asks for it where the type itself doesn't settle the matter."""
        if _RUNNABLES in sys.modules:
            find_langchain().declare_runnable(RunnableMethods)
        return type(self)

    def get_name(self, suffix: str | None = None, *, name: str | None = None) -> str:
        """Return the name, with a suffix in the name's own way of writing."""
        own = name or self.name
        if not suffix:
            return own
        return f"{own}{suffix.title()}" if own[:1].isupper() else f"{own}_{suffix.lower()}"

    def with_config(self, config: RunnableConfig | None = None, **kwargs: Any) -> Self:
        """Return the same with a config that each run's is merged with; see merge_configs."""
        twin = copy.copy(self)
        twin.config = merge_configs(self.config, config, kwargs)
        return twin

    def bind(self, **kwargs: Any) -> BoundGraph:
        """Return the same with keyword arguments that each call is given."""
        return BoundGraph(self, kwargs)

    def map(self) -> MappedGraph:
        """Return what takes a list of inputs, and return a list of results."""
        return MappedGraph(self)

    # Several inputs.

    def batch(
        self,
        inputs: Sequence[Any],
        config: Configs = None,
        *,
        return_exceptions: bool = False,
        **kwargs: Any,
    ) -> list[Any]:
        """Run each input, side by side, and return the results in their order.

        ``config`` is one for all, or a list with one for each; its ``max_concurrency`` limits how
        many run at a time. Raises what the first failure raised; with ``return_exceptions`` it
        stands in the place of a result. Within a node, and where the saver's transaction is open,
        the inputs run one after the other.
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
        """Like batch, but yields each result as it is there, after the number of its input."""
        jobs = list(zip(inputs, list_configs(config, len(inputs)), strict=True))
        # Saver calls of a node are made on its driver's thread, which may be this very one.
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
        """Like batch, on the running event loop."""
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
        """Like batch_as_completed, on the running event loop."""
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

    # What langchain does.

    def __or__(self, other: Any) -> Any:
        """Return a langchain chain of this and what comes after: ``graph | parser``."""
        return self._runnable("|") | other

    def __ror__(self, other: Any) -> Any:
        """Return a langchain chain of what comes before and this: ``{"x": f} | graph``."""
        return other | self._runnable("|")

    def pipe(self, *others: Any, name: str | None = None) -> Any:
        """Return a langchain chain of this and what comes after it."""
        return self._runnable("pipe()").pipe(*others, name=name)

    def pick(self, keys: str | list[str]) -> Any:
        """Return a langchain chain that ends with a key of the result, or several."""
        return self._runnable("pick()").pick(keys)

    def assign(self, **kwargs: Any) -> Any:
        """Return a langchain chain that adds keys to the result."""
        return self._runnable("assign()").assign(**kwargs)

    def with_retry(self, **kwargs: Any) -> Any:
        """Return a langchain Runnable that calls this again when it fails."""
        return self._runnable("with_retry()").with_retry(**kwargs)

    def with_fallbacks(self, fallbacks: Sequence[Any], **kwargs: Any) -> Any:
        """Return a langchain Runnable that calls something else when this fails."""
        return self._runnable("with_fallbacks()").with_fallbacks(fallbacks, **kwargs)

    def with_types(self, **kwargs: Any) -> Any:
        """Return a langchain Runnable that says what it takes and return."""
        return self._runnable("with_types()").with_types(**kwargs)

    def with_listeners(self, **kwargs: Any) -> Any:
        """Return a langchain Runnable that tells listeners when it starts, ends and fails."""
        return self._runnable("with_listeners()").with_listeners(**kwargs)

    def with_alisteners(self, **kwargs: Any) -> Any:
        """Like with_listeners, for async listeners."""
        return self._runnable("with_alisteners()").with_alisteners(**kwargs)

    def as_tool(self, **kwargs: Any) -> Any:
        """Return a langchain tool that runs this."""
        return self._runnable("as_tool()").as_tool(**kwargs)

    def transform(
        self, input: Iterator[Any], config: RunnableConfig | None = None, **kwargs: Any
    ) -> Iterator[Any]:
        """Stream what comes of an input that arrives in chunks, as within a langchain chain."""
        return self._runnable("transform()").transform(input, config, **kwargs)  # type: ignore[no-any-return]

    def atransform(
        self, input: AsyncIterator[Any], config: RunnableConfig | None = None, **kwargs: Any
    ) -> AsyncIterator[Any]:
        """Like transform, on the running event loop."""
        return self._runnable("atransform()").atransform(input, config, **kwargs)  # type: ignore[no-any-return]

    def astream_events(
        self, input: Any, config: RunnableConfig | None = None, **kwargs: Any
    ) -> AsyncIterator[Any]:
        """Run it and yield langchain's events: of the run, its nodes, and the models in them."""
        return self._runnable("astream_events()").astream_events(input, config, **kwargs)  # type: ignore[no-any-return]

    def astream_log(
        self, input: Any, config: RunnableConfig | None = None, **kwargs: Any
    ) -> AsyncIterator[Any]:
        """Run it and yield langchain's log of the run, patch by patch."""
        return self._runnable("astream_log()").astream_log(input, config, **kwargs)  # type: ignore[no-any-return]

    @property
    def config_specs(self) -> list[Any]:
        """Return what a chain that this is in can be configured by: nothing of the graph's."""
        return []

    def _runnable(self, what: str) -> Any:
        langchain = find_langchain()
        if langchain is None:
            raise ImportError(f"{what} on a graph requires langchain-core, which isn't installed.")
        return langchain.GraphRunnable(self)


class BoundGraph(RunnableMethods):
    """A graph with keyword arguments that each call is given; a call's own count for more."""

    def __init__(self, graph: RunnableMethods, kwargs: Mapping[str, Any]) -> None:
        self.bound, self.kwargs = graph, dict(kwargs)
        self.name, self.saver = graph.name, graph.saver

    def invoke(self, input: Any, config: RunnableConfig | None = None, **kwargs: Any) -> Any:
        """Run the graph to its end or its next question; see Pregel.invoke."""
        return self.bound.invoke(input, config, **{**self.kwargs, **kwargs})

    async def ainvoke(self, input: Any, config: RunnableConfig | None = None, **kwargs: Any) -> Any:
        """Like invoke, on the running event loop."""
        return await self.bound.ainvoke(input, config, **{**self.kwargs, **kwargs})

    def stream(
        self, input: Any, config: RunnableConfig | None = None, **kwargs: Any
    ) -> Iterator[Any]:
        """Run the graph and yield its stream chunks; see Pregel.stream."""
        return self.bound.stream(input, config, **{**self.kwargs, **kwargs})  # type: ignore[no-any-return]

    def astream(
        self, input: Any, config: RunnableConfig | None = None, **kwargs: Any
    ) -> AsyncIterator[Any]:
        """Like stream, on the running event loop."""
        return self.bound.astream(input, config, **{**self.kwargs, **kwargs})  # type: ignore[no-any-return]

    def with_config(self, config: RunnableConfig | None = None, **kwargs: Any) -> BoundGraph:
        """Return the same for the graph with a config."""
        return BoundGraph(self.bound.with_config(config, **kwargs), self.kwargs)

    def __getattr__(self, name: str) -> Any:
        """What else is asked for is the graph's: its state, its schemas, its drawing."""
        if name in ("bound", "__deepcopy__"):
            raise AttributeError(name)
        return getattr(self.bound, name)


class MappedGraph(RunnableMethods):
    """A graph for a list of inputs, which it runs side by side, and returns a list of results."""

    def __init__(self, graph: RunnableMethods) -> None:
        self.bound, self.saver = graph, None
        self.name = f"Each<{graph.name}>"

    def invoke(
        self, input: Sequence[Any], config: RunnableConfig | None = None, **kwargs: Any
    ) -> list[Any]:
        """Run the graph for each input; see batch."""
        return self.bound.batch(input, config, **kwargs)

    async def ainvoke(
        self, input: Sequence[Any], config: RunnableConfig | None = None, **kwargs: Any
    ) -> list[Any]:
        """Like invoke, on the running event loop."""
        return await self.bound.abatch(input, config, **kwargs)

    def stream(
        self, input: Sequence[Any], config: RunnableConfig | None = None, **kwargs: Any
    ) -> Iterator[list[Any]]:
        """Run the graph for each input and yield the list of results, as one chunk."""
        yield self.invoke(input, config, **kwargs)

    async def astream(
        self, input: Sequence[Any], config: RunnableConfig | None = None, **kwargs: Any
    ) -> AsyncIterator[list[Any]]:
        """Like stream, on the running event loop."""
        yield await self.ainvoke(input, config, **kwargs)

    def with_config(self, config: RunnableConfig | None = None, **kwargs: Any) -> MappedGraph:
        """Return the same for the graph with a config."""
        return MappedGraph(self.bound.with_config(config, **kwargs))
