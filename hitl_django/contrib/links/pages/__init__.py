"""The page behind a review link: one question, for somebody without an account."""

from __future__ import annotations

from .page import LinkPage

__all__ = ["LinkPage"]
