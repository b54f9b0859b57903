"""Metrics of interrupts, runs and workers for Prometheus."""

from __future__ import annotations

from .collector import HitlCollector

__all__ = ["HitlCollector"]
