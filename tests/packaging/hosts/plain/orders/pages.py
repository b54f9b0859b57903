"""The page on which a customer decides, and its URL."""

from __future__ import annotations

from django.contrib.auth.models import User
from django.db.models import QuerySet
from django.urls import reverse

from hitl_django.models import Interrupt
from hitl_django.views import ResponseView


class CustomerPage(ResponseView):
    skip_permission_checks = True
    success_url = "/thanks/"

    def get_queryset(self) -> QuerySet[Interrupt]:
        return Interrupt.objects.filter(run__started_by=self.request.user)


def find_request_url(user: User | None, interrupt: Interrupt) -> str | None:
    own = user is not None and interrupt.run.started_by_id == user.pk
    return reverse("decide", args=[interrupt.pk]) if own else None
