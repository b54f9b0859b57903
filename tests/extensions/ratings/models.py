"""Model of ratings of interrupts."""

from __future__ import annotations

from django.conf import settings
from django.db import models

from hitl_django.models import Interrupt


class Rating(models.Model):
    """The number of stars that a user gave to an interrupt."""

    interrupt = models.ForeignKey(Interrupt, on_delete=models.CASCADE, related_name="ratings")
    stars = models.PositiveSmallIntegerField()
    remark = models.TextField(blank=True)
    rater = models.ForeignKey(
        settings.AUTH_USER_MODEL, on_delete=models.SET_NULL, null=True, related_name="+"
    )
    rater_label = models.CharField(max_length=255, blank=True)

    def __str__(self) -> str:
        return f"{self.stars} stars"
