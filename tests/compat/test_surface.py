"""LangGraph's public names: available here, or listed in the table with a reason."""

from __future__ import annotations

import importlib
import inspect
import re
from collections.abc import Iterator
from contextlib import suppress
from functools import cache
from pathlib import Path
from pkgutil import walk_packages
from types import ModuleType
from typing import Any

import langgraph
import pytest

from hitl_django import langgraph as ported
from hitl_django.langgraph.checkpoint.base import BaseCheckpointSaver
from hitl_django.langgraph.graph import START, MessageGraph, StateGraph

pytestmark = pytest.mark.filterwarnings("ignore")

TABLE = Path(__file__).parents[2] / "docs" / "explanation" / "differences.md"
MODULES = [found.name for found in walk_packages(ported.__path__, f"{ported.__name__}.")]

#: Packages of their own, which may be installed for the benchmarks; the port command has a reason.
BACKENDS = {"postgres", "sqlite"}

#: Which LangGraph's have from langchain's Runnable or a message.
OF_LANGCHAIN = {"JsonPlusSerializer", "RemoveMessage", "ToolNode"}


@pytest.mark.parametrize("module", MODULES)
def test_classes_generic_in_langgraph_accept_type_parameters(module: str) -> None:
    ours = importlib.import_module(module)
    theirs = importlib.import_module(module.removeprefix("hitl_django."))
    for name in set(dir(ours)) & set(dir(theirs)) - OF_LANGCHAIN:
        one, other = getattr(ours, name), getattr(theirs, name)
        if inspect.isclass(one) and getattr(other, "__parameters__", ()):
            assert one[int] is not None, name


def test_parameterized_saver_is_a_subclass_and_parameterized_state_graph_runs() -> None:
    class Saver(BaseCheckpointSaver[str]):
        """A saver as LangGraph's users declare theirs."""

    assert issubclass(Saver, BaseCheckpointSaver)
    graph = StateGraph[dict](dict).add_node("a", lambda state: state).add_edge(START, "a")
    assert graph.compile().invoke({"x": 1}) == {"x": 1}


def test_message_graph_runs_with_deprecation_warning() -> None:
    with pytest.deprecated_call():
        graph = MessageGraph()
    graph.add_node("say", lambda state: {"role": "ai", "content": f"{len(state)}"})
    found = graph.add_edge(START, "say").compile().invoke("hello")
    assert [message.content for message in found] == ["hello", "1"]


# The whole surface.


def list_modules() -> Iterator[str]:
    """Yield the names of LangGraph's public modules, of all the packages that it comes in."""
    for root in map(Path, langgraph.__path__):
        for file in sorted(root.rglob("*.py")):
            parts = file.relative_to(root).with_suffix("").parts
            parts = parts[:-1] if parts[-1] == "__init__" else parts
            if not parts or BACKENDS.intersection(parts):
                continue
            if not any(part.startswith("_") for part in parts):
                yield ".".join(("langgraph", *parts))


def list_names(module: ModuleType) -> list[str]:
    """Return the names that a module makes public, or defines."""
    if hasattr(module, "__all__"):
        return list(module.__all__)
    return [
        name
        for name, value in vars(module).items()
        if not name.startswith("_") and getattr(value, "__module__", None) == module.__name__
    ]


def list_parameters(function: Any) -> dict[str, inspect.Parameter] | None:
    try:
        return dict(inspect.signature(function).parameters)
    except (TypeError, ValueError):
        return None


def find_missing_parameters(theirs: Any, ours: Any) -> Iterator[str]:
    wanted, given = list_parameters(theirs), list_parameters(ours)
    if wanted is None or given is None:
        return
    takes_any = any(one.kind is one.VAR_KEYWORD for one in given.values())
    for name, one in wanted.items():
        is_named = one.kind not in (one.VAR_KEYWORD, one.VAR_POSITIONAL)
        if is_named and not name.startswith("_") and name not in given and not takes_any:
            yield name


def has_attribute(cls: type, name: str) -> bool:
    fields = {field for base in cls.__mro__ for field in inspect.get_annotations(base)}
    return hasattr(cls, name) or name in fields | _list_assigned(cls)


@cache
def _list_assigned(cls: type) -> set[str]:
    """Return the names that a class's own constructors set on ``self``."""
    found: set[str] = set()
    for base in cls.__mro__:
        if not base.__module__.startswith("hitl_django") or "__init__" not in vars(base):
            continue
        with suppress(OSError):  # the constructor of a dataclass, whose fields are annotated
            source = inspect.getsource(base.__init__)
            found |= set(re.findall(r"self\.(\w+)(?=[^=\n]*=[^=])", source))
    return found


def find_missing_members(theirs: type, ours: type) -> Iterator[str]:
    for name in dir(theirs):
        owner = next((base for base in theirs.__mro__ if name in vars(base)), None)
        if name.startswith("_") or owner is None or not owner.__module__.startswith("langgraph"):
            continue
        if not has_attribute(ours, name):
            yield name
        elif callable(getattr(theirs, name)) and hasattr(ours, name):
            for parameter in find_missing_parameters(getattr(theirs, name), getattr(ours, name)):
                yield f"{name}({parameter})"


@cache
def find_missing() -> frozenset[str]:
    """Return the names that LangGraph has and this package doesn't."""
    found: set[str] = set()
    seen: set[tuple[int, int]] = set()
    for module in list_modules():
        theirs = importlib.import_module(module)
        try:
            ours = importlib.import_module(f"hitl_django.{module}")
        except ImportError:
            found.add(module)
            continue
        for name in list_names(theirs):
            if not hasattr(ours, name):
                found.add(f"{module}.{name}")
                continue
            one, other = getattr(theirs, name), getattr(ours, name)
            if (id(one), id(other)) in seen:
                continue
            seen.add((id(one), id(other)))
            label = f"{module}.{name}"
            if callable(one):
                found |= {f"{label}({lacks})" for lacks in find_missing_parameters(one, other)}
            if inspect.isclass(one) and inspect.isclass(other):
                found |= {f"{label}.{lacks}" for lacks in find_missing_members(one, other)}
    return frozenset(found)


def read_table() -> dict[str, str]:
    """Return the reason of each name in the table; one ending in ``*`` stands for several."""
    section = TABLE.read_text().partition("## Missing names")[2]
    rows = re.findall(r"(?m)^\| (`[^|]+`) \| ([^|]+) \|", section)
    return {name: why.strip() for names, why in rows for name in re.findall(r"`([^`]+)`", names)}


def covers(row: str, name: str) -> bool:
    if row.endswith("*"):
        return name.startswith(row[:-1])
    return name == row or name.startswith(f"{row}.")


def test_langgraph_names_missing_from_the_package_are_documented() -> None:
    rows = read_table()
    assert sorted(n for n in find_missing() if not any(covers(row, n) for row in rows)) == []


def test_langgraph_names_documented_as_missing_are_missing_and_have_reasons() -> None:
    rows = read_table()
    assert [row for row in rows if not any(covers(row, name) for name in find_missing())] == []
    assert all(rows.values())
