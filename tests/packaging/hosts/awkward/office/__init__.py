from __future__ import annotations

from .celery import app

__all__ = ["app"]
