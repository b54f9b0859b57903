"""The channel that keeps a list of what was written."""

from __future__ import annotations

from hitl_django.engine.channels import Topic

__all__ = ["Topic"]
