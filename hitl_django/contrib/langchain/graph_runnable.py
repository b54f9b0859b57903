"""A graph as a LangChain Runnable, for use in chains, retries and event streams."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator, Sequence
from functools import cache
from typing import Any

from langchain_core.runnables import Runnable


@cache
def declare_runnable(kind: type[Any]) -> None:
    """Register a class as a Runnable: its instances then pass ``isinstance(x, Runnable)``."""
    Runnable.register(kind)


class GraphRunnable(Runnable[Any, Any]):
    """Runnable that calls a graph."""

    def __init__(self, graph: Any) -> None:
        self.graph, self.name = graph, graph.name

    def invoke(self, input: Any, config: Any = None, **kwargs: Any) -> Any:
        return self.graph.invoke(input, config, **kwargs)

    async def ainvoke(self, input: Any, config: Any = None, **kwargs: Any) -> Any:
        return await self.graph.ainvoke(input, config, **kwargs)

    def stream(self, input: Any, config: Any = None, **kwargs: Any) -> Iterator[Any]:
        return self.graph.stream(input, config, **kwargs)

    def astream(self, input: Any, config: Any = None, **kwargs: Any) -> AsyncIterator[Any]:
        return self.graph.astream(input, config, **kwargs)

    def batch(self, inputs: Sequence[Any], config: Any = None, **kwargs: Any) -> list[Any]:
        return self.graph.batch(inputs, config, **kwargs)

    async def abatch(self, inputs: Sequence[Any], config: Any = None, **kwargs: Any) -> list[Any]:
        return await self.graph.abatch(inputs, config, **kwargs)

    def get_name(self, suffix: str | None = None, *, name: str | None = None) -> str:
        return self.graph.get_name(suffix, name=name)

    # Graphs describe themselves; other callables have langchain's default description.

    def get_graph(self, config: Any = None) -> Any:
        own = getattr(self.graph, "get_graph", super().get_graph)
        return own(config)

    @property
    def InputType(self) -> Any:
        return getattr(self.graph, "InputType", Any)

    @property
    def OutputType(self) -> Any:
        return getattr(self.graph, "OutputType", Any)

    def get_input_schema(self, config: Any = None) -> Any:
        own = getattr(self.graph, "get_input_schema", super().get_input_schema)
        return own(config)

    def get_output_schema(self, config: Any = None) -> Any:
        own = getattr(self.graph, "get_output_schema", super().get_output_schema)
        return own(config)
