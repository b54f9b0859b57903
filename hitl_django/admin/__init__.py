"""Admin pages: the review queue, and read-only pages of runs, interrupts and decisions.

Each page checks a permission, calls a service and renders a template. The admin's index lists the
engine's tables only if ``HITL["ADMIN_SHOW_ENGINE_MODELS"]`` is set.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from django.contrib import admin
from django.db.models import Model

from hitl_django.lazy_names import make_getattr
from hitl_django.models import (
    ChannelBlob,
    Checkpoint,
    Decision,
    Interrupt,
    PendingWrite,
    ReviewItem,
    Run,
    Thread,
)

from .deferred_page import defer_page
from .queue.start_page import open_on_start_page

if TYPE_CHECKING:
    from .queue.history_admin import DecisionAdmin, InterruptAdmin
    from .queue.queue_admin import ReviewItemAdmin
    from .queue.subject_reviews import SubjectReviews
    from .runs.checkpoint_admin import ChannelBlobAdmin, CheckpointAdmin, PendingWriteAdmin
    from .runs.run_admin import RunAdmin
    from .runs.thread_admin import ThreadAdmin

__all__ = [
    "ChannelBlobAdmin",
    "CheckpointAdmin",
    "DecisionAdmin",
    "InterruptAdmin",
    "PendingWriteAdmin",
    "ReviewItemAdmin",
    "RunAdmin",
    "SubjectReviews",
    "ThreadAdmin",
    "add_pages",
    "register",
]

#: Maps each exported class to its module. It is imported on first use.
LAZY_MODULES = {
    "ChannelBlobAdmin": "runs.checkpoint_admin",
    "CheckpointAdmin": "runs.checkpoint_admin",
    "DecisionAdmin": "queue.history_admin",
    "InterruptAdmin": "queue.history_admin",
    "PendingWriteAdmin": "runs.checkpoint_admin",
    "ReviewItemAdmin": "queue.queue_admin",
    "RunAdmin": "runs.run_admin",
    "SubjectReviews": "queue.subject_reviews",
    "ThreadAdmin": "runs.thread_admin",
}

PAGES: dict[type[Model], type[admin.ModelAdmin[Any]]] = {
    model: defer_page(f"{__name__}.{model.__name__}Admin")
    for model in (
        ChannelBlob,
        Checkpoint,
        Decision,
        Interrupt,
        PendingWrite,
        ReviewItem,
        Run,
        Thread,
    )
}

#: Admin sites on which these pages are registered.
_sites: list[admin.AdminSite] = []


def register(site: admin.AdminSite) -> None:
    """Register the pages of this package on an admin site.

    Models that are already registered on the site keep their ModelAdmin. The site's index shows the
    number of pending requests, unless the site has its own index template. Users without access to
    other apps are redirected from the index to the overview of runs (operators) or to the review
    queue (reviewers).
    """
    _sites.append(site)
    _register_pages(site, PAGES)
    site.index_template = site.index_template or "hitl_django/admin/index.html"
    open_on_start_page(site)


def add_pages(pages: Mapping[type[Model], type[admin.ModelAdmin[Any]]]) -> None:
    """Add an optional app's pages to every admin site that has the review queue.

    The app's ``admin`` module calls this function.
    """
    PAGES.update(pages)
    for site in _sites:
        _register_pages(site, pages)


def _register_pages(
    site: admin.AdminSite, pages: Mapping[type[Model], type[admin.ModelAdmin[Any]]]
) -> None:
    for model, page in pages.items():
        if not site.is_registered(model):
            site.register(model, page)


if not TYPE_CHECKING:
    __getattr__ = make_getattr(__name__, LAZY_MODULES)


register(admin.site)
