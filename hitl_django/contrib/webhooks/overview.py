"""Table of failing webhooks on the Overview page of the admin."""

from __future__ import annotations

from typing import Any

from django.db.models import OuterRef, Q, Subquery
from django.utils.text import Truncator
from django.utils.translation import gettext_lazy as _
from django.utils.translation import ngettext

from hitl_django.db.alias import write_alias
from hitl_django.extensions import OverviewRow, OverviewTable
from hitl_django.permissions import select_visible

from .messages import WEBHOOK
from .models import Delivery, WebhookEndpoint

#: Maximum number of webhooks in the table, and of characters of their names.
MOST, NAME = 10, 100


def list_failing(user: Any) -> OverviewTable | None:
    """Return a table of the webhooks whose last delivery failed, or None if there are none.

    Webhooks that were deactivated after failures are included.
    """
    rows = WebhookEndpoint._default_manager.using(write_alias()).filter(channel=WEBHOOK.name)
    failing = Q(is_active=True, failures__gt=0) | Q(is_active=False) & ~Q(stopped="")
    due = Delivery.objects.filter(endpoint=OuterRef("pk"), state=Delivery.State.PENDING)
    found = select_visible(rows, user).filter(failing).order_by("-failures", "-id")[:MOST]
    first_due = Subquery(due.order_by("due_at").values("due_at")[:1])
    described = [_describe(row) for row in found.annotate(first_due=first_due)]
    if not described:
        return None
    return OverviewTable(
        title=_("Failing webhooks"),
        model=WebhookEndpoint,
        columns=[_("Webhook"), _("Next attempt"), _("State")],
        rows=described,
    )


def _describe(row: Any) -> OverviewRow:
    name = Truncator(str(row)).chars(NAME)
    if not row.is_active:
        return OverviewRow([name, "–", _("stopped")], row.pk, row.stopped, "bad")
    count = ngettext("%(n)d consecutive failure", "%(n)d consecutive failures", row.failures)
    # Pending deliveries can be due long after the end of the pause.
    attempt = max(row.first_due, row.paused_until or row.first_due) if row.first_due else "–"
    note = Truncator(row.url).chars(NAME) if row.description else ""
    return OverviewRow([name, attempt, count % {"n": row.failures}], row.pk, note, "warn")
