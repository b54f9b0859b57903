"""A graph as one of langchain's Runnables: in chains, with retries, with events."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator, Sequence
from functools import cache
from typing import Any

from langchain_core.runnables import Runnable


@cache
def declare_runnable(kind: type[Any]) -> None:
    """Has ``isinstance(x, Runnable)`` be true for the objects of a class."""
    Runnable.register(kind)


class GraphRunnable(Runnable[Any, Any]):
    """Calls the graph that it is made of; whatever else a Runnable does, it does with that."""

    def __init__(self, graph: Any) -> None:
        self.graph, self.name = graph, graph.name

    def invoke(self, input: Any, config: Any = None, **kwargs: Any) -> Any:
        """Run the graph to its end or its next question."""
        return self.graph.invoke(input, config, **kwargs)

    async def ainvoke(self, input: Any, config: Any = None, **kwargs: Any) -> Any:
        """Like invoke, on the running event loop."""
        return await self.graph.ainvoke(input, config, **kwargs)

    def stream(self, input: Any, config: Any = None, **kwargs: Any) -> Iterator[Any]:
        """Run the graph and yield its stream chunks."""
        return self.graph.stream(input, config, **kwargs)

    def astream(self, input: Any, config: Any = None, **kwargs: Any) -> AsyncIterator[Any]:
        """Like stream, on the running event loop."""
        return self.graph.astream(input, config, **kwargs)

    def batch(self, inputs: Sequence[Any], config: Any = None, **kwargs: Any) -> list[Any]:
        """Run the graph for each of several inputs."""
        return self.graph.batch(inputs, config, **kwargs)

    async def abatch(self, inputs: Sequence[Any], config: Any = None, **kwargs: Any) -> list[Any]:
        """Like batch, on the running event loop."""
        return await self.graph.abatch(inputs, config, **kwargs)

    def get_name(self, suffix: str | None = None, *, name: str | None = None) -> str:
        """Return the graph's name."""
        return self.graph.get_name(suffix, name=name)

    def get_graph(self, config: Any = None) -> Any:
        """Return the graph's nodes and edges, to draw."""
        return self.graph.get_graph(config)

    @property
    def InputType(self) -> Any:
        """What the graph takes."""
        return self.graph.InputType

    @property
    def OutputType(self) -> Any:
        """What the graph returns."""
        return self.graph.OutputType

    def get_input_schema(self, config: Any = None) -> Any:
        """Return the model of the graph's input."""
        return self.graph.get_input_schema(config)

    def get_output_schema(self, config: Any = None) -> Any:
        """Return the model of what a run of the graph comes to."""
        return self.graph.get_output_schema(config)
