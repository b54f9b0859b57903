"""Files of Django's storage that a payload names, handed out where a hint lets them be."""

from __future__ import annotations

import posixpath

from django.core.exceptions import SuspiciousOperation
from django.core.files.storage import default_storage
from django.http import FileResponse, Http404

from hitl_django.models import Interrupt

from .value_formats import find_file, get_image_type


def open_payload_file(item: Interrupt, pointer: str) -> FileResponse:
    """Return the file that a question's payload names at a pointer; Http404 where it is none.

    No browser opens it, unless it is a picture that can't hold a script.
    """
    name, is_image = find_file(item, pointer)
    try:
        if not name:
            raise FileNotFoundError
        file = default_storage.open(name)
    except (OSError, ValueError, SuspiciousOperation):
        raise Http404 from None
    kind = get_image_type(name) if is_image else ""
    response = FileResponse(
        file,
        as_attachment=not kind,
        filename=posixpath.basename(name),
        content_type=kind or "application/octet-stream",
    )
    response["X-Content-Type-Options"] = "nosniff"
    response["Content-Security-Policy"] = "default-src 'none'; sandbox"
    response["Cache-Control"] = "private, no-store"
    return response
