"""State schemas: annotated classes to channels, their validation, and message lists."""

from __future__ import annotations
