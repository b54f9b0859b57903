"""LangChain's classes of tools, and conversion of functions to tools."""

from __future__ import annotations

from typing import Any

from langchain_core.messages import ToolMessage
from langchain_core.tools import BaseTool, InjectedToolArg, ToolException
from langchain_core.tools import tool as create_tool
from langchain_core.tools.base import _DirectlyInjectedToolArg as DirectlyInjectedToolArg

__all__ = ["DirectlyInjectedToolArg", "InjectedToolArg", "ToolException", "ToolMessage"]


def convert_tool(tool: Any) -> Any:
    """Convert a function to a LangChain tool.

    An object that is a tool, or has the method ``invoke``, is returned unchanged.
    """
    return tool if isinstance(tool, BaseTool) or hasattr(tool, "invoke") else create_tool(tool)
