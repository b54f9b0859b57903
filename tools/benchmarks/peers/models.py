"""Tables of the products that have no list of requests."""

from __future__ import annotations

from django.db import models


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
