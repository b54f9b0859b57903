"""Registry of graphs, with their review policies, structures and pictures."""

from __future__ import annotations
