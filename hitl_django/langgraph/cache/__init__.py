"""Caches of nodes."""

from __future__ import annotations
