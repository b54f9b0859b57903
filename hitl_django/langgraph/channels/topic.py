"""Channel with a list of the values written."""

from __future__ import annotations

from hitl_django.engine.channels import Topic

__all__ = ["Topic"]
