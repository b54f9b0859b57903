"""Two admin sites in the theme of unfold: the staff's, and one for those who only review."""

from __future__ import annotations

from unfold.sites import UnfoldAdminSite

import hitl_django.admin


class StaffSite(UnfoldAdminSite):
    site_header = "Staff"


class ReviewSite(UnfoldAdminSite):
    site_header = "Reviews"


reviews = ReviewSite("reviews")
hitl_django.admin.register(reviews)
