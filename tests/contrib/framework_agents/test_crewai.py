"""Agents of CrewAI in a node: the code of the guide, with a scripted model.

CrewAI can't be installed with the extra ``mcp``, which the other tests need. ``python -m
tools.matrix`` runs these tests in an environment with CrewAI.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pydantic import Field
from typing_extensions import TypedDict

from hitl_django import decide, interrupt, once, start
from hitl_django.engine.constants import START
from hitl_django.engine.graph.state_graph import StateGraph
from hitl_django.graph_registry.registry import register
from hitl_django.services import run_result
from tests.docs.pages import Page

from .pending import list_pending

# CrewAI reads these variables on import. Otherwise, it connects to its own servers.
os.environ |= {"CREWAI_DISABLE_TELEMETRY": "true", "CREWAI_TESTING": "true"}
crewai = pytest.importorskip("crewai", reason="CrewAI runs in an environment of tools.matrix")

pytestmark = [
    # Tools run on other OS threads, which don't see uncommitted rows.
    pytest.mark.django_db(transaction=True),
    # CrewAI calls its own deprecated functions.
    pytest.mark.filterwarnings("ignore::DeprecationWarning:crewai"),
]
GUIDE = Page("docs/guides/agent-frameworks.md")


class Support(TypedDict, total=False):
    task: str
    output: str


class ScriptedLLM(crewai.BaseLLM):  # type: ignore[misc, name-defined]
    """Model that first makes tool calls and then ends with their results."""

    steps: list[list[str]] = Field(default_factory=list)

    def call(self, messages: list[dict[str, Any]], *args: Any, **options: Any) -> Any:
        results = [str(each["content"]) for each in messages if each["role"] == "tool"]
        self.steps.append(results)
        if results:
            return ", ".join(results)
        name = "ask_customer_service"
        return [
            {"id": order, "function": {"name": name, "arguments": {"text": order}}}
            for order in ("A-7", "A-8")
        ]

    def supports_function_calling(self) -> bool:
        return True


def test_crewai_example_of_the_guide_interrupts_in_tools_and_repeats_no_chat_model_call(
    advance: Callable[[], int], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    # Outputs of tasks are otherwise stored in the home directory.
    monkeypatch.setenv("CREWAI_STORAGE_DIR", str(tmp_path))
    (snippet,) = (each for each in GUIDE.snippets if each.info == "python crewai")
    llm = ScriptedLLM(model="scripted")
    guide: dict[str, Any] = {
        "Support": Support,
        "build_llm": lambda: llm,
        "interrupt": interrupt,
        "once": once,
    }
    exec(compile(snippet.code, GUIDE.name, "exec", dont_inherit=True), guide)
    graph = StateGraph(Support).add_node("agent", guide["run_crew"]).add_edge(START, "agent")
    register("customer-service")(lambda: graph)

    run = start("customer-service", {"task": "Find out about the refunds."})
    advance()
    for pending in list_pending(run):
        decide(pending.pk, "respond", f"{pending.title} is refunded")
    advance()
    assert run_result(run.id)["output"] == "A-7 is refunded, A-8 is refunded"
    assert llm.steps == [[], ["A-7 is refunded", "A-8 is refunded"]]
