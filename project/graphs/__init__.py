"""The demo's graphs: importing this module registers them."""

from __future__ import annotations

from importlib.util import find_spec

from . import agent, newsletter, refund

__all__ = ["HAS_SUPPORT", "agent", "newsletter", "refund"]

#: Whether there is LangChain, and LangGraph with it.
HAS_SUPPORT = find_spec("langchain") is not None

if HAS_SUPPORT:
    from . import support  # noqa: F401
