"""What an app imports, and the names that programs written for LangGraph import, are here."""

from __future__ import annotations

from importlib import import_module
from pkgutil import walk_packages

import pytest

import hitl_django
from hitl_django import langgraph as ported

MODULES = [found.name for found in walk_packages(ported.__path__, f"{ported.__name__}.")]

#: What LangGraph's modules have beside these, and why it isn't here.
LEFT_OUT = {
    "lists that grow are stored by what was added, in any channel": {"DeltaChannel"},
    "deprecated by LangGraph": {"MessageGraph", "ValidationNode"},
    "of LangGraph's own configuration": {"CONF", "CONFIG_KEY_CHECKPOINTER"},
    "of LangGraph's server": {"BaseUser", "ServerInfo"},
    "of langchain's callbacks and tracing": {
        "GraphLifecycleEvent",
        "GraphLifecycleStatus",
        "TracePolicy",
        "get_async_graph_callback_manager_for_config",
        "get_sync_graph_callback_manager_for_config",
        "omit_payload",
    },
    "of langchain's agents and tools": {
        "ToolCallTransformer",
        "create_react_agent",
    },
    "for stores with an index of embeddings": {
        "Embeddings",
        "ensure_embeddings",
        "get_text_at_path",
        "tokenize_path",
    },
    "only for annotations, or inside of LangGraph": {
        "CheckpointPayload",
        "CheckpointStreamPart",
        "CheckpointTask",
        "CustomStreamPart",
        "DebugPayload",
        "DebugStreamPart",
        "MessagesStreamPart",
        "NamespaceMatchType",
        "NamespacePath",
        "Op",
        "PregelExecutableTask",
        "StreamPart",
        "TaskPayload",
        "TaskResultPayload",
        "TasksStreamPart",
        "UpdatesStreamPart",
        "ValuesStreamPart",
        "ensure_valid_checkpointer",
        "validate_op_namespace",
    },
}


def test_an_app_needs_some_twenty_names() -> None:
    assert len(hitl_django.__all__) <= 20
    for name in hitl_django.__all__:
        assert name in hitl_django.HOMES


def test_every_public_name_leads_somewhere() -> None:
    for name in hitl_django.HOMES:
        getattr(hitl_django, name)


@pytest.mark.parametrize("path", MODULES)
def test_a_module_has_the_names_of_its_namesake(path: str) -> None:
    ours = import_module(path)
    theirs = import_module(path.removeprefix("hitl_django."))
    names = getattr(ours, "__all__", ())
    for name in names:
        # What was importable from the root before is the same object there.
        assert getattr(hitl_django, name, getattr(ours, name)) is getattr(ours, name)
    missing = set(getattr(theirs, "__all__", ())) - set(names)
    assert missing <= set().union(*LEFT_OUT.values())
