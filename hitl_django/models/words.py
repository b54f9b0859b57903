"""The name under which stored migrations know ``models.search``."""

from __future__ import annotations

from .search import WordIndex

__all__ = ["WordIndex"]
