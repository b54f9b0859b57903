"""The store in the database: what threads share, as rows."""

from __future__ import annotations

from .django_store import DjangoStore
from .expiry import delete_expired

__all__ = ["DjangoStore", "delete_expired"]
