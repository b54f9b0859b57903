"""What a request's body may be: one JSON object, within limits."""

from __future__ import annotations

from typing import Any

from django.conf import settings
from rest_framework.parsers import BaseParser

from hitl_django.engine.errors import PayloadLimitError

from .strict_json import decode_object


class StrictJSONParser(BaseParser):
    """Parses one JSON object within the view's ``limits``, always as UTF-8.

    The host's ``DATA_UPLOAD_MAX_MEMORY_SIZE`` holds as well, where it is the smaller one.
    """

    media_type = "application/json"

    def parse(
        self,
        stream: Any,
        media_type: str | None = None,
        parser_context: Any = None,
    ) -> dict[str, Any]:
        limits = parser_context["view"].limits
        allowed = min(limits.size, settings.DATA_UPLOAD_MAX_MEMORY_SIZE or limits.size)

        # One byte more than allowed is enough to know, whatever Content-Length claims.
        raw = stream.read(allowed + 1)
        if len(raw) > allowed:
            raise PayloadLimitError(
                f"The body is larger than {allowed} bytes.", limit=allowed, found=len(raw)
            )
        return decode_object(raw, limits)
