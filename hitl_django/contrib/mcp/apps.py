"""App configuration, which adds the command ``hitl mcp``."""

from __future__ import annotations

from django.apps import AppConfig


class McpConfig(AppConfig):
    """App for the MCP server."""

    name = "hitl_django.contrib.mcp"
    label = "hitl_mcp"
    verbose_name = "MCP"

    def ready(self) -> None:
        from hitl_django.extensions import Extension, register

        register(Extension(name=self.label, verbs={"mcp": f"{self.name}.serve"}))
