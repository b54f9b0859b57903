"""The registry of extensions, and an app of another package that uses it."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib.util import find_spec, module_from_spec
from pathlib import Path
from typing import Any

import pytest
from django.core.exceptions import ImproperlyConfigured
from django.core.management import CommandError, call_command
from django.urls import URLPattern

from hitl_django import conf, extensions
from hitl_django.api.problems import find_type_of_class
from hitl_django.checks.configuration import check_settings
from hitl_django.conf.kinds import count, setting
from hitl_django.errors import HitlError
from hitl_django.extensions import Extension, Table, register
from hitl_django.models import WorkerHeartbeat
from hitl_django.models.thread_tables import list_thread_tables
from hitl_django.worker.sweeper import find_missed_since

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(autouse=True)
def _registry(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(extensions, "_registered", {})
    yield
    conf.use_settings("first", None)


def test_verb_registered_by_two_extensions_raises_improperly_configured() -> None:
    register(Extension(name="first", verbs={"rate": "first.rate"}))
    with pytest.raises(ImproperlyConfigured, match=r"'second' .* verb 'rate'.* 'first'"):
        register(Extension(name="second", verbs={"rate": "second.rate"}))
    assert [each.name for each in extensions.list_extensions()] == ["first"]


def test_panel_registered_by_two_extensions_raises_improperly_configured() -> None:
    register(Extension(name="first", panels={"rating": "first.Panel"}))
    with pytest.raises(ImproperlyConfigured, match=r"'second' .* panel 'rating'.* 'first'"):
        register(Extension(name="second", panels={"rating": "second.Panel"}))


def test_audit_verb_registered_by_two_extensions_raises_improperly_configured() -> None:
    register(Extension(name="first", audit_verbs={"rate": "Rated"}))
    with pytest.raises(ImproperlyConfigured, match=r"'second' .* audit verb 'rate'.* 'first'"):
        register(Extension(name="second", audit_verbs={"rate": "Rated"}))


def test_model_registered_by_two_extensions_raises_improperly_configured() -> None:
    table = Table(model=WorkerHeartbeat)
    register(Extension(name="first", tables=[table]))
    with pytest.raises(ImproperlyConfigured, match=r"model 'hitl_django\.WorkerHeartbeat'"):
        register(Extension(name="second", tables=[table]))


@dataclass(frozen=True)
class FirstSettings:
    STARS: int = setting(5, "The most stars of a rating.", count)


@dataclass(frozen=True)
class ClashingSettings:
    LEASE_SECONDS: int = setting(5, "How long a rating may take.")


def test_extension_setting_has_its_default_and_is_validated_by_system_check(settings: Any) -> None:
    with pytest.raises(AttributeError):
        _ = conf.hitl.STARS
    register(Extension(name="first", settings=FirstSettings))
    assert conf.hitl.STARS == 5
    settings.HITL = {"STARS": 0}
    assert conf.hitl.STARS == 0
    [fault] = check_settings(None)
    assert (fault.id, fault.msg) == (
        "hitl_django.E003",
        "HITL['STARS'] must be a positive number.",
    )


def test_extension_with_setting_of_the_core_raises_improperly_configured() -> None:
    with pytest.raises(ImproperlyConfigured, match=r"setting 'LEASE_SECONDS'.* 'hitl_django'"):
        register(Extension(name="first", settings=ClashingSettings))
    assert extensions.list_extensions() == []


def test_extension_registered_twice_replaces_its_first_registration() -> None:
    register(Extension(name="first", verbs={"rate": "first.rate"}))
    register(Extension(name="first", verbs={"score": "first.score"}))
    [found] = extensions.list_extensions()
    assert list(found.verbs) == ["score"]


def test_extension_with_verb_of_the_core_raises_command_error_when_called() -> None:
    register(Extension(name="first", verbs={"sweep": "first.sweep"}))
    with pytest.raises(CommandError, match=r"'sweep' .* 'first'"):
        call_command("hitl", "sweep")


def test_extension_table_without_thread_is_not_archived() -> None:
    before = list_thread_tables()
    register(Extension(name="first", tables=[Table(model=WorkerHeartbeat)]))
    assert list_thread_tables() == before


@pytest.mark.any_database
def test_extension_urls_are_included_only_with_the_extension_registered() -> None:
    def load_urls() -> set[str | None]:
        spec = find_spec("hitl_django.urls")
        assert spec is not None
        assert spec.loader is not None
        loaded = module_from_spec(spec)
        spec.loader.exec_module(loaded)
        return {each.name for each in loaded.urlpatterns if isinstance(each, URLPattern)}

    without = load_urls()
    register(Extension(name="first", urls="hitl_django.contrib.notifications.urls"))
    assert load_urls() - without == {"email-decision", "slack-actions", "unsubscribe"}


@pytest.mark.django_db
def test_find_missed_since_returns_time_found_by_an_overdue_function_of_an_extension() -> None:
    since = datetime(2001, 2, 3, tzinfo=UTC)
    register(Extension(name="first", overdue=[lambda late: None, lambda late: since]))
    assert find_missed_since() == since


def test_error_class_of_extension_with_status_and_code_has_a_problem_type() -> None:
    class TooFewStars(HitlError):
        """A rating has one star at least."""

        http_status, code = 422, "too_few_stars"

    class NoStars(TooFewStars):
        """A rating has stars."""

    found = find_type_of_class(NoStars)
    assert (found.status, found.code) == (422, "too_few_stars") if found else False


@pytest.mark.process
def test_extension_tests_of_example_app_pass_in_another_project() -> None:
    tests = [sys.executable, "-m", "pytest", "-q", "-n", "0", "tests/extensions/ratings"]
    environment = {**os.environ, "DJANGO_SETTINGS_MODULE": "tests.extensions.settings"}
    environment = {k: v for k, v in environment.items() if not k.startswith("PYTEST_")}
    done = subprocess.run(tests, cwd=ROOT, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
