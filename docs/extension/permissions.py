"""Reference of the Django permissions, from the models and the policy's checks."""

from __future__ import annotations

import inspect
from collections import defaultdict
from collections.abc import Iterator
from typing import Any

from django.apps import apps

from . import markdown, sources


class Recorder:
    """A user without permissions that records the requested ones."""

    pk, is_active, is_superuser = 0, True, False

    def __init__(self) -> None:
        self.checked: list[str] = []

    def has_perm(self, name: str) -> bool:
        self.checked.append(name)
        return False


def interrupts_of_the_policy() -> dict[str, list[str]]:
    """Return the policy methods that check each permission, with their docstrings, by codename."""
    found = defaultdict(list)
    policy = sources.load(sources.POLICY)
    for name, method in inspect.getmembers(policy, inspect.isfunction):
        if not name.startswith("_"):
            user = Recorder()
            method(policy(), user, *_make_arguments(method), **_make_keyword_arguments(method))
            summary = (inspect.getdoc(method) or "").partition("\n\n")[0]
            for permission in user.checked:
                app, _, codename = permission.partition(".")
                if app == "hitl_django":
                    found[codename].append(f"{markdown.code(name)}: {summary}")
    return dict(found)


def _make_arguments(method: Any) -> Iterator[Any]:
    thread = sources.load(sources.THREAD)()
    run = sources.load(sources.RUN)(thread=thread)
    interrupt = sources.load(sources.INTERRUPT)(graph="refund", run=run, thread=thread)
    things = {
        "thread": thread,
        "run": run,
        "interrupt": interrupt,
        "decision": sources.load(sources.DECISION)(interrupt=interrupt),
        "graph": "refund",
        "permission": "app.codename",
        "namespace": ("users",),
    }
    parameters = inspect.signature(method).parameters
    for name in [name for name, each in parameters.items() if each.kind != each.KEYWORD_ONLY][2:]:
        if name in things:
            yield things[name]
        else:  # a queryset that the user can view only partly
            yield _make_queryset(name)


def _make_keyword_arguments(method: Any) -> dict[str, Any]:
    parameters = inspect.signature(method).parameters.values()
    return {each.name: False for each in parameters if each.kind == each.KEYWORD_ONLY}


def _make_queryset(name: str) -> Any:
    model = {
        "threads": sources.THREAD,
        "runs": sources.RUN,
        "interrupts": sources.INTERRUPT,
        "rows": "django.contrib.auth.models.Group",  # any model of an optional app
        "subjects": "django.contrib.auth.models.Group",  # any model of the project
    }[name]
    return sources.load(model).objects.all()


def labels() -> dict[str, str]:
    """Return the permissions declared by models, in addition to Django's four."""
    return {
        codename: str(label)
        for model in apps.get_app_config("hitl_django").get_models()
        for codename, label in model._meta.permissions
    }


def labels_of_optional_apps() -> dict[str, str]:
    """Return the permissions declared by models of optional apps, with the apps' labels."""
    return {
        f"{config.label}.{codename}": str(label)
        for config in apps.get_app_configs()
        if config.name.startswith("hitl_django.contrib.")
        for model in config.get_models()
        for codename, label in model._meta.permissions
    }


def page() -> str:
    """Return each permission with a description."""
    declared, checked = labels(), interrupts_of_the_policy()
    if unused := declared.keys() - checked.keys():
        raise LookupError(f"Permissions that the policy never asks for: {sorted(unused)}")
    return markdown.table(
        ["permission", "label", "methods of the policy that check it"],
        [
            *(
                [
                    markdown.code(f"hitl_django.{codename}"),
                    declared.get(codename, "(Django's default)"),
                    markdown.from_docstring(" ".join(checked[codename])),
                ]
                for codename in sorted(checked)
            ),
            *(
                [markdown.code(name), label, "`has_permission`, if the app is installed"]
                for name, label in sorted(labels_of_optional_apps().items())
            ),
        ],
    )
