"""Serializers of state."""

from __future__ import annotations
