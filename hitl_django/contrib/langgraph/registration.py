"""``register_langgraph``: a graph of LangGraph under a name, like any other graph."""

from __future__ import annotations

from collections.abc import Callable
from functools import update_wrapper
from typing import Any, TypeVar

from langgraph.pregel import Pregel as ForeignPregel

from hitl_django.engine.serde import add_code_of
from hitl_django.graph_registry.registry import register

from .registered_graph import LangGraphAdapter

Factory = TypeVar("Factory")


def register_langgraph(name: str, **terms: Any) -> Callable[[Factory], Factory]:
    """Register the function below it as the factory of a graph that LangGraph runs.

    The factory returns a compiled graph of LangGraph's, a StateGraph of its that isn't compiled
    yet, or an agent of LangChain's; what ``@entrypoint`` makes is registered as it is. ``terms``
    are those of ``register``. What checkpointer the graph was compiled with doesn't count: its
    threads are stored as ours are. State may hold what ours may, and the dataclasses, models,
    enums and named tuples of the factory's package.
    """

    def decorate(factory: Factory) -> Factory:
        source: Any = factory

        def build() -> LangGraphAdapter:
            made = source if isinstance(source, ForeignPregel) else source()
            return LangGraphAdapter(made.compile() if hasattr(made, "compile") else made)

        add_code_of(source)
        register(name, **terms)(update_wrapper(build, source, updated=()))
        return factory

    return decorate
