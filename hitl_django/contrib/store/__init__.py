"""DjangoStore: items that threads share, stored in the database.

The class is imported on first use, because its models need Django's app registry.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .django_store import DjangoStore as DjangoStore

__all__ = ["DjangoStore"]


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from .django_store import DjangoStore

    globals()[name] = DjangoStore
    return DjangoStore
