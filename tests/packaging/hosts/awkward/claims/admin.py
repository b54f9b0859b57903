from __future__ import annotations

from django.contrib import admin
from unfold.admin import ModelAdmin

from hitl_django.admin import SubjectReviews

from .models import Claim


@admin.register(Claim)
class ClaimAdmin(SubjectReviews, ModelAdmin):
    list_display = ["holder", "damage", "state"]
