"""The demo's own model: customers, whose refunds are reviewed."""

from __future__ import annotations

from django.db import models
from django.utils.translation import gettext_lazy as _


class Customer(models.Model):
    """A customer of the shop.

    Refund runs have a customer as related object.
    """

    number = models.CharField(_("number"), max_length=20, primary_key=True)
    name = models.CharField(_("name"), max_length=200)
    email = models.EmailField(_("email"), blank=True)

    class Meta:
        verbose_name = _("customer")
        verbose_name_plural = _("customers")

    def __str__(self) -> str:
        return f"{self.name} ({self.number})"
