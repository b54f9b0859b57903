"""Errors of the app."""

from __future__ import annotations

from django.http import Http404

from hitl_django.errors import HitlError


class WebhookNotFound(HitlError, LookupError, Http404):
    """There is no such webhook or delivery."""

    http_status = 404
    code = "not_found"
