"""App configuration that adds the command ``hitl import-langgraph``."""

from __future__ import annotations

from django.apps import AppConfig


class LangGraphConfig(AppConfig):
    """App for graphs and threads of LangGraph."""

    name = "hitl_django.contrib.langgraph"
    label = "hitl_langgraph"
    verbose_name = "LangGraph"

    def ready(self) -> None:
        from hitl_django.extensions import Extension, register

        verbs = {"import-langgraph": "hitl_django.contrib.langgraph.import_langgraph"}
        register(Extension(name=self.label, verbs=verbs))
