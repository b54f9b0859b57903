"""The page on which a policyholder answers a question about a claim."""

from __future__ import annotations

from typing import Literal

from django.urls import reverse
from pydantic import BaseModel, Field

import hitl_django
from hitl_django.models import Interrupt
from hitl_django.views import ResponseView


class Repair(BaseModel):
    workshop: Literal["Wien", "Graz"]
    days: int = Field(ge=1, le=30)


def ask_holder(claim, holder):
    return hitl_django.ask(
        {"title": f"Wo wird {claim.holder} repariert?", "schaden": claim.damage},
        response_schema=Repair,
        subject=claim,
        key=f"repair:{claim.pk}",
        by=holder,
    )


class HolderPage(ResponseView):
    template_name = "claims/question.html"
    skip_permission_checks = True

    def get_queryset(self):
        return Interrupt.objects.filter(run__started_by=self.request.user)


def find_request_url(user, interrupt):
    if interrupt.graph == "hitl_django.ask" and not getattr(user, "is_staff", True):
        return reverse("question", args=[interrupt.pk])
    return None
