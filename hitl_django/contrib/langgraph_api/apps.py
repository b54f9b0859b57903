"""App configuration, which registers the settings."""

from __future__ import annotations

from django.apps import AppConfig


class LangGraphAPIConfig(AppConfig):
    """App for the HTTP API that LangGraph's clients use."""

    name = "hitl_django.contrib.langgraph_api"
    label = "hitl_langgraph_api"
    verbose_name = "LangGraph API"
    default_auto_field = "django.db.models.BigAutoField"

    def ready(self) -> None:
        from hitl_django.extensions import Extension, register

        from .conf import AgentSettings

        register(Extension(name=self.label, settings=AgentSettings))
