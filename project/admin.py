"""Admin pages of customers, with their runs and open reviews."""

from __future__ import annotations

from django.contrib import admin

from hitl_django.admin import SubjectReviews

from .models import Customer

admin.site.site_header = "Fernweh Supply"
admin.site.site_title = "Fernweh Supply"


@admin.register(Customer)
class CustomerAdmin(SubjectReviews, admin.ModelAdmin):
    """Admin of customers. The page of a customer shows the customer's runs and open reviews."""

    list_display = ("number", "name", "email")
    search_fields = ("number", "name", "email")
