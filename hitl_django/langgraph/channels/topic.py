"""The channel whose value is a list of the written values."""

from __future__ import annotations

from hitl_django.engine.channels import Topic

__all__ = ["Topic"]
