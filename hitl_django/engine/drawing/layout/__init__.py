"""Layered graph layout in four phases, which computes positions of boxes and routes of edges."""

from __future__ import annotations
