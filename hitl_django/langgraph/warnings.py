"""The category of deprecation warnings: Python's DeprecationWarning."""

from __future__ import annotations

LangGraphDeprecationWarning = DeprecationWarning
LangGraphDeprecatedSinceV05 = DeprecationWarning
LangGraphDeprecatedSinceV10 = DeprecationWarning
LangGraphDeprecatedSinceV11 = DeprecationWarning

__all__ = [
    "LangGraphDeprecatedSinceV05",
    "LangGraphDeprecatedSinceV10",
    "LangGraphDeprecatedSinceV11",
    "LangGraphDeprecationWarning",
]
