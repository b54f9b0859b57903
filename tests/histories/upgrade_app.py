"""Takes a database with the example app of an earlier version to this one, and uses the app.

    DATABASE_URL=… python -m tests.histories.upgrade_app NAME

The database is an empty one. The app stays as version NAME saved it.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import suppress
from datetime import timedelta
from io import StringIO
from pathlib import Path
from typing import Any

from . import example_app
from .upgrade import SCHEMAS, finish_threads, read_rows, write_rows

QUEUE = "/admin/hitl_django/reviewitem/"


def main(name: str) -> None:
    os.environ["DJANGO_SETTINGS_MODULE"] = "tests.histories.settings"
    saved = example_app.read(name)
    with tempfile.TemporaryDirectory() as folder:
        example_app.install(saved["files"], Path(folder))
        sys.path.insert(0, folder)
        import django

        django.setup()
        upgrade(name, saved["rows"])
        print(json.dumps(dict(use_app())))


def upgrade(name: str, rows: list[dict[str, Any]]) -> None:
    """Store the rows of a version in its schema, and migrate to this version's and the next."""
    from django.core.management import call_command
    from django.db.migrations.recorder import MigrationRecorder

    call_command("migrate", "hitl_django", SCHEMAS[name], verbosity=0)
    call_command("migrate", example_app.PACKAGE, verbosity=0)
    of_the_app = MigrationRecorder.Migration.objects.filter(app=example_app.PACKAGE)
    own = [
        (example_app.PACKAGE, migration) for migration in of_the_app.values_list("name", flat=True)
    ]
    write_rows([*read_rows(name), *rows], ("hitl_django", SCHEMAS[name]), max(own))
    call_command("migrate", verbosity=0)
    rebuild_tables()


def rebuild_tables() -> None:
    """Add a column to the table of interrupts and remove it, as a later version may.

    On SQLite, Django then copies the table, to which the app's table refers.
    """
    from django.db import connection, migrations, models
    from django.db.migrations.loader import MigrationLoader

    add = migrations.AddField("interrupt", "sample", models.TextField(null=True))
    sample = migrations.Migration("9999_sample", "hitl_django")
    sample.operations = [add, migrations.RemoveField("interrupt", "sample")]
    state = MigrationLoader(connection).project_state()
    with connection.schema_editor(atomic=True) as editor:
        sample.apply(state, editor)


def call(*arguments: str) -> str:
    from django.core.management import CommandError, call_command

    output = StringIO()
    # Without a worker, doctor fails.
    with suppress(CommandError):
        call_command("hitl", *arguments, stdout=output)
    return output.getvalue()


def use_app() -> Iterator[tuple[str, Any]]:
    """Yield a fact about each addition of the app, by name."""
    from django.apps import apps
    from django.core.management import call_command

    rating = apps.get_model(example_app.PACKAGE, "Rating")
    call_command("check", fail_level="WARNING")
    call_command("makemigrations", example_app.PACKAGE, check=True, dry_run=True, verbosity=0)
    ratings = rating.objects.order_by("pk")
    yield "rows", [*ratings.values_list("interrupt__thread__thread_id", "stars", "remark")]
    yield "verb", call("ratings", "--stars", "4").split()[1:]
    yield from use_pages(rating)
    yield from use_registrations(rating)
    yield "threads", finish_threads()
    yield from use_data_protection(rating)
    rating.objects.all().delete()
    yield "doctor", "Nobody has rated an interrupt." in call("doctor")


