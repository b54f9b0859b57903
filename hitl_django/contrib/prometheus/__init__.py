"""Metrics of interrupts, runs and workers for Prometheus."""

from __future__ import annotations

from hitl_django.engine.extras import require_extra

with require_extra("prometheus"):
    from .collector import HitlCollector

__all__ = ["HitlCollector"]
