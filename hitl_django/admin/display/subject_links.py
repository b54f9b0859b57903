"""Links to the related objects of threads, limited by the user's permissions."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from django.apps import apps
from django.contrib.admin.utils import quote
from django.core.exceptions import ValidationError
from django.http import HttpRequest
from django.utils.html import format_html
from django.utils.text import capfirst

from hitl_django.admin.base import NOTHING
from hitl_django.forms.json_input import escape_hidden
from hitl_django.models import Thread
from hitl_django.page_urls import find_admin_page, find_sites

#: Maximum length of a key in a text, and the number of characters shown of a longer key.
MAX_KEY, SHORT_KEY = 12, 8
#: App label, model name and primary key of an object.
Key = tuple[str | None, str | None, str]


@dataclass(frozen=True, slots=True)
class SubjectLink:
    """The text of a related object, and the ``url`` of its admin page if the user can view it."""

    label: str
    url: str = ""


def format_subject(subject: SubjectLink) -> str:
    """Return the related object's text as HTML, as a link if it has a URL."""
    if not subject.url:
        return (
            format_html("<bdi>{}</bdi>", escape_hidden(subject.label)) if subject.label else NOTHING
        )
    return format_html('<a href="{}"><bdi>{}</bdi></a>', subject.url, escape_hidden(subject.label))


def link_subjects(request: HttpRequest, keys: Iterable[Key]) -> dict[Key, SubjectLink]:
    """Return links to the related objects with these keys. Each model is read with one query.

    The text for a deleted or hidden object contains only the model and the key, because the
    object's own text may be confidential.
    """
    by_kind = defaultdict[tuple[str, str], set[str]](set)
    for app, name, object_id in keys:
        if app is not None and name is not None:
            by_kind[app, name].add(object_id)
    return {
        (*kind, object_id): subject
        for kind, ids in by_kind.items()
        for object_id, subject in _of_kind(request, *kind, ids)
    }


def link_named_subject(request: HttpRequest, name: str | None) -> SubjectLink | None:
    """Return a link to ``app_label.model/key``, or None if the name doesn't have this format."""
    kind, _, key = (name or "").partition("/")
    app, _, model = kind.partition(".")
    return link_subjects(request, [(app, model, key)])[app, model, key] if model and key else None


def _of_kind(
    request: HttpRequest, app: str, name: str, ids: set[str]
) -> Iterable[tuple[str, SubjectLink]]:
    try:
        model: Any = apps.get_model(app, name)
    except LookupError:  # The object's app was uninstalled.
        model = None
    found = {} if model is None else _seen(request, model, ids)
    words = name if model is None else str(model._meta.verbose_name)
    for object_id in ids:
        known = found.get(object_id)
        if known is None:
            yield object_id, SubjectLink(f"{capfirst(words)} {_shorten_key(object_id)}")
        else:
            url = find_admin_page(type(known), "change", quote(known.pk), request=request)
            yield object_id, SubjectLink(str(known), url)


def _shorten_key(key: str) -> str:
    """Shorten a key that would fill several lines, such as a UUID."""
    return key if len(key) <= MAX_KEY else f"{key[:SHORT_KEY]}…"


def _seen(request: HttpRequest, model: Any, ids: set[str]) -> dict[str, Any]:
    site = next(find_sites(model, request), None)
    if site is None:
        return {}
    pages = site.get_model_admin(model)
    if not pages.has_view_or_change_permission(request):
        return {}
    keys = [key for key in (_key(model, object_id) for object_id in ids) if key is not None]
    rows = pages.get_queryset(request).filter(pk__in=keys)
    seen = (row for row in rows if pages.has_view_or_change_permission(request, row))
    return {str(row.pk): row for row in seen}


def _key(model: Any, object_id: str) -> Any:
    try:
        return model._meta.pk.to_python(object_id)
    except ValidationError:
        return None


def link_subject(thread: Thread, request: HttpRequest) -> SubjectLink | None:
    """Return a link to the thread's related object, or None if the thread has none."""
    if thread.subject_type is None:
        return None
    key = *thread.subject_type.natural_key(), thread.subject_id
    return link_subjects(request, [key]).get(key)
