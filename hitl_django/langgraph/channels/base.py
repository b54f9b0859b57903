"""Base class of channels."""

from __future__ import annotations

from hitl_django.engine.channels import BaseChannel, EmptyChannelError

__all__ = ["BaseChannel", "EmptyChannelError"]
