"""Two admin sites with the theme unfold: one for staff, and one for reviewers."""

from __future__ import annotations

from unfold.sites import UnfoldAdminSite

import hitl_django.admin


class StaffSite(UnfoldAdminSite):
    site_header = "Staff"


class ReviewSite(UnfoldAdminSite):
    site_header = "Reviews"


reviews = ReviewSite("reviews")
hitl_django.admin.register(reviews)
