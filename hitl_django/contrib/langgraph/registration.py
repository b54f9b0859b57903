"""The decorator ``register_langgraph``, which registers LangGraph graphs."""

from __future__ import annotations

from collections.abc import Callable
from functools import update_wrapper
from typing import Any, TypeVar

from langgraph.pregel import Pregel as ForeignPregel

from hitl_django.engine.serde import add_code_of
from hitl_django.graph_registry.registry import register

from .registered_graph import LangGraphAdapter

Factory = TypeVar("Factory")


def register_langgraph(name: str, **options: Any) -> Callable[[Factory], Factory]:
    """Register the decorated function as the factory of a graph that LangGraph runs.

    The factory returns a compiled LangGraph graph, an uncompiled StateGraph of LangGraph, or a
    LangChain agent. Instead of a factory, the result of ``@entrypoint`` can be registered.
    ``options`` are the options of ``register``. The graph's checkpointer is ignored, because
    threads are stored like those of engine graphs. The state may contain the engine's types, and
    dataclasses, models, enums and named tuples defined in the factory's package.
    """

    def decorate(factory: Factory) -> Factory:
        source: Any = factory

        def build() -> LangGraphAdapter:
            made = source if isinstance(source, ForeignPregel) else source()
            return LangGraphAdapter(made.compile() if hasattr(made, "compile") else made)

        add_code_of(source)
        register(name, **options)(update_wrapper(build, source, updated=()))
        return factory

    return decorate
