"""hitl_django.contrib.alerts in a project that doesn't install it."""

from __future__ import annotations

from importlib.util import find_spec, module_from_spec

import pytest
from django.apps import apps
from django.core.exceptions import ImproperlyConfigured


def test_alerts_models_without_the_app_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    spec = find_spec("hitl_django.contrib.alerts.models")
    assert spec is not None
    assert spec.loader is not None
    before = set(apps.get_app_config("hitl_django").models)
    monkeypatch.setattr(apps, "is_installed", lambda name: False)
    with pytest.raises(ImproperlyConfigured, match=r"hitl_django\.contrib\.alerts"):
        spec.loader.exec_module(module_from_spec(spec))
    assert set(apps.get_app_config("hitl_django").models) == before
