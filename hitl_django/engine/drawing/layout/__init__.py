"""Layered graph layout: boxes on a plane and routed edges, in four phases."""

from __future__ import annotations
