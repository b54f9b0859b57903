"""State serializers."""

from __future__ import annotations
