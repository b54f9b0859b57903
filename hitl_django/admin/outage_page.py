"""Error page about an unavailable database or unreadable stored data.

Rendering makes no database queries. The page therefore uses neither the admin's base template nor
the code of the requested page.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial, wraps
from typing import Any
from urllib.parse import unquote

from django.db import connections, transaction
from django.http import HttpRequest, HttpResponse
from django.template.loader import render_to_string
from django.template.response import SimpleTemplateResponse

from hitl_django.db import outages
from hitl_django.engine.errors import CorruptPayloadError
from hitl_django.forms import submission
from hitl_django.forms.answer_form import make_label

logger = logging.getLogger("hitl_django")

#: Maximum number of characters shown of a field's label.
MAX_LABEL = 100
#: Name of the hidden fields that list the form's password fields.
SECRET = "secret"
#: Maximum number of characters of a submitted form that the page contains for resubmission.
MAX_KEPT = 5_000_000


@dataclass(frozen=True, slots=True)
class Field:
    """A field of the submitted form. The error page contains it, so that users can submit again."""

    name: str
    value: str

    @property
    def is_text(self) -> bool:
        """Whether the page shows the value as text, because the user may have typed it."""
        return len(self.value.split()) > 1

    @property
    def label(self) -> str:
        """Return a label derived from the field's name.

        The original label isn't available.
        """
        return make_label(unquote(self.name.rpartition("/")[2])[:MAX_LABEL])


def answer_outages(view: Callable[..., Any]) -> Callable[..., Any]:
    """Make a view return an error page if the database is unavailable or stored data is corrupt.

    Errors during the later rendering of the response's template are handled in the same way.
    """

    unwanted: Collection[str] = getattr(view, "_non_atomic_requests", ())

    @wraps(view)
    def answer(request: HttpRequest, *args: Any, **kwargs: Any) -> Any:
        try:
            with ExitStack() as transactions:
                for alias in _atomic_aliases().difference(unwanted):
                    transactions.enter_context(transaction.atomic(using=alias))
                response = view(request, *args, **kwargs)
        except outages.ERRORS as error:
            return render_outage(request, error)
        except CorruptPayloadError as error:
            return render_unreadable(error)
        if isinstance(response, SimpleTemplateResponse) and not response.is_rendered:
            # Django renders the response after the middleware, i.e. outside of this function.
            response.render = partial(_render, request, response.render)  # type: ignore[assignment, method-assign]
        return response

    # With ATOMIC_REQUESTS, Django would start a transaction before this function can handle its
    # errors.
    answer._non_atomic_requests = set(connections)  # type: ignore[attr-defined]
    return answer


def _atomic_aliases() -> set[str]:
    return {alias for alias in connections if connections.settings[alias]["ATOMIC_REQUESTS"]}


def render_outage(request: HttpRequest, error: Exception) -> HttpResponse:
    """Return the error page if the error means that the database is unavailable.

    Any other error is raised again.
    """
    if not outages.is_outage(error):
        raise error
    logger.error("the admin can't reach the database", exc_info=error)
    was_sent = request.method == "POST"
    context = {
        "address": request.get_full_path(),
        "kept": read_fields(request) if was_sent else [],
        "was_sent": was_sent,
    }
    page = render_to_string("hitl_django/admin/outage.html", context)
    headers = {"Retry-After": str(outages.WAIT), "Cache-Control": "no-store"}
    response = HttpResponse(page, status=503, headers=headers)
    # The error has already been logged. Django's own log entry would contain the submitted values.
    response._has_been_logged = True  # type: ignore[attr-defined]
    return response


def render_unreadable(error: CorruptPayloadError) -> HttpResponse:
    """Render the page about corrupt stored data, which operators must fix."""
    logger.error("the admin can't read the stored data", exc_info=error)
    page = render_to_string("hitl_django/admin/unreadable.html", {"reason": str(error)})
    response = HttpResponse(page, status=503, headers={"Cache-Control": "no-store"})
    response._has_been_logged = True  # type: ignore[attr-defined]
    return response


def read_fields(request: HttpRequest) -> list[Field] | None:
    """Return the submitted values without files and secrets.

    Returns None if the form can't be read, or if the values are too large for the error page.
    """
    try:
        form = submission.read_form(request)
        secrets = form.getlist(SECRET)
        sent = [
            Field(name, str(value))
            for name, values in form.lists()
            for value in values
            if "password" not in name.lower() and name not in secrets
        ]
    except (*submission.TOO_LARGE, *submission.UNREADABLE):
        return None
    return sent if sum(len(field.value) for field in sent) <= MAX_KEPT else None


def _render(request: HttpRequest, render: Callable[[], HttpResponse]) -> HttpResponse:
    try:
        return render()
    except outages.ERRORS as error:
        return render_outage(request, error)
    except CorruptPayloadError as error:
        return render_unreadable(error)
