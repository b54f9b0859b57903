"""The demo's graphs: importing this module registers them."""

from __future__ import annotations

from importlib.util import find_spec

from . import agent, newsletter, refund

__all__ = ["agent", "newsletter", "refund"]

if find_spec("langchain") is not None:
    from . import support  # noqa: F401
