from __future__ import annotations

import uuid

from django.db import models


class Claim(models.Model):
    number = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    holder = models.CharField(max_length=100)
    damage = models.DecimalField(max_digits=10, decimal_places=2)
    state = models.CharField(max_length=20, default="open")

    def __str__(self):
        return f"Claim of {self.holder}"
