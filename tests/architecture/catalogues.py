"""Message catalogues of the package."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from babel.messages.catalog import Message
from babel.messages.pofile import read_po

from .source import PACKAGE

CATALOGUES = sorted(PACKAGE.rglob("locale/*/LC_MESSAGES/django.po"))


def key_of(message: Message) -> tuple[str | None, Any]:
    ids, context = message.id, message.context
    if isinstance(context, bytes):  # Babel returns bytes for compiled catalogues.
        context = context.decode()
    return context, ids if isinstance(ids, str) else tuple(ids)


def catalogue_of(path: Path) -> dict[Any, Message]:
    with path.open("rb") as file:
        return {
            key_of(message): message
            for message in read_po(file, locale=path.parts[-3])
            if message.id
        }
