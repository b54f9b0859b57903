"""The one Django setting of the package, ``HITL = {...}``.

defaults.py  the keys of the core; an optional app adds its own by ``Extension.settings``
kinds.py     how a key is declared, and the values that it may have
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import Field, fields
from typing import Any

from django.conf import settings
from django.core.exceptions import ImproperlyConfigured
from django.core.signals import setting_changed

from .defaults import Settings
from .kinds import Rate

__all__ = ["Rate", "Settings", "hitl", "limit_for_user", "list_settings", "use_settings"]

#: The classes whose fields are keys, by the app that has them.
_classes: dict[str, type[Any]] = {"hitl_django": Settings}


class LazySettings:
    """The values of ``HITL``, read at first use, and again after the setting has changed."""

    def __getattr__(self, name: str) -> Any:
        if not name.isupper():
            raise AttributeError(name)
        # As attributes they are found without this method from now on.
        vars(self).update(_load())
        try:
            return vars(self)[name]
        except KeyError:
            raise AttributeError(name) from None

    def reload(self) -> None:
        """Read the setting again at its next use."""
        vars(self).clear()


def _load() -> Iterator[tuple[str, Any]]:
    # Unknown keys are left to a system check, which can say so for all of them at once.
    given = getattr(settings, "HITL", None) or {}
    for cls in _classes.values():
        names = [key.name for key in fields(cls)]
        values = cls(**{name: value for name, value in given.items() if name in names})
        yield from ((name, getattr(values, name)) for name in names)


hitl = LazySettings()


def use_settings(app: str, cls: type[Any] | None) -> None:
    """Add the fields of a dataclass to the keys of HITL, instead of those that the app had.

    Raises:
        ImproperlyConfigured: if the core or another app has one of the keys.
    """
    taken = {key.name: name for name, other in _classes.items() for key in fields(other)}
    for key in fields(cls) if cls is not None else ():
        if taken.get(key.name, app) != app:
            raise ImproperlyConfigured(
                f"The app {app!r} registers the setting {key.name!r}, which the app "
                f"{taken[key.name]!r} has registered."
            )
    _classes.pop(app, None)
    if cls is not None:
        _classes[app] = cls
    hitl.reload()


def list_settings() -> list[Field[Any]]:
    """List the keys of HITL, with those of the installed apps, as fields of dataclasses."""
    return [key for cls in _classes.values() for key in fields(cls)]


def limit_for_user(slots: int) -> int:
    """Return how many of the slots for requests that wait one user may take."""
    return max(1, int(slots * hitl.EVENT_MAX_USER_SHARE))


def _reload(*, setting: str, **kwargs: Any) -> None:
    if setting == "HITL":
        hitl.reload()


setting_changed.connect(_reload, dispatch_uid="hitl_django.conf")
