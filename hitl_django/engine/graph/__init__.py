"""Builders of graphs, the compiled graph that callers invoke, and the state of its threads."""

from __future__ import annotations
