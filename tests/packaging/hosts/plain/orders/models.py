from __future__ import annotations

from django.db import models


class Order(models.Model):
    customer = models.CharField(max_length=100)
    cents = models.PositiveIntegerField()
    refunded = models.PositiveIntegerField(default=0)

    def __str__(self) -> str:
        return f"Order {self.pk} of {self.customer}"
