"""Admin pages of ratings."""

from __future__ import annotations

from django.contrib.admin import ModelAdmin

from hitl_django.admin import add_pages

from .models import Rating


class RatingAdmin(ModelAdmin):
    list_display = ("interrupt", "stars")


add_pages({Rating: RatingAdmin})
