"""Serializers of stored values."""

from __future__ import annotations
