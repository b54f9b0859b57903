"""Caches that store the results of nodes."""

from __future__ import annotations
