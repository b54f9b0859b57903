"""The Pregel loop without I/O, which plans super-steps, applies writes and yields effects."""

from __future__ import annotations
