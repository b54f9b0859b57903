"""Download of files in Django's storage to which a payload refers."""

from __future__ import annotations

import posixpath

from django.core.exceptions import SuspiciousOperation
from django.core.files.storage import default_storage
from django.http import FileResponse, Http404

from hitl_django.models import Interrupt

from .value_formats import find_file, get_image_type


def open_payload_file(item: Interrupt, pointer: str) -> FileResponse:
    """Return the file that the payload references at a JSON pointer.

    The response makes browsers download the file, except for images that can't contain scripts.

    Raises:
        Http404: if no display hint allows the download, or the file doesn't exist.
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