def use_pages(rating: Any) -> Iterator[tuple[str, Any]]:
    from django.contrib.auth.models import User
    from django.test import Client

    client = Client()
    client.force_login(User.objects.create_superuser("root"))
    yield "API", [each["stars"] for each in client.get("/hitl/api/v1/ratings/").json()]
    yield "API without a user", Client().get("/hitl/api/v1/ratings/").status_code
    yield "page", client.get("/hitl/ratings/").content.decode()
    yield "page of the admin", client.get("/admin/ratings/rating/").status_code
    for name, url in (("queue", QUEUE), ("decisions", "/admin/hitl_django/decision/")):
        yield f"link in {name}", "All ratings" in client.get(url).content.decode()

    key = rating.objects.get(interrupt__thread__thread_id="paused").interrupt_id
    shown = client.get(f"{QUEUE}{key}/change/").content.decode()
    button = f'formaction="{QUEUE}{key}/handling/" name="verb" value="ratings.rate"'
    yield "panel", "Ratings (1)" in shown and button in shown
    given = {"verb": "ratings.rate", "ratings-stars": "6"}
    refused = client.post(f"{QUEUE}{key}/handling/", given)
    yield "panel with an error", "At most 5 stars" in refused.content.decode()
    accepted = client.post(f"{QUEUE}{key}/handling/", {**given, "ratings-stars": "5"})
    stars = rating.objects.filter(rater_label="root").values_list("stars", flat=True)
    yield "panel with a rating", [accepted.status_code, *stars]


def use_registrations(rating: Any) -> Iterator[tuple[str, Any]]:
    from django.contrib.auth.models import User
    from django.core.management import call_command
    from django.core.management.base import SystemCheckError
    from django.test import override_settings

    from hitl_django import services
    from hitl_django.admin.display.history_display import describe_entry
    from hitl_django.contrib.webhooks.messages import list_events
    from hitl_django.events import list_labels
    from hitl_django.extensions import Event, Extension, register
    from hitl_django.models import AuditEntry
    from hitl_django.worker.sweeper import sweep

    yield "audit verb", describe_entry(AuditEntry(verb="rate", detail={}))
    yield "event", [str(list_labels()["rating.requested"]), "rating.requested" in list_events()]
    with override_settings(HITL={"RATING_MAX_STARS": 0}):
        try:
            call_command("check")
        except SystemCheckError as error:
            yield "setting", "HITL['RATING_MAX_STARS'] must be a positive number" in str(error)

    found: list[Event] = []
    observe: Callable[[Any, Event], object] = lambda batch, event: found.append(event)  # noqa: E731
    register(Extension(name="observer", subscribers=[observe]))
    asked = rating.objects.get(interrupt__thread__thread_id="paused", rater_label="rita")
    with override_settings(HITL={"DISPATCH": "hitl_django.task_queue.dispatcher.InlineDispatcher"}):
        services.assign(asked.interrupt_id, to=User.objects.get(username="root"))
    yield "subscriber", sorted(event.name for event in found)
    empty = rating.objects.filter(stars=0)
    yield "task", [*empty.values_list("remark", flat=True)]
    sweep()
    yield "sweep", [empty.count(), rating.objects.count()]


def use_data_protection(rating: Any) -> Iterator[tuple[str, Any]]:
    """Export, archive, pseudonymize and erase rows of the app."""
    from django.contrib.auth.models import User
    from django.utils import timezone

    from hitl_django import services
    from hitl_django.contrib.archive.retention import archive_ended
    from hitl_django.contrib.archive.services import restore_thread
    from hitl_django.models import Run, Thread

    rita = User.objects.get(username="rita")
    exported = [each for each in services.export_person(rita) if each.table == "ratings.Rating"]
    yield "exported", [[each.thread_id, each.row["stars"]] for each in exported]

    before = [*rating.objects.order_by("pk").values()]
    at = timezone.now() - timedelta(days=100)
    finished = Thread.objects.filter(thread_id__in=["finished", "paused"])
    Run.objects.filter(thread__in=finished).update(finished_at=at)
    finished.update(ended_at=at)
    archived = [archive_ended(30, 10), rating.objects.count()]
    for thread_id in ("finished", "paused"):
        restore_thread(thread_id)
    yield "archived", [*archived, [*rating.objects.order_by("pk").values()] == before]

    done = services.pseudonymize_user(rita)
    labels = rating.objects.exclude(rater_label="root").values_list("rater", "rater_label")
    yield "pseudonymized", [row == (None, done.pseudonym) for row in labels]
    services.erase_thread("finished")
    yield "erased", [*rating.objects.order_by("pk").values_list("stars", "remark")]


if __name__ == "__main__":
    main(sys.argv[1])
