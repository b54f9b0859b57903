from __future__ import annotations

from django.contrib import admin

from hitl_django.admin import SubjectReviews

from .models import Order


@admin.register(Order)
class OrderAdmin(SubjectReviews, admin.ModelAdmin):
    list_display = ["customer", "cents", "refunded"]
