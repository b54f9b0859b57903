"""Arguments of the wrong type: usernames instead of users, names instead of lists of names."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from types import ModuleType
from typing import Any

import pytest
from django.contrib.auth.models import User

from hitl_django import ReviewPolicy, register, services
from hitl_django.contrib.archive import services as archive
from hitl_django.contrib.insights import exports, reports, spot_checks
from hitl_django.contrib.links import services as links
from hitl_django.contrib.schedules import services as schedules
from hitl_django.contrib.webhooks import services as webhooks
from hitl_django.errors import InvalidInputError
from hitl_django.models import Interrupt

#: Names of parameters that take a user.
USERS = {"by", "user", "to"}
#: Functions that look up an archived thread or a link first, and the condition of a query.
OTHERS = {"match_own", "restore_thread", "revoke_link"}
MODULES = [services, archive, exports, links, reports, schedules, spot_checks, webhooks]
PERIOD = services.Period(datetime(2026, 1, 1, tzinfo=UTC), datetime(2027, 1, 1, tzinfo=UTC))


def list_functions(module: ModuleType) -> Iterator[tuple[str, Any]]:
    names = getattr(module, "__all__", None) or [name for name in vars(module) if name[0] != "_"]
    for name, found in ((name, getattr(module, name)) for name in names):
        is_own = module is services or getattr(found, "__module__", "") == module.__name__
        is_async = inspect.iscoroutinefunction(found) or inspect.isasyncgenfunction(found)
        if is_own and inspect.isfunction(found) and not is_async and name not in OTHERS:
            yield name, found


def call(function: Callable[..., Any], arguments: dict[str, Any], **given: Any) -> None:
    """Call a function with the given arguments and with ``arguments`` for required parameters."""
    required = {
        name: arguments.get(name)
        for name, parameter in inspect.signature(function).parameters.items()
        if parameter.default is parameter.empty and parameter.kind is not parameter.VAR_KEYWORD
    }
    result = function(**(required | given))
    if inspect.isgenerator(result):
        next(result)


def test_service_with_username_instead_of_user_raises_type_error_naming_the_model(
    interrupt: Interrupt,
) -> None:
    arguments = {
        "interrupt_id": interrupt.pk, "interrupt": interrupt, "run_id": interrupt.run_id,
        "run_ids": [interrupt.run_id], "interrupt_ids": [interrupt.pk], "graph": "approval",
        "thread_id": interrupt.thread.thread_id, "input": {"text": "x"}, "payload": "x",
        "text": "x", "name": "x", "query": {"graph": "approval"}, "key": "x", "filter_id": 1,
        "act": int, "type": "approve", "timeout": 1, "state": "failed", "period": PERIOD,
        "expression": "0 7 * * *", "expires": timedelta(days=1), "url": "https://hooks.example",
    }  # fmt: skip
    raised, checked = {}, 0
    for module in MODULES:
        for name, function in list_functions(module):
            for parameter in USERS.intersection(inspect.signature(function).parameters):
                checked += 1
                given = {parameter: "joe"}
                if name in ("decide", "check_answer"):
                    given["type"] = "approve"
                try:
                    call(function, arguments, **given)
                except Exception as error:
                    raised[name, parameter] = f"{type(error).__name__}: {error}"
                else:
                    raised[name, parameter] = "no error"
    expected = "TypeError: The user must be an instance of auth.User, not 'joe'."
    assert {case: error for case, error in raised.items() if error != expected} == {}
    assert checked > 50


def test_start_and_ask_with_text_as_subject_raise_type_error() -> None:
    for function in (services.start, services.ask):
        with pytest.raises(TypeError, match="subject must be a model instance or a SubjectRef"):
            call(function, {"graph": "approval", "input": {}, "payload": "x"}, subject="order 7")


def test_start_with_unsaved_subject_raises_value_error() -> None:
    with pytest.raises(ValueError, match="has no primary key"):
        services.start("approval", {"text": "x"}, subject=User())


def test_assign_to_group_name_raises_type_error(interrupt: Interrupt) -> None:
    with pytest.raises(TypeError, match="group must be a Group, not 'support'"):
        services.assign(interrupt.pk, group="support")  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("name", "make"),
    [
        ("events", lambda: webhooks.create_webhook("https://hooks.example", events="run.failed")),
        ("graphs", lambda: webhooks.create_webhook("https://hooks.example", graphs="approval")),
        ("groups", lambda: ReviewPolicy(groups="support")),
        ("facts", lambda: ReviewPolicy(facts="amount")),
        ("redact", lambda: register("g", redact="iban")),
        ("startable_by", lambda: register("g", startable_by="support")),
        ("decisions", lambda: services.ask("x", decisions="approve")),
        ("editable", lambda: services.ask("x", editable="amount")),
        (
            "interrupt_before",
            lambda: services.start(
                "approval", {"text": "x"}, options=services.RunOptions(interrupt_before="publish")
            ),
        ),
    ],
)
@pytest.mark.django_db
def test_name_instead_of_list_of_names_raises_error_that_asks_for_a_list(
    name: str, make: Callable[[], object]
) -> None:
    with pytest.raises((TypeError, InvalidInputError), match=f"^{name} must be a list of"):
        make()


def test_link_for_decision_name_instead_of_list_raises_type_error(interrupt: Interrupt) -> None:
    with pytest.raises(TypeError, match="decisions must be a list of names"):
        links.create_review_link(interrupt.pk, name="Ann", decisions="approve")


@pytest.mark.parametrize("name", ["answers", "display", "forms", "titles"])
def test_review_policy_with_list_instead_of_dict_raises_type_error(name: str) -> None:
    with pytest.raises(TypeError, match=f"{name} must be a dict"):
        ReviewPolicy(**{name: ["x"]})


@pytest.mark.parametrize("name", ["no_self_approval", "claim_required"])
def test_review_policy_with_none_as_switch_raises_type_error(name: str) -> None:
    with pytest.raises(TypeError, match=f"{name} must be True or False, not None"):
        ReviewPolicy(**{name: None})


def test_service_with_object_instead_of_its_id_raises_type_error_that_asks_for_the_id(
    interrupt: Interrupt,
) -> None:
    run = services.start("approval", {"text": "x"})
    asked = services.ask("x")
    for function, given, name in (
        (services.cancel, run, "run"),
        (services.run_result, interrupt.run, "run"),
        (services.thread_state, run, "thread"),
        (services.withdraw, asked, "interrupt"),
        (services.find_undo, asked, "interrupt"),
    ):
        with pytest.raises(TypeError, match=f"Pass the id of the {name}, not the"):
            call(function, {}, **{next(iter(inspect.signature(function).parameters)): given})


@pytest.mark.parametrize(
    ("function", "given", "said"),
    [
        (services.comment, {"text": 5}, "Expected a str, not 5"),
        (services.decide, {"type": "approve", "reason": None}, "Expected a str, not None"),
        (services.start_and_wait, {"timeout": timedelta(1)}, "timeout must be a number of seconds"),
        (services.start, {"options": {"tags": []}}, "options must be RunOptions"),
        (services.create_thread, {"if_exists": "raise"}, "if_exists must be 'refuse' or 'keep'"),
        (services.change_metadata, {"metadata": "x"}, "The metadata must be a dict"),
        (services.retry_all, {"run_ids": "abc"}, "run_ids must be a list of ids"),
        (services.find_refusals, {"interrupt_ids": "abc"}, "interrupt_ids must be a list of ids"),
        (schedules.create_schedule, {"ends_at": "2027"}, "Expected a datetime, not '2027'"),
    ],
)
def test_service_with_value_of_wrong_type_raises_error_that_names_the_expected_type(
    function: Callable[..., Any], given: dict[str, Any], said: str, interrupt: Interrupt
) -> None:
    arguments = {
        "interrupt_id": interrupt.pk, "thread_id": interrupt.thread.thread_id, "graph": "approval",
        "input": {"text": "x"}, "expression": "0 7 * * *", "type": "approve",
    }  # fmt: skip
    with pytest.raises((TypeError, ValueError, InvalidInputError), match=said):
        call(function, arguments, **given)
