"""Langchain's marks for arguments of tools that no model is shown."""

from __future__ import annotations

from langchain_core.tools import InjectedToolArg
from langchain_core.tools.base import _DirectlyInjectedToolArg as DirectlyInjectedToolArg

__all__ = ["DirectlyInjectedToolArg", "InjectedToolArg"]
