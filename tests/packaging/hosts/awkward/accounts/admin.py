from __future__ import annotations

from django.contrib import admin
from unfold.admin import ModelAdmin

from .models import Person


@admin.register(Person)
class PersonAdmin(ModelAdmin):
    list_display = ["called", "email"]
    search_fields = ["called"]
