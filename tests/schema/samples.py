"""Migrations that follow the rules, and migrations that break them."""

from __future__ import annotations

from typing import Any

from django.db import migrations, models
from django.db.migrations import Migration

from hitl_django.migrations._concurrently import AddIndexConcurrently

LABEL = "hitl_django"
INDEX = models.Index(fields=["graph"], name="hitl_sample")


class BuildOnce(migrations.AddIndex):
    """Migration operation that builds an index concurrently, and fails if an index of the same name
    exists.
    """

    def database_forwards(
        self, app_label: str, schema_editor: Any, from_state: Any, to_state: Any
    ) -> None:
        model = to_state.apps.get_model(app_label, self.model_name)
        how = {"concurrently": True} if schema_editor.connection.vendor == "postgresql" else {}
        schema_editor.add_index(model, self.index, **how)


def migration(*operations: Any, atomic: bool = True) -> Any:
    return type("Sample", (Migration,), {"operations": operations, "atomic": atomic})


add_column = migrations.AddField("thread", "sample", models.TextField(null=True, db_default=None))

#: A new choice of a column, which the old constraint rejects after the migration is reversed.
add_choice = (
    migrations.AlterField(
        "interrupt",
        "status",
        models.CharField(max_length=20, choices=[("pending", ""), ("decided", ""), ("new", "")]),
    ),
    migrations.RemoveConstraint("interrupt", "hitl_interrupt_status"),
    migrations.AddConstraint(
        "interrupt",
        models.CheckConstraint(
            condition=models.Q(
                status__in=["pending", "decided", "expired", "superseded", "cancelled", "new"]
            ),
            name="hitl_interrupt_status",
        ),
    ),
)

GOOD: dict[str, Any] = {
    "column": migration(add_column),
    "index": migration(AddIndexConcurrently("thread", INDEX), atomic=False),
}

#: Migrations, and the beginning of a fault that must be found on each database.
BAD: dict[str, tuple[Any, str]] = {
    "column and index": (
        migration(add_column, AddIndexConcurrently("thread", INDEX), atomic=False),
        "killed",
    ),
    "index built once": (
        migration(BuildOnce("thread", INDEX), atomic=False),
        "killed after 'CREATE INDEX",
    ),
    "column without a default": (
        migration(
            migrations.AddField(
                "thread", "sample", models.TextField(default=""), preserve_default=False
            )
        ),
        "applied with a writer: the old code can't store",
    ),
    "choice that can't be reversed": (migration(*add_choice), "reversed: IntegrityError"),
    "several operations, each by itself": (
        migration(add_column, *add_choice, atomic=False),
        "not atomic, with 4 operations",
    ),
    "reversed by halves": (
        migration(*add_choice, atomic=False),
        "reversed: half of it is done",
    ),
}
