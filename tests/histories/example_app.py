"""The example app as a release saved it, and the interface for apps of other packages.

    apps/NAME.json   the app's files, its rows in the database of NAME, and the interface of NAME

The app in ``tests/extensions/ratings`` follows the code. The saved one doesn't: it is an app that
was written for an earlier release. Until NAME is released, ``python -m tests.histories NAME`` may
save it again.
"""

from __future__ import annotations

import inspect
import json
from collections.abc import Iterator, Mapping
from dataclasses import fields, is_dataclass
from enum import EnumType
from pathlib import Path
from typing import Any

from docs.extension import sources

HERE = Path(__file__).resolve().parent
SAVED = HERE / "apps"
SOURCE = HERE.parent / "extensions" / "ratings"
#: The name of the saved app's package, and the label of its models.
PACKAGE = "ratings"
#: Classes from which an app derives. A derived class fails if an overridden method gets new
#: arguments.
DERIVED = ("hitl_django.admin.panels.Panel", "hitl_django.extensions.Archive")

OPTIONAL = " = ..."

Interface = Mapping[str, Mapping[str, Any]]


def read(name: str) -> dict[str, Any]:
    saved: dict[str, Any] = json.loads((SAVED / f"{name}.json").read_text())
    return saved


def save(name: str) -> None:
    """Save the app, the interface, and rows of the app for the threads in the database."""
    from django.apps import apps
    from django.contrib.auth.models import User
    from django.core import serializers

    from hitl_django.models import Interrupt

    Rating = apps.get_model("ratings", "Rating")
    rita = User.objects.create_user("rita", is_staff=True)
    for thread, stars in (("paused", 2), ("finished", 4)):
        rated = Interrupt.objects.get(thread__thread_id=thread, title="First?")
        remark = f"The thread is {thread}."
        Rating.objects.create(
            interrupt=rated, stars=stars, remark=remark, rater=rita, rater_label="rita"
        )
    rows = json.loads(serializers.serialize("json", [rita, *Rating.objects.order_by("pk")]))
    saved = {"files": read_files(), "rows": rows, "interface": describe_interface()}
    (SAVED / f"{name}.json").write_text(json.dumps(saved, indent=1) + "\n")


def read_files() -> dict[str, list[str]]:
    """Return the lines of the app's files, without its tests."""
    return {
        str(path.relative_to(SOURCE)): path.read_text().split("\n")
        for path in sorted(SOURCE.rglob("*"))
        if path.suffix in {".py", ".html"} and not path.name.startswith("test_")
    }


def install(files: Mapping[str, list[str]], folder: Path) -> None:
    """Write the package of the app into a folder."""
    for name, lines in files.items():
        path = folder / PACKAGE / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("\n".join(lines))


def describe_interface() -> dict[str, dict[str, Any]]:
    """Return parameters, fields and choices of each name for apps of other packages."""
    found = {}
    for path, members in sources.EXTENSIONS.items():
        value = sources.load(path)
        found[path] = describe(value)
        for member in members:
            if hasattr(value, member) or member in value.__annotations__:
                found[f"{path}.{member}"] = describe(getattr(value, member, None))
    return found


def describe(value: Any) -> dict[str, Any]:
    if isinstance(value, EnumType):
        return {"choices": [each.value for each in value]}
    if not callable(value):
        return {}
    parameters = {
        name: each.kind.name if each.default is each.empty else f"{each.kind.name}{OPTIONAL}"
        for name, each in inspect.signature(value).parameters.items()
        if name != "self"
    }
    if not is_dataclass(value):
        return {"parameters": parameters}
    # The type of a field determines the arguments of the app's functions.
    called = {each.name: str(each.type) for each in fields(value) if "Callable" in str(each.type)}
    return {"parameters": parameters, "callables": called}


def find_breaks(saved: Interface, current: Interface) -> Iterator[str]:
    """Yield each change that an app written for the saved interface may not survive."""
    for path, before in saved.items():
        if path not in current:
            yield f"{path}: removed"
            continue
        after = current[path]
        if missing := {*before.get("choices", ())} - {*after.get("choices", ())}:
            yield f"{path}: without {', '.join(sorted(missing))}"
        for name, type_ in before.get("callables", {}).items():
            if after.get("callables", {}).get(name) != type_:
                yield f"{path}: {name} is called differently"
        yield from find_changed_parameters(
            path, before.get("parameters", {}), after.get("parameters", {})
        )


def find_changed_parameters(
    path: str, before: Mapping[str, Any], after: Mapping[str, Any]
) -> Iterator[str]:
    added = [name for name in after if name not in before]
    if path.rpartition(".")[0] in DERIVED:
        yield from (f"{path}: {name} is added" for name in added)
    else:
        required = [name for name in added if not after[name].endswith((OPTIONAL, "VAR_KEYWORD"))]
        yield from (f"{path}: {name} is required" for name in required)
    for name, kind in before.items():
        if name not in after:
            yield f"{path}: {name} is removed"
        elif after[name] not in {kind, f"{kind}{OPTIONAL}"}:
            yield f"{path}: {name} is changed"
    positional = [name for name, kind in before.items() if kind.startswith("POSITIONAL")]
    if [*after][: len(positional)] != positional and not {*positional} - {*after}:
        yield f"{path}: the order of parameters is changed"
