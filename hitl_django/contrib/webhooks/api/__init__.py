"""Routes of webhooks and deliveries, below ``api/v1/``."""

from __future__ import annotations
