"""The admin pages of insights."""

from __future__ import annotations

from hitl_django.admin import add_pages

from ..models import SpotCheck
from .spot_check_admin import SpotCheckAdmin

add_pages({SpotCheck: SpotCheckAdmin})
