"""The package's only Django setting, ``HITL = {...}``.

defaults.py  keys of the core; an optional app adds keys with ``Extension.settings``
kinds.py     declaration of keys, and checks of their values
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

#: Dataclasses with the keys of each app, by app.
_classes: dict[str, type[Any]] = {"hitl_django": Settings}


class LazySettings:
    """Values of the setting ``HITL``.

    The setting is read on first use, and again after it has changed.
    """

    def __getattr__(self, name: str) -> Any:
        if not name.isupper():
            raise AttributeError(name)
        # Store the values as attributes, so that Python doesn't call this method for them again.
        vars(self).update(_load())
        try:
            return vars(self)[name]
        except KeyError:
            raise AttributeError(name) from None

    def reload(self) -> None:
        """Discard the values, so that the next use reads the setting again."""
        vars(self).clear()


def _load() -> Iterator[tuple[str, Any]]:
    # Ignore unknown keys here, because a system check reports all of them together.
    given = getattr(settings, "HITL", None) or {}
    for cls in _classes.values():
        names = [key.name for key in fields(cls)]
        values = cls(**{name: value for name, value in given.items() if name in names})
        yield from ((name, getattr(values, name)) for name in names)


#: The values of the keys of HITL as attributes, such as ``hitl.LEASE_SECONDS``.
hitl = LazySettings()


def use_settings(app: str, cls: type[Any] | None) -> None:
    """Declare the fields of a dataclass as an app's keys of HITL, replacing the app's earlier keys.

    If ``cls`` is None, the app's keys are removed.

    Raises:
        ImproperlyConfigured: if the core or another app already has one of the keys.
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
    """Return the keys of HITL, including the keys of installed apps, as dataclass fields."""
    return [key for cls in _classes.values() for key in fields(cls)]


def limit_for_user(slots: int) -> int:
    """Return how many HTTP requests of one user may wait for events at the same time.

    ``slots`` is the maximum for all users together.
    """
    return max(1, int(slots * hitl.EVENT_MAX_USER_SHARE))


def _reload(*, setting: str, **kwargs: Any) -> None:
    if setting == "HITL":
        hitl.reload()


setting_changed.connect(_reload, dispatch_uid="hitl_django.conf")
