"""The channel whose value is never stored in a checkpoint."""

from __future__ import annotations

from hitl_django.engine.channels import UntrackedValue

__all__ = ["UntrackedValue"]
