"""Errors of webhooks."""

from __future__ import annotations

from django.http import Http404

from hitl_django.errors import HitlError


class WebhookNotFound(HitlError, LookupError, Http404):
    """The webhook or delivery does not exist."""

    http_status = 404
    code = "not_found"
