"""Tables of the products that have no list of requests."""

from __future__ import annotations

from typing import Self

from django.db import models
from django.utils import timezone

from .job import CENTS, CUSTOMER


class Refund(models.Model):
    """A job with its request."""

    key = models.CharField(max_length=100, unique=True)
    customer = models.CharField(max_length=100)
    cents = models.IntegerField()
    title = models.CharField(max_length=200, blank=True)
    state = models.CharField(max_length=20, default="checking", db_index=True)
    approved = models.BooleanField(null=True)
    outcome = models.CharField(max_length=20, blank=True)
    created_at = models.DateTimeField(auto_now_add=True)
    decided_at = models.DateTimeField(null=True)

    def __str__(self) -> str:
        return self.key

    @classmethod
    def create(cls, key: str) -> tuple[Self, bool]:
        """Return the job with this key, and whether it is new."""
        return cls.objects.get_or_create(key=key, defaults={"customer": CUSTOMER, "cents": CENTS})

    @classmethod
    def list_pending(cls) -> list[int]:
        return list(cls.objects.filter(state="pending").values_list("pk", flat=True))

    @classmethod
    def approve(cls, pk: int) -> bool:
        """Approve the request, and return whether it was pending."""
        decided = {"state": "decided", "approved": True, "decided_at": timezone.now()}
        return bool(cls.objects.filter(pk=pk, state="pending").update(**decided))
