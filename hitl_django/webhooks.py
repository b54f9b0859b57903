"""Deprecated name of ``hitl_django.notifications.webhooks``. Queue messages name it."""

from __future__ import annotations

from hitl_django.deprecation import moved

__getattr__ = moved(__name__, "hitl_django.notifications.webhooks")
