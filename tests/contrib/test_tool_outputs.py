"""LangChain tools that return Commands."""

from __future__ import annotations

import inspect
from typing import Any

from langchain_core.runnables import RunnableConfig
from langchain_core.tools import StructuredTool, tool

from hitl_django.contrib.langchain import keep_commands


@tool
def look_up(name: str) -> str:
    """Look an address up."""
    return f"{name}@example.org"


class HalfKnown(StructuredTool):
    """A tool whose annotations name what only type checkers see."""

    def _run(self, *args: Any, config: RunnableConfig, **kwargs: Any) -> Nowhere:  # type: ignore[name-defined]  # noqa: F821
        return super()._run(*args, config=config, **kwargs)


def test_langchain_tool_wrapped_for_commands_has_signature_and_annotations_of_the_tool() -> None:
    run = keep_commands(look_up)._run
    assert inspect.signature(run) == inspect.signature(look_up._run)
    assert run.__annotations__["config"] is RunnableConfig
    # Else langchain would go back to the tool's own, and read the texts of those in each call.
    assert not hasattr(run, "__wrapped__")


def test_function_of_wrapped_langchain_tool_keeps_signature_and_receives_config() -> None:
    def find_thread(name: str, config: RunnableConfig) -> str:
        return f"{name} in {config['configurable']['thread_id']}"

    given = StructuredTool.from_function(find_thread, description="Find a thread.")
    kept = keep_commands(given)
    assert inspect.signature(kept.func) == inspect.signature(find_thread)
    assert kept.func.__annotations__ == {"config": RunnableConfig}
    assert kept.invoke({"name": "ann"}, {"configurable": {"thread_id": "t"}}) == "ann in t"
    assert given.func is find_thread


def test_langchain_tool_with_unresolvable_annotations_runs_after_wrapping() -> None:
    tool = HalfKnown.from_function(look_up.func, name="look_up", description="Looks up.")
    run = keep_commands(tool)._run
    assert run.__annotations__["return"] == "Nowhere"
    assert run(name="ann", config={}) == "ann@example.org"
