"""Channels that wait for writes of several nodes."""

from __future__ import annotations

from hitl_django.engine.channels import NamedBarrierValue, NamedBarrierValueAfterFinish

__all__ = ["NamedBarrierValue", "NamedBarrierValueAfterFinish"]
