"""What LangGraph's classes can be written with in annotations, ours can be, too."""

from __future__ import annotations

import importlib
import inspect
from pkgutil import walk_packages

import pytest

from hitl_django import langgraph as ported
from hitl_django.langgraph.checkpoint.base import BaseCheckpointSaver
from hitl_django.langgraph.graph import START, StateGraph

MODULES = [found.name for found in walk_packages(ported.__path__, f"{ported.__name__}.")]

#: Which LangGraph's have from langchain's Runnable or a message.
OF_LANGCHAIN = {"JsonPlusSerializer", "RemoveMessage", "ToolNode"}


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("module", MODULES)
def test_what_is_generic_in_langgraph_takes_parameters(module: str) -> None:
    ours = importlib.import_module(module)
    theirs = importlib.import_module(module.removeprefix("hitl_django."))
    for name in set(dir(ours)) & set(dir(theirs)) - OF_LANGCHAIN:
        one, other = getattr(ours, name), getattr(theirs, name)
        if inspect.isclass(one) and getattr(other, "__parameters__", ()):
            assert one[int] is not None, name


def test_a_class_with_parameters_is_the_class() -> None:
    class Saver(BaseCheckpointSaver[str]):
        """A saver as LangGraph's users declare theirs."""

    assert issubclass(Saver, BaseCheckpointSaver)
    graph = StateGraph[dict](dict).add_node("a", lambda state: state).add_edge(START, "a")
    assert graph.compile().invoke({"x": 1}) == {"x": 1}
