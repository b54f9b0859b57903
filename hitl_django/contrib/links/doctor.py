"""Finding of ``manage.py hitl doctor`` about review links."""

from __future__ import annotations

from collections.abc import Iterator

from hitl_django.conf import hitl
from hitl_django.db.alias import write_alias
from hitl_django.extensions import Finding
from hitl_django.models.functions import Now

from .models import ReviewLink


def report_missing_host() -> Iterator[Finding]:
    """Yield a warning if there are valid links, but no setting names the host of their pages."""
    links = ReviewLink.objects.using(write_alias())
    if not hitl.SITE_URL and links.filter(revoked_at=None, expires_at__gt=Now()).exists():
        yield Finding(
            "warning",
            "HITL['SITE_URL'] isn't set, and there are review links: links made in code are paths "
            "without a host.",
            "Set it to the base URL of the site, for example 'https://shop.example'.",
        )
