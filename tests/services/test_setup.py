"""Settings and registrations of a project: lazy reads and validation."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from django.core import checks
from django.db import connections
from django.test import override_settings

from hitl_django.conf import hitl, list_settings
from hitl_django.engine.constants import START
from hitl_django.engine.graph.state_graph import StateGraph
from hitl_django.errors import BrokenGraphError, UnknownGraphError
from hitl_django.graph_registry import registry
from hitl_django.task_queue.dispatcher import Dispatcher
from tests import graphs


@pytest.fixture
def register() -> Iterator[Callable[..., Any]]:
    names: list[str] = []

    def call(name: str, factory: Callable[[], Any], **options: Any) -> None:
        names.append(name)
        registry.register(name, **options)(factory)

    yield call
    for name in names:
        registry.unregister(name)


def found(**kwargs: Any) -> dict[str, str]:
    said = checks.run_checks(tags=["hitl_django"], databases=["default"], **kwargs)
    return {str(message.id): message.msg for message in said}


def test_hitl_setting_returns_default_until_overridden() -> None:
    assert hitl.LEASE_SECONDS == 30
    with override_settings(HITL={"LEASE_SECONDS": 5}):
        assert (hitl.LEASE_SECONDS, hitl.HEARTBEAT_SECONDS) == (5, 10)
    assert hitl.LEASE_SECONDS == 30
    with pytest.raises(AttributeError):
        _ = hitl.NO_SUCH_KEY


@pytest.mark.parametrize("name", sorted(key.name for key in list_settings()))
def test_system_check_reports_invalid_setting_at_most_once(name: str) -> None:
    with override_settings(HITL={name: -1}):
        said = checks.run_checks(tags=["hitl_django"], databases=["default"])
    assert len([one for one in said if f"HITL[{name!r}]" in one.msg]) <= 1


def test_system_checks_report_no_warning_for_settings_of_the_test_project() -> None:
    assert set(found()) <= {"hitl_django.I021"}


def test_system_check_reports_postgresql_without_idle_in_transaction_timeout() -> None:
    connection = connections["default"]
    expected = ["hitl_django.I021"] if connection.vendor == "postgresql" else []
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(connection.settings_dict, "OPTIONS", {})
        assert list(found_alone("check_postgresql")) == expected
        limited = {"options": "-c idle_in_transaction_session_timeout=10s"}
        patch.setitem(connection.settings_dict, "OPTIONS", limited)
        assert found_alone("check_postgresql") == {}


@pytest.mark.parametrize(
    ("given", "id_", "words"),
    [
        (["LEASE_SECONDS"], "hitl_django.E001", "dict"),
        ({"LEASE_SECOND": 5}, "hitl_django.E002", "LEASE_SECOND"),
        ({"ON_INTERRUPT_CHANGE": "park"}, "hitl_django.E003", "ON_INTERRUPT_CHANGE"),
        ({"ON_UNKNOWN_KEY": True}, "hitl_django.E003", "ON_UNKNOWN_KEY"),
        ({"MAX_ATTEMPTS": 0}, "hitl_django.E003", "MAX_ATTEMPTS"),
        ({"MAX_ATTEMPTS": "5"}, "hitl_django.E003", "MAX_ATTEMPTS"),
        ({"LEASE_SECONDS": True}, "hitl_django.E003", "LEASE_SECONDS"),
        ({"TIME_SLICE_SECONDS": -1}, "hitl_django.E003", "TIME_SLICE_SECONDS"),
        ({"THROTTLE_READ": "1/week"}, "hitl_django.E003", "THROTTLE_READ"),
        ({"EVENT_MAX_WAITING_THREADS": -1}, "hitl_django.E003", "EVENT_MAX_WAITING_THREADS"),
        ({"EVENT_MAX_WAITING_THREADS": 1.5}, "hitl_django.E003", "EVENT_MAX_WAITING_THREADS"),
        ({"EVENT_MAX_STREAMS": None}, "hitl_django.E003", "EVENT_MAX_STREAMS"),
        ({"EVENT_MAX_USER_SHARE": 0}, "hitl_django.E003", "EVENT_MAX_USER_SHARE"),
        ({"EVENT_MAX_USER_SHARE": 2}, "hitl_django.E003", "EVENT_MAX_USER_SHARE"),
        ({"EVENT_POLL_SECONDS": 0}, "hitl_django.E003", "EVENT_POLL_SECONDS"),
        ({"THROTTLE_START": "fast"}, "hitl_django.E003", "THROTTLE_START"),
        ({"THROTTLE_DECIDE": 100}, "hitl_django.E003", "THROTTLE_DECIDE"),
        ({"THROTTLE_LINK": "often"}, "hitl_django.E003", "THROTTLE_LINK"),
        ({"SITE_URL": "shop.example"}, "hitl_django.E003", "SITE_URL"),
        ({"BRAND": "Shop"}, "hitl_django.E003", "BRAND"),
        ({"BRAND": {"colour": "#112233"}}, "hitl_django.E003", "colour"),
        ({"BRAND": {"name": "Two\nlines"}}, "hitl_django.E003", "one line"),
        ({"BRAND": {"accent": "red; } body { display: none"}}, "hitl_django.E003", "accent"),
        ({"BRAND": {"accent": "#12345"}}, "hitl_django.E003", "#12345"),
        ({"BRAND": {"logo": "javascript:alert(1)"}}, "hitl_django.E003", "logo"),
        ({"BRAND": {"logo": "//cdn.example/a.svg"}}, "hitl_django.E003", "logo"),
        ({"BRAND": {"logo": "https://a.example; img-src *"}}, "hitl_django.E003", "logo"),
        ({"BRAND": {"logo": "logo.svg"}}, "hitl_django.E003", "logo"),
        ({"WEBHOOK_NETWORKS": ["10.1.0.1/16"]}, "hitl_django.E003", "10.1.0.1/16"),
        ({"WEBHOOK_NETWORKS": None}, "hitl_django.E003", "WEBHOOK_NETWORKS"),
        ({"WEBHOOK_ATTEMPTS": 0}, "hitl_django.E003", "WEBHOOK_ATTEMPTS"),
        ({"NOTIFICATION_DEFAULT": "hourly"}, "hitl_django.E003", "NOTIFICATION_DEFAULT"),
        ({"DIGEST_HOUR": 24}, "hitl_django.E003", "DIGEST_HOUR"),
        ({"DIGEST_HOUR": True}, "hitl_django.E003", "DIGEST_HOUR"),
        ({"POLICY": "no.such.Policy"}, "hitl_django.E004", "POLICY"),
        ({"DISPATCH": "hitl_django.task_queue.dispatcher.Nothing"}, "hitl_django.E004", "DISPATCH"),
        ({"DISPATCH": 5}, "hitl_django.E004", "DISPATCH"),
        ({"LEASE_SECONDS": 10, "HEARTBEAT_SECONDS": 6}, "hitl_django.W006", "HEARTBEAT"),
    ],
)
def test_system_check_reports_harmful_hitl_setting(given: Any, id_: str, words: str) -> None:
    with override_settings(HITL=given):
        if isinstance(given, list):
            with pytest.raises(AttributeError):
                _ = hitl.LEASE_SECONDS
        said = found_alone("check_settings")
    assert words in said[id_]
    hitl.reload()


def found_alone(name: str) -> dict[str, str]:
    from hitl_django.checks import configuration as ours
    from hitl_django.checks import project

    check = getattr(ours, name, None) or getattr(project, name)
    return {str(one.id): one.msg for one in check(None)}


def test_get_graph_of_name_registered_for_two_factories_raises_value_error_naming_both(
    register: Callable[..., Any],
) -> None:
    def one() -> Any:
        return StateGraph(graphs.Log)

    def two() -> Any:
        return StateGraph(graphs.Log)

    register("twice", one)
    register("twice", one)
    assert registry.list_duplicates() == {}
    register("twice", two)
    with pytest.raises(ValueError, match=r"one.*two"):
        registry.get_graph("twice")
    assert "twice" in found()["hitl_django.E005"]


def test_system_check_of_queue_that_is_not_installed_names_the_extra(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name in [name for name in sys.modules if name.startswith("hitl_django.contrib.celery")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "celery", None)
    monkeypatch.delitem(sys.modules, "celery.signals", raising=False)
    with override_settings(HITL={"DISPATCH": "hitl_django.contrib.celery.Dispatcher"}):
        said = checks.run_checks(tags=["hitl_django"], databases=["default"])
    (error,) = [message for message in said if message.id == "hitl_django.E004"]
    assert error.hint == "Run: pip install 'hitl-django[celery]'"


def test_system_check_reports_graph_whose_factory_or_compile_fails(
    register: Callable[..., Any],
) -> None:
    def broken() -> Any:
        raise ZeroDivisionError("oh")

    register("broken", broken)
    assert "ZeroDivisionError: oh" in found()["hitl_django.E007"]
    register("edgeless", lambda: StateGraph(graphs.Log))
    assert "edgeless" in found()["hitl_django.E007"]
    register("returnless", lambda: None)
    assert "The factory must return a graph, not None." in found()["hitl_django.E007"]


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"redact": "iban"}, "redact must be a list of names, not the str 'iban'"),
        ({"pin": "no"}, "pin must be True or False, not 'no'"),
        ({"version": 1}, 'version must be a string such as "1", not 1'),
        ({"review": {"groups": ["support"]}}, "review must be a ReviewPolicy, not {'groups'"),
        ({"renamed": ["ask"]}, r"renamed must be a dict of new names by old names, not \['ask'\]"),
    ],
)
def test_registration_with_option_of_wrong_type_raises_type_error(
    register: Callable[..., Any], options: dict[str, Any], said: str
) -> None:
    with pytest.raises(TypeError, match=said):
        register("mistyped", graphs.steps, **options)
    assert registry.list_versions("mistyped") == []


def test_registration_without_name_raises_type_error() -> None:
    with pytest.raises(TypeError, match="The name must be a string"):
        registry.register(graphs.steps)  # type: ignore[arg-type]


def test_registration_with_version_longer_than_its_column_raises_value_error() -> None:
    with pytest.raises(ValueError, match="at most 50 printable characters"):
        registry.register("steps", version="1" * 51)


def test_failed_graph_factory_is_called_again_only_after_a_waiting_period(
    register: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    now, tried = [1000.0], list[float]()
    monkeypatch.setattr(registry, "monotonic", lambda: now[0])

    def frail() -> Any:
        tried.append(now[0])
        if len(tried) < 3:
            raise ConnectionError("the vault is away")
        return StateGraph(graphs.Log).add_node("a", lambda state: None).add_edge(START, "a")

    register("frail", frail)
    for _ in range(3):
        with pytest.raises(BrokenGraphError, match="ConnectionError: the vault is away"):
            registry.get_graph("frail")
        assert isinstance(registry.find_graph("frail"), registry.BrokenGraph)
    assert tried == [1000.0]
    now[0] += registry.REST
    assert isinstance(registry.find_graph("frail"), registry.BrokenGraph)
    assert tried == [1000.0, now[0]]
    register("frail", frail)  # by the operator who fixed the error
    assert registry.get_graph("frail").name == "frail"


def test_registered_graph_factory_is_called_once_at_first_use(register: Callable[..., Any]) -> None:
    built: list[int] = []

    def factory() -> Any:
        built.append(1)
        return graphs.steps()

    register("once", factory, version="2", title="Once")
    assert built == []
    first, again = registry.get_graph("once"), registry.get_graph("once")
    assert first is again
    assert (first.name, first.version, first.title, built) == ("once", "2", "Once", [1])
    assert "once" in registry.list_names()
    with pytest.raises(UnknownGraphError, match=r"'none'.*approval"):
        registry.get_graph("none")
    for bad in ("", "x" * 201, "a\nb", "a/b"):
        with pytest.raises(ValueError, match="printable"):
            registry.register(bad)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({}, "transaction_mode"),
        ({"transaction_mode": "IMMEDIATE", "init_command": "PRAGMA journal_mode=wal"}, "timeout"),
        ({"transaction_mode": "IMMEDIATE", "timeout": 20}, "WAL"),
    ],
)
def test_system_check_reports_sqlite_without_immediate_transactions_or_wal(
    options: Any, words: str
) -> None:
    connection = connections["default"]
    if connection.vendor != "sqlite":
        assert found_alone("check_sqlite") == {}
        return
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(connection.settings_dict, "OPTIONS", options)
        assert words in found_alone("check_sqlite")["hitl_django.W020"]


def test_system_check_reports_sqlite_older_than_required_version(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("sqlite3.sqlite_version_info", (3, 34, 1))
    old = connections["default"].vendor == "sqlite"
    assert ("hitl_django.E008" in found_alone("check_sqlite")) is old


@pytest.mark.parametrize(
    ("name", "value", "id_"),
    [
        ("TIMEOUT", None, "hitl_django.W011"),
        ("RETRY", 60, "hitl_django.W012"),
        ("SYNC", True, "hitl_django.W013"),
        ("ORM", "other", "hitl_django.W014"),
        ("SCHEDULER", False, "hitl_django.W015"),
        ("WORKERS", 1, "hitl_django.W016"),
    ],
)
def test_system_check_reports_harmful_django_q_setting(name: str, value: Any, id_: str) -> None:
    from django_q.conf import Conf

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Conf, name, value)
        assert list(found_alone("check_queue")) == [id_]


def test_system_check_reports_worker_cluster_named_like_the_cluster_of_the_project() -> None:
    with override_settings(HITL={"CLUSTER": "runs"}):
        assert found_alone("check_queue") == {}
    with override_settings(HITL={"CLUSTER": "hitl"}):  # the name in Q_CLUSTER
        assert list(found_alone("check_queue")) == ["hitl_django.W040"]


def test_system_check_reports_redis_broker_without_installed_redis_package(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    from django_q.conf import Conf

    monkeypatch.setattr(Conf, "ORM", None)
    monkeypatch.setattr(Conf, "BROKER_CLASS", None)
    assert found_alone("check_queue") == {}
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    assert list(found_alone("check_queue")) == ["hitl_django.E017"]


def test_system_check_reports_missing_q_cluster_setting() -> None:
    with override_settings(Q_CLUSTER={}):
        assert "hitl_django.W010" in found_alone("check_queue")


def test_system_check_reports_django_q_missing_in_installed_apps(settings: Any) -> None:
    settings.INSTALLED_APPS = [name for name in settings.INSTALLED_APPS if name != "django_q"]
    assert list(found_alone("check_queue")) == ["hitl_django.E018"]


class NoMethods:
    """Class that is neither a policy nor a queue."""


@pytest.mark.parametrize(("key", "method"), [("POLICY", "may_decide"), ("DISPATCH", "enqueue")])
def test_system_check_reports_policy_or_dispatcher_class_without_required_methods(
    key: str, method: str
) -> None:
    with override_settings(HITL={key: f"{__name__}.NoMethods"}):
        said = found_alone("check_settings")["hitl_django.E009"]
    assert key in said
    assert method in said


class NoEnqueue(Dispatcher):
    """Queue without a method for enqueueing."""


def test_system_check_names_enqueue_as_missing_method_of_dispatcher() -> None:
    with override_settings(HITL={"DISPATCH": f"{__name__}.NoEnqueue"}):
        assert "which lacks: enqueue." in found_alone("check_settings")["hitl_django.E009"]


@pytest.mark.parametrize(
    "given",
    [
        {"EVENT_MAX_BYTES": "16k"},
        {"EVENT_POLL_SECONDS": 0},
        {"SWEEP_BATCH": 2.5},
        {"PAGE_SIZE": 10.0},
        {"ADMIN_SHOW_ENGINE_MODELS": "no"},
    ],
)
def test_system_check_reports_each_setting_with_value_of_wrong_type(given: dict[str, Any]) -> None:
    (key,) = given
    with override_settings(HITL=given):
        assert key in found_alone("check_settings")["hitl_django.E003"]


@pytest.mark.parametrize("urls", ["bare", None])
def test_system_check_reports_root_urlconf_without_hitl_urls(urls: str | None) -> None:
    with override_settings(ROOT_URLCONF=urls and f"{__package__}.{urls}"):
        said = found_alone("check_addresses")
    assert list(said) == ["hitl_django.W023", "hitl_django.W024"]
    assert found_alone("check_addresses") == {}


def test_system_check_reports_custom_dispatcher_without_scheduled_sweep() -> None:
    with override_settings(HITL={"DISPATCH": "hitl_django.task_queue.dispatcher.InlineDispatcher"}):
        assert list(found_alone("check_queue")) == ["hitl_django.I025"]


def test_deploy_check_reports_process_local_cache_unless_throttling_is_off() -> None:
    shared = {"default": {"BACKEND": "django.core.cache.backends.filebased.FileBasedCache"}}
    assert "hitl_django.I026" not in found()
    assert "hitl_django.I026" in found(include_deployment_checks=True)
    unlimited = {f"THROTTLE_{name}": None for name in ("READ", "START", "DECIDE", "WRITE", "LINK")}
    with override_settings(HITL=unlimited):
        assert "hitl_django.I026" not in found(include_deployment_checks=True)
    with override_settings(CACHES=shared):
        assert "hitl_django.I026" not in found(include_deployment_checks=True)


@pytest.mark.parametrize("vendor", ["mysql", "oracle", "sqlite", "postgresql"])
def test_system_check_reports_unsupported_database_vendor(
    vendor: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connections["default"], "vendor", vendor)
    said = found_alone("check_databases")
    if vendor in ("sqlite", "postgresql"):
        assert said == {}
    else:
        assert vendor in said["hitl_django.E034"]


class Router:
    """Router that stores interrupts and runs in different databases."""

    def db_for_write(self, model: Any, **hints: Any) -> str | None:
        return "elsewhere" if model.__name__ == "Interrupt" else None


def test_system_check_reports_hitl_tables_routed_to_several_databases() -> None:
    with override_settings(DATABASE_ROUTERS=[f"{__name__}.Router"]):
        assert "Interrupt" in found_alone("check_databases")["hitl_django.E028"]
    assert found_alone("check_databases") == {}
