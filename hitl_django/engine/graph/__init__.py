"""Graph builders, the compiled graph, and access to the state of its threads."""

from __future__ import annotations
