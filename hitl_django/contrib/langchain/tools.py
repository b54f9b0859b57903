"""Langchain's classes for tools: their marks, their error, their message."""

from __future__ import annotations

from langchain_core.messages import ToolMessage
from langchain_core.tools import InjectedToolArg, ToolException
from langchain_core.tools.base import _DirectlyInjectedToolArg as DirectlyInjectedToolArg

__all__ = ["DirectlyInjectedToolArg", "InjectedToolArg", "ToolException", "ToolMessage"]
