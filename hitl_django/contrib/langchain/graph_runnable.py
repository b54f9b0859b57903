"""A graph as a LangChain Runnable, for use in chains, retries and event streams."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator, Sequence
from functools import cache
from typing import Any

from langchain_core.runnables import Runnable


@cache
def declare_runnable(kind: type[Any]) -> None:
    """Register a class so that its instances pass ``isinstance(x, Runnable)``."""
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

    def get_graph(self, config: Any = None) -> Any:
        return self.graph.get_graph(config)

    @property
    def InputType(self) -> Any:
        return self.graph.InputType

    @property
    def OutputType(self) -> Any:
        return self.graph.OutputType

    def get_input_schema(self, config: Any = None) -> Any:
        return self.graph.get_input_schema(config)

    def get_output_schema(self, config: Any = None) -> Any:
        return self.graph.get_output_schema(config)
