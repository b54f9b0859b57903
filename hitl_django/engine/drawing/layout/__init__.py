"""Layered graph layout: positions of boxes and routes of edges, computed in four phases."""

from __future__ import annotations
