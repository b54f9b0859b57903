"""The demo's graphs, registered by importing this module."""

from __future__ import annotations

from importlib.util import find_spec

from . import agent, desk, newsletter, payment, refund

__all__ = ["HAS_SUPPORT", "agent", "desk", "newsletter", "payment", "refund"]

#: Whether LangChain is installed, which also installs LangGraph.
HAS_SUPPORT = find_spec("langchain") is not None

if HAS_SUPPORT:
    from . import support  # noqa: F401
