"""Pages that are imported on first use.

Django imports the ``admin`` modules of all apps in each process. Most processes, such as workers
and commands, never show a page.
"""

from __future__ import annotations

from typing import Any, cast

from django.contrib.admin import AdminSite, ModelAdmin
from django.db.models import Model
from django.utils.module_loading import import_string

#: Key of the arguments of a page that isn't loaded.
ARGUMENTS = "deferred_page"


def defer_page(path: str) -> type[ModelAdmin[Any]]:
    """Return a class that can be registered in place of the ModelAdmin with this dotted path.

    The first access to an attribute of an instance imports the ModelAdmin, and turns the instance
    into a ModelAdmin. This happens, for example, when the admin site builds its URLs or Django runs
    system checks.
    """

    class DeferredPage(ModelAdmin):
        def __init__(self, model: type[Model], site: AdminSite) -> None:
            object.__getattribute__(self, "__dict__")[ARGUMENTS] = model, site

        def __getattribute__(self, name: str) -> Any:
            attributes = cast(dict[str, Any], object.__getattribute__(self, "__dict__"))
            page = import_string(path)
            # The class is changed last, so that other OS threads never see an incomplete page.
            attributes.update(vars(page(*attributes[ARGUMENTS])))
            self.__class__ = page
            return getattr(self, name)

    return DeferredPage
