"""Channels with the last written value."""

from __future__ import annotations

from hitl_django.engine.channels import LastValue, LastValueAfterFinish

__all__ = ["LastValue", "LastValueAfterFinish"]
