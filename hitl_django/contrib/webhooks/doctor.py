"""Findings of ``manage.py hitl doctor`` about webhooks."""

from __future__ import annotations

from collections.abc import Iterator

from hitl_django.conf import hitl
from hitl_django.db.alias import write_alias
from hitl_django.extensions import Finding

from .channels import list_channels
from .models import WebhookEndpoint


def report_missing_site() -> Iterator[Finding]:
    """Yield a finding if deliveries contain no links because SITE_URL is not set."""
    if hitl.SITE_URL:
        return
    names = [channel.name for channel in list_channels()]
    endpoints = WebhookEndpoint._default_manager.using(write_alias())
    if endpoints.filter(is_active=True, channel__in=names).exists():
        yield Finding(
            "warning",
            "HITL['SITE_URL'] isn't set, and there are webhooks or notifications: their messages "
            "hold no links.",
            "Set it to the base URL of the site, for example 'https://shop.example'.",
        )
