"""Table of failing webhooks on the Overview page of the admin."""

from __future__ import annotations

from typing import Any

from django.db.models import Q
from django.utils.translation import gettext_lazy as _
from django.utils.translation import ngettext

from hitl_django.db.alias import write_alias
from hitl_django.extensions import OverviewRow, OverviewTable
from hitl_django.permissions import select_visible

from .messages import WEBHOOK
from .models import WebhookEndpoint

#: Maximum number of webhooks in the table.
MOST = 10


def list_failing(user: Any) -> OverviewTable | None:
    """Return a table of the webhooks whose last delivery failed, or None if there are none.

    Webhooks that were deactivated after failures are included.
    """
    rows = WebhookEndpoint._default_manager.using(write_alias()).filter(channel=WEBHOOK.name)
    failing = Q(is_active=True, failures__gt=0) | Q(is_active=False) & ~Q(stopped="")
    found = select_visible(rows, user).filter(failing).order_by("-failures", "-id")[:MOST]
    described = [_describe(row) for row in found]
    if not described:
        return None
    return OverviewTable(
        title=_("Failing webhooks"),
        model=WebhookEndpoint,
        columns=[_("Webhook"), _("Next attempt"), _("State")],
        rows=described,
    )


def _describe(row: WebhookEndpoint) -> OverviewRow:
    if not row.is_active:
        return OverviewRow([str(row), "–", _("stopped")], row.pk, row.stopped, "bad")
    count = ngettext("%(n)d consecutive failure", "%(n)d consecutive failures", row.failures)
    cells = [str(row), row.paused_until or "–", count % {"n": row.failures}]
    return OverviewRow(cells, row.pk, row.url if row.description else "", "warn")
