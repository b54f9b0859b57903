"""LangChain's classes for the engine: the one package that knows langchain-core."""

from __future__ import annotations

from .messages import complete_message, convert_message, format_for_openai

__all__ = ["complete_message", "convert_message", "format_for_openai"]
