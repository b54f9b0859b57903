"""Panel of the request page, with a link to the form for a new review link."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from django.http import HttpRequest

from hitl_django.admin.panels import Panel
from hitl_django.models import Interrupt
from hitl_django.services.reviews.quorum import is_own

from .services import may_create_link


class LinkPanel(Panel):
    """Panel with a link to the form for a new review link.

    The panel is shown for a pending request that needs only one approval.
    """

    template_name = "hitl_django/admin/link_panel.html"

    def get_context(self, request: HttpRequest, interrupt: Interrupt) -> Mapping[str, Any] | None:
        is_open = interrupt.status == Interrupt.Status.PENDING and interrupt.quorum == 1
        if not is_open or not may_create_link(request.user, interrupt):
            return None
        is_barred = interrupt.no_self_approval and is_own(interrupt, request.user)
        return None if is_barred else {}
