"""The demo's graphs: importing this module registers them."""

from __future__ import annotations

from . import agent, newsletter, refund

__all__ = ["agent", "newsletter", "refund"]
