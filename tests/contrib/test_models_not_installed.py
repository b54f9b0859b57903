"""Models of optional apps in a project that doesn't install the app."""

from __future__ import annotations

from importlib.util import find_spec, module_from_spec

import pytest
from django.apps import apps
from django.core.exceptions import ImproperlyConfigured

WITH_MODELS = [
    app.name
    for app in apps.get_app_configs()
    if app.name.startswith("hitl_django.contrib.") and app.models_module is not None
]


@pytest.mark.parametrize("name", WITH_MODELS)
def test_models_of_app_missing_from_installed_apps_raise_improperly_configured(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    spec = find_spec(f"{name}.models")
    assert spec is not None
    assert spec.loader is not None
    before = set(apps.get_app_config("hitl_django").models)
    monkeypatch.setattr(apps, "is_installed", lambda name: False)
    with pytest.raises(ImproperlyConfigured, match=f"'{name}'"):
        spec.loader.exec_module(module_from_spec(spec))
    assert set(apps.get_app_config("hitl_django").models) == before
