"""The Pregel loop without I/O: plans super-steps, applies writes, yields effects to a driver."""

from __future__ import annotations
