"""The channel that collects the written values in a list."""

from __future__ import annotations

from hitl_django.engine.channels import Topic

__all__ = ["Topic"]
