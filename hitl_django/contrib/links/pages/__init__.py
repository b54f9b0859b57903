"""The public page of a review link."""

from __future__ import annotations

from .page import LinkPage

__all__ = ["LinkPage"]
