"""Reading of stored state and of names contributed by apps."""

from __future__ import annotations

from typing import Any

from django.apps import apps

from hitl_django.checkpoints import DjangoSaver
from hitl_django.graph_registry import registry
from hitl_django.models import Thread


def values_of(thread: Thread) -> Any:
    graph = registry.get_graph(thread.graph).graph.with_saver(DjangoSaver())
    return graph.get_state({"configurable": {"thread_id": thread.thread_id}}).values


def name_app(model: str) -> str:
    found = (each._meta for each in apps.get_models() if each._meta.model_name == model)
    return next(of.app_label for of in found if of.app_label.startswith("hitl_"))
