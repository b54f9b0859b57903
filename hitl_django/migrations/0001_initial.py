from __future__ import annotations

import django.db.models.deletion
import django.db.models.functions.datetime
import django.db.models.lookups
import django.db.models.manager
from django.conf import settings
from django.db import migrations, models

import hitl_django.engine.ids
import hitl_django.models.fields
import hitl_django.models.search


class Migration(migrations.Migration):
    initial = True

    dependencies = [
        ("auth", "0012_alter_user_first_name_max_length"),
        ("contenttypes", "0002_remove_content_type_name"),
        migrations.swappable_dependency(settings.AUTH_USER_MODEL),
    ]

    operations = [
        migrations.CreateModel(
            name="GraphShape",
            fields=[
                ("fingerprint", models.CharField(max_length=32, primary_key=True, serialize=False)),
                ("graph", models.CharField(max_length=200, verbose_name="graph")),
                ("version", models.CharField(blank=True, max_length=50, verbose_name="version")),
                ("shape", hitl_django.models.fields.JSONTextField()),
                (
                    "created_at",
                    models.DateTimeField(
                        db_default=django.db.models.functions.datetime.Now(),
                        editable=False,
                        verbose_name="created",
                    ),
                ),
            ],
            options={
                "verbose_name": "graph structure",
                "verbose_name_plural": "graph structures",
            },
        ),
        migrations.CreateModel(
            name="WorkerHeartbeat",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("owner", models.CharField(max_length=255, unique=True)),
                ("host", models.CharField(max_length=255, verbose_name="host")),
                ("pid", models.PositiveBigIntegerField(verbose_name="process")),
                ("version", models.CharField(max_length=50, verbose_name="version")),
                (
                    "at",
                    models.DateTimeField(
                        db_default=django.db.models.functions.datetime.Now(),
                        editable=False,
                        verbose_name="last seen",
                    ),
                ),
            ],
            options={
                "verbose_name": "worker",
                "verbose_name_plural": "workers",
                "ordering": ["-at"],
            },
        ),
        migrations.CreateModel(
            name="IdempotencyRecord",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                (
                    "user",
                    models.ForeignKey(
                        db_index=False,
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="+",
                        to=settings.AUTH_USER_MODEL,
                        verbose_name="user",
                    ),
                ),
                ("key", models.CharField(max_length=255, verbose_name="idempotency key")),
                ("digest", models.CharField(max_length=32)),
                ("outcome", models.CharField(blank=True, max_length=64)),
                (
                    "created_at",
                    models.DateTimeField(
                        db_default=django.db.models.functions.datetime.Now(),
                        db_index=True,
                        editable=False,
                    ),
                ),
            ],
            options={
                "verbose_name": "idempotency record",
                "verbose_name_plural": "idempotency records",
                "default_permissions": (),
                "constraints": [
                    models.UniqueConstraint(fields=("user", "key"), name="hitl_keyed_request")
                ],
            },
        ),
        migrations.CreateModel(
            name="SavedFilter",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                (
                    "owner",
                    models.ForeignKey(
                        db_index=False,
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="+",
                        to=settings.AUTH_USER_MODEL,
                        verbose_name="owner",
                    ),
                ),
                ("name", models.CharField(max_length=60, verbose_name="name")),
                ("query", hitl_django.models.fields.JSONTextField(default=dict)),
                ("shared", models.BooleanField(default=False, verbose_name="shared")),
                (
                    "created_at",
                    models.DateTimeField(
                        db_default=django.db.models.functions.datetime.Now(), editable=False
                    ),
                ),
            ],
            options={
                "verbose_name": "saved filter",
                "verbose_name_plural": "saved filters",
                "ordering": ["name", "id"],
                "permissions": [
                    ("share_savedfilter", "Can share saved filters and delete those of others")
                ],
                "indexes": [
                    models.Index(
                        condition=models.Q(("shared", True)),
                        fields=["name"],
                        name="hitl_saved_filter_shared",
                    )
                ],
                "constraints": [
                    models.UniqueConstraint(fields=("owner", "name"), name="hitl_saved_filter_name")
                ],
            },
        ),
        migrations.CreateModel(
            name="Thread",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                (
                    "thread_id",
                    models.CharField(max_length=255, unique=True, verbose_name="thread id"),
                ),
                ("graph", models.CharField(blank=True, max_length=200, verbose_name="graph")),
                (
                    "subject_type",
                    models.ForeignKey(
                        blank=True,
                        db_index=False,
                        null=True,
                        on_delete=django.db.models.deletion.SET_NULL,
                        related_name="+",
                        to="contenttypes.contenttype",
                    ),
                ),
                ("subject_id", models.CharField(blank=True, max_length=255)),
                (
                    "metadata",
                    hitl_django.models.fields.JSONTextField(
                        blank=True, default=dict, verbose_name="metadata"
                    ),
                ),
                ("epoch", models.BigIntegerField(default=0)),
                ("lease_owner", models.CharField(blank=True, max_length=255)),
                ("lease_until", models.DateTimeField(blank=True, null=True)),
                ("attempts", models.PositiveIntegerField(default=0)),
                ("has_interrupts", models.BooleanField(default=False)),
                ("ended_at", models.DateTimeField(db_default=None, editable=False, null=True)),
                ("has_waiting", models.BooleanField(db_default=False, editable=False)),
                ("restored_at", models.DateTimeField(db_default=None, editable=False, null=True)),
                ("audit_seq", models.PositiveIntegerField(default=0)),
                ("audit_hash", models.CharField(blank=True, max_length=64)),
                (
                    "created_at",
                    models.DateTimeField(
                        db_default=django.db.models.functions.datetime.Now(),
                        editable=False,
                        verbose_name="created",
                    ),
                ),
            ],
            options={
                "verbose_name": "thread",
                "verbose_name_plural": "threads",
                "permissions": [("view_thread_state", "Can view a thread's state")],
                "indexes": [
                    models.Index(
                        condition=models.Q(("subject_type__isnull", False)),
                        fields=["subject_type", "subject_id"],
                        name="hitl_thread_about",
                    ),
                    models.Index(
                        condition=models.Q(("ended_at__isnull", False)),
                        fields=["ended_at", "id"],
                        name="hitl_thread_ended",
                    ),
                    models.Index(
                        condition=models.Q(("ended_at__isnull", False)),
                        fields=["graph", "ended_at", "id"],
                        name="hitl_thread_graph_ended",
                    ),
                    models.Index(
                        condition=models.Q(("ended_at__isnull", False), ("has_waiting", True)),
                        fields=["ended_at"],
                        name="hitl_thread_next",
                    ),
                ],
            },
        ),
        migrations.CreateModel(
            name="Run",
            fields=[
                (
                    "id",
                    models.UUIDField(
                        default=hitl_django.engine.ids.new_id,
                        editable=False,
                        primary_key=True,
                        serialize=False,
                    ),
                ),
                (
                    "thread",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="runs",
                        to="hitl_django.thread",
                        verbose_name="thread",
                    ),
                ),
                ("number", models.PositiveIntegerField(db_default=1, default=1, editable=False)),
                ("graph", models.CharField(max_length=200, verbose_name="graph")),
                (
                    "graph_version",
                    models.CharField(blank=True, max_length=50, verbose_name="version"),
                ),
                ("fingerprint", models.CharField(blank=True, max_length=32)),
                (
                    "key",
                    models.CharField(
                        blank=True, max_length=255, null=True, verbose_name="idempotency key"
                    ),
                ),
                ("input_digest", models.CharField(blank=True, max_length=64)),
                (
                    "state",
                    models.CharField(
                        choices=[
                            ("waiting", "waiting for earlier runs"),
                            ("queued", "queued"),
                            ("running", "running"),
                            ("interrupted", "waiting for review"),
                            ("succeeded", "succeeded"),
                            ("failed", "failed"),
                            ("parked", "parked"),
                            ("cancelled", "cancelled"),
                        ],
                        default="queued",
                        max_length=20,
                        verbose_name="state",
                    ),
                ),
                ("step", models.IntegerField(default=-1, verbose_name="step")),
                ("events", models.CharField(blank=True, max_length=100)),
                ("last_event", models.PositiveIntegerField(default=0)),
                ("first_event", models.PositiveIntegerField(default=1)),
                ("input", models.TextField(db_default=None, editable=False, null=True)),
                (
                    "options",
                    hitl_django.models.fields.JSONTextField(blank=True, editable=False, null=True),
                ),
                ("error", models.TextField(blank=True, verbose_name="error")),
                ("traceback", models.TextField(blank=True, verbose_name="traceback")),
                (
                    "started_by",
                    models.ForeignKey(
                        blank=True,
                        db_index=False,
                        null=True,
                        on_delete=django.db.models.deletion.SET_NULL,
                        related_name="+",
                        to=settings.AUTH_USER_MODEL,
                        verbose_name="started by",
                    ),
                ),
                (
                    "started_by_label",
                    models.CharField(blank=True, max_length=255, verbose_name="started by"),
                ),
                ("origin", models.UUIDField(db_default=None, editable=False, null=True)),
                (
                    "created_at",
                    models.DateTimeField(
                        db_default=django.db.models.functions.datetime.Now(),
                        editable=False,
                        verbose_name="created",
                    ),
                ),
                (
                    "queued_at",
                    models.DateTimeField(
                        db_default=django.db.models.functions.datetime.Now(),
                        editable=False,
                        verbose_name="queued",
                    ),
                ),
                (
                    "last_message_at",
                    models.DateTimeField(
                        db_default=django.db.models.functions.datetime.Now(), editable=False
                    ),
                ),
                (
                    "resumes_at",
                    models.DateTimeField(
                        db_default=None, editable=False, null=True, verbose_name="resumes at"
                    ),
                ),
                (
                    "finished_at",
                    models.DateTimeField(blank=True, null=True, verbose_name="finished"),
                ),
            ],
            options={
                "verbose_name": "run",
                "verbose_name_plural": "runs",
                "ordering": ["-created_at", "-id"],
                "permissions": [
                    ("start_run", "Can start a run"),
                    ("operate_run", "Can retry and cancel runs and see their errors"),
                ],
                "indexes": [
                    models.Index(
                        condition=models.Q(("state__in", ["queued", "running"])),
                        fields=["last_message_at"],
                        name="hitl_run_due",
                    ),
                    models.Index(
                        condition=models.Q(("state", "queued")),
                        fields=["graph", "queued_at"],
                        name="hitl_run_queued",
                    ),
                    models.Index(
                        condition=models.Q(("resumes_at__isnull", False)),
                        fields=["resumes_at"],
                        name="hitl_run_resumes",
                    ),
                    models.Index(fields=["-created_at", "-id"], name="hitl_run_newest"),
                    models.Index(
                        condition=models.Q(("state__in", ["failed", "parked"])),
                        fields=["state", "-created_at", "-id"],
                        name="hitl_run_stuck",
                    ),
                    models.Index(
                        condition=models.Q(("finished_at__isnull", False)),
                        fields=["finished_at", "state"],
                        name="hitl_run_ended",
                    ),
                    models.Index(fields=["fingerprint"], name="hitl_run_shape"),
                    models.Index(
                        condition=models.Q(("started_by__isnull", False)),
                        fields=["started_by"],
                        name="hitl_run_starter",
                    ),
                    models.Index(
                        condition=models.Q(
                            ("finished_at__isnull", False),
                            ("first_event__lte", models.F("last_event")),
                        ),
                        fields=["finished_at"],
                        name="hitl_run_told",
                    ),
                ],
                "constraints": [
                    models.UniqueConstraint(fields=("graph", "key"), name="hitl_run_key"),
                    models.UniqueConstraint(
                        condition=models.Q(
                            ("state__in", ["queued", "running", "interrupted", "parked"])
                        ),
                        fields=("thread",),
                        name="hitl_one_live_run_per_thread",
                    ),
                    models.CheckConstraint(
                        condition=models.Q(
                            (
                                "state__in",
                                [
                                    "waiting",
                                    "queued",
                                    "running",
                                    "interrupted",
                                    "succeeded",
                                    "failed",
                                    "parked",
                                    "cancelled",
                                ],
                            )
                        ),
                        name="hitl_run_state",
                    ),
                ],
            },
        ),
        migrations.CreateModel(
            name="Interrupt",
            fields=[
                (
                    "id",
                    models.UUIDField(
                        default=hitl_django.engine.ids.new_id,
                        editable=False,
                        primary_key=True,
                        serialize=False,
                    ),
                ),
                (
                    "thread",
                    models.ForeignKey(
                        db_index=False,
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="interrupts",
                        to="hitl_django.thread",
                    ),
                ),
                (
                    "run",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="interrupts",
                        to="hitl_django.run",
                        verbose_name="run",
                    ),
                ),
                ("interrupt_id", models.CharField(max_length=32)),
                (
                    "kind",
                    models.CharField(
                        choices=[("interrupt", "request"), ("breakpoint", "breakpoint")],
                        default="interrupt",
                        max_length=20,
                    ),
                ),
                ("graph", models.CharField(max_length=200, verbose_name="graph")),
                ("node", models.CharField(max_length=255, verbose_name="node")),
                ("checkpoint_ns", models.TextField(blank=True)),
                ("checkpoint_id", models.CharField(max_length=36)),
                ("task_id", models.CharField(max_length=36)),
                ("task_path", models.TextField(blank=True)),
                ("index", models.PositiveIntegerField(default=0)),
                ("key", models.TextField(blank=True, null=True)),
                ("title", models.CharField(max_length=300, verbose_name="request")),
                ("why", models.TextField(blank=True, verbose_name="reason")),
                ("payload", hitl_django.models.fields.JSONTextField(verbose_name="payload")),
                ("payload_digest", models.CharField(max_length=32)),
                (
                    "payload_formats",
                    hitl_django.models.fields.JSONTextField(blank=True, editable=False, null=True),
                ),
                ("search_text", models.TextField(blank=True, editable=False, null=True)),
                ("search_grams", models.TextField(blank=True, editable=False, null=True)),
                (
                    "response_schema",
                    hitl_django.models.fields.JSONTextField(
                        blank=True, null=True, verbose_name="response schema"
                    ),
                ),
                ("dialect", models.CharField(default="raw", max_length=20)),
                (
                    "allowed_decisions",
                    hitl_django.models.fields.JSONTextField(default=list, verbose_name="decisions"),
                ),
                ("editable", hitl_django.models.fields.JSONTextField(blank=True, null=True)),
                (
                    "quorum",
                    models.PositiveSmallIntegerField(default=1, verbose_name="approvals needed"),
                ),
                (
                    "approvals",
                    models.PositiveSmallIntegerField(db_default=0, verbose_name="approvals"),
                ),
                (
                    "proposal",
                    hitl_django.models.fields.JSONTextField(
                        blank=True, db_default=None, null=True, verbose_name="proposed version"
                    ),
                ),
                (
                    "no_self_approval",
                    models.BooleanField(
                        default=False, verbose_name="no approval by the person who started the run"
                    ),
                ),
                (
                    "claim_required",
                    models.BooleanField(default=False, verbose_name="claim required"),
                ),
                (
                    "status",
                    models.CharField(
                        choices=[
                            ("pending", "pending"),
                            ("decided", "decided"),
                            ("expired", "expired"),
                            ("superseded", "superseded"),
                            ("cancelled", "cancelled"),
                        ],
                        default="pending",
                        max_length=20,
                        verbose_name="status",
                    ),
                ),
                ("version", models.PositiveIntegerField(default=1)),
                (
                    "created_at",
                    models.DateTimeField(
                        db_default=django.db.models.functions.datetime.Now(),
                        editable=False,
                        verbose_name="created",
                    ),
                ),
                ("closed_at", models.DateTimeField(blank=True, null=True, verbose_name="closed")),
                ("expires_at", models.DateTimeField(blank=True, null=True, verbose_name="expires")),
                ("expiry", hitl_django.models.fields.JSONTextField(blank=True, null=True)),
                ("warn_at", models.DateTimeField(db_default=None, editable=False, null=True)),
                ("retry_at", models.DateTimeField(db_default=None, editable=False, null=True)),
                (
                    "escalated_at",
                    models.DateTimeField(
                        db_default=None, editable=False, null=True, verbose_name="escalated"
                    ),
                ),
                (
                    "refused_version",
                    models.PositiveIntegerField(db_default=None, editable=False, null=True),
                ),
                (
                    "changed_at",
                    models.DateTimeField(
                        blank=True, null=True, verbose_name="changed after decision"
                    ),
                ),
                (
                    "assignee",
                    models.ForeignKey(
                        blank=True,
                        db_index=False,
                        null=True,
                        on_delete=django.db.models.deletion.SET_NULL,
                        related_name="+",
                        to=settings.AUTH_USER_MODEL,
                        verbose_name="assigned to",
                    ),
                ),
                (
                    "assignee_label",
                    models.CharField(
                        blank=True, default="", max_length=255, verbose_name="assigned to"
                    ),
                ),
                (
                    "group",
                    models.ForeignKey(
                        blank=True,
                        db_index=False,
                        null=True,
                        on_delete=django.db.models.deletion.SET_NULL,
                        related_name="+",
                        to="auth.group",
                        verbose_name="group",
                    ),
                ),
                (
                    "group_label",
                    models.CharField(blank=True, default="", max_length=150, verbose_name="group"),
                ),
                (
                    "claimed_by",
                    models.ForeignKey(
                        blank=True,
                        db_default=None,
                        db_index=False,
                        null=True,
                        on_delete=django.db.models.deletion.SET_NULL,
                        related_name="+",
                        to=settings.AUTH_USER_MODEL,
                        verbose_name="claimed by",
                    ),
                ),
                (
                    "claimed_by_label",
                    models.CharField(
                        blank=True, db_default="", max_length=255, verbose_name="claimed by"
                    ),
                ),
                (
                    "claimed_until",
                    models.DateTimeField(
                        blank=True, db_default=None, null=True, verbose_name="claimed until"
                    ),
                ),
                (
                    "claim_key",
                    models.CharField(db_default=None, editable=False, max_length=32, null=True),
                ),
                (
                    "claim_filters",
                    models.CharField(blank=True, db_default="", editable=False, max_length=32),
                ),
                (
                    "snoozed_until",
                    models.DateTimeField(
                        blank=True, db_default=None, null=True, verbose_name="snoozed until"
                    ),
                ),
                ("priority", models.SmallIntegerField(default=0, verbose_name="priority")),
                ("due_at", models.DateTimeField(blank=True, null=True, verbose_name="due")),
                (
                    "overdue",
                    models.BooleanField(db_default=False, editable=False, verbose_name="overdue"),
                ),
            ],
            options={
                "verbose_name": "request",
                "verbose_name_plural": "all requests",
                "ordering": ["-created_at", "-id"],
                "permissions": [
                    ("decide_interrupt", "Can decide requests"),
                    ("assign_interrupt", "Can assign requests to users and groups"),
                    ("take_over_interrupt", "Can take over requests claimed by others"),
                ],
                "indexes": [
                    models.Index(
                        condition=models.Q(("status", "pending")),
                        fields=["created_at", "id"],
                        name="hitl_interrupt_pending",
                    ),
                    models.Index(
                        condition=models.Q(("status", "pending")),
                        fields=["graph", "created_at", "id"],
                        name="hitl_interrupt_graph_pending",
                    ),
                    models.Index(
                        condition=models.Q(("expires_at__isnull", False), ("status", "pending")),
                        fields=["expires_at"],
                        name="hitl_interrupt_expires",
                    ),
                    models.Index(
                        condition=models.Q(("status", "pending"), ("warn_at__isnull", False)),
                        fields=["warn_at"],
                        name="hitl_interrupt_warn",
                    ),
                    models.Index(
                        models.OrderBy(models.F("overdue"), descending=True),
                        models.OrderBy(models.F("priority"), descending=True),
                        django.db.models.lookups.IsNull(models.F("due_at"), True),
                        models.F("due_at"),
                        models.F("created_at"),
                        models.F("id"),
                        condition=models.Q(("status", "pending")),
                        name="hitl_interrupt_queue",
                    ),
                    hitl_django.models.search.GramIndex(
                        condition=models.Q(("status", "pending")),
                        grams="search_grams",
                        name="hitl_interrupt_grams",
                    ),
                    models.Index(
                        condition=models.Q(
                            ("due_at__isnull", False), ("overdue", False), ("status", "pending")
                        ),
                        fields=["due_at"],
                        name="hitl_interrupt_due",
                    ),
                    models.Index(
                        condition=models.Q(("snoozed_until__isnull", False), ("status", "pending")),
                        fields=["snoozed_until"],
                        name="hitl_interrupt_snoozed",
                    ),
                    models.Index(
                        condition=models.Q(("claimed_until__isnull", False), ("status", "pending")),
                        fields=["claimed_until"],
                        name="hitl_interrupt_claimed",
                    ),
                    models.Index(fields=["graph", "created_at"], name="hitl_interrupt_asked"),
                    models.Index(
                        models.F("graph"),
                        models.OrderBy(models.F("overdue"), descending=True),
                        models.OrderBy(models.F("priority"), descending=True),
                        django.db.models.lookups.IsNull(models.F("due_at"), True),
                        models.F("due_at"),
                        models.F("created_at"),
                        models.F("id"),
                        condition=models.Q(("status", "pending")),
                        name="hitl_interrupt_graph",
                    ),
                    models.Index(
                        models.F("group"),
                        models.OrderBy(models.F("overdue"), descending=True),
                        models.OrderBy(models.F("priority"), descending=True),
                        django.db.models.lookups.IsNull(models.F("due_at"), True),
                        models.F("due_at"),
                        models.F("created_at"),
                        models.F("id"),
                        condition=models.Q(("group__isnull", False), ("status", "pending")),
                        name="hitl_interrupt_group",
                    ),
                    models.Index(
                        models.OrderBy(models.F("overdue"), descending=True),
                        models.OrderBy(models.F("priority"), descending=True),
                        django.db.models.lookups.IsNull(models.F("due_at"), True),
                        models.F("due_at"),
                        models.F("created_at"),
                        models.F("id"),
                        condition=models.Q(
                            ("assignee__isnull", True),
                            ("group__isnull", True),
                            ("status", "pending"),
                        ),
                        name="hitl_interrupt_unassigned",
                    ),
                    models.Index(
                        condition=models.Q(("claimed_by__isnull", False)),
                        fields=["claimed_by"],
                        name="hitl_interrupt_holder",
                    ),
                    models.Index(
                        condition=models.Q(("assignee__isnull", False)),
                        fields=["assignee", "status"],
                        name="hitl_interrupt_assignee",
                    ),
                ],
                "constraints": [
                    models.UniqueConstraint(
                        fields=("thread", "interrupt_id"), name="hitl_interrupt_id"
                    ),
                    models.UniqueConstraint(
                        condition=models.Q(("claim_key__isnull", False)),
                        fields=("claim_key",),
                        name="hitl_interrupt_taken",
                    ),
                    models.CheckConstraint(
                        condition=models.Q(
                            (
                                "status__in",
                                ["pending", "decided", "expired", "superseded", "cancelled"],
                            )
                        ),
                        name="hitl_interrupt_status",
                    ),
                ],
            },
        ),
        migrations.CreateModel(
            name="Decision",
            fields=[
                (
                    "id",
                    models.UUIDField(
                        default=hitl_django.engine.ids.new_id,
                        editable=False,
                        primary_key=True,
                        serialize=False,
                    ),
                ),
                (
                    "interrupt",
                    models.ForeignKey(
                        db_index=False,
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="decisions",
                        to="hitl_django.interrupt",
                        verbose_name="request",
                    ),
                ),
                ("version", models.PositiveIntegerField()),
                ("effective", models.BooleanField(default=True, null=True)),
                (
                    "type",
                    models.CharField(
                        choices=[
                            ("approve", "approve"),
                            ("edit", "edit"),
                            ("reject", "reject"),
                            ("respond", "respond"),
                            ("expire", "expired"),
                        ],
                        max_length=20,
                        verbose_name="decision",
                    ),
                ),
                ("value", hitl_django.models.fields.JSONTextField(verbose_name="response")),
                ("refusal", models.TextField(blank=True, verbose_name="rejection by the graph")),
                ("reason", models.TextField(blank=True, verbose_name="reason")),
                (
                    "by",
                    models.ForeignKey(
                        blank=True,
                        db_index=False,
                        null=True,
                        on_delete=django.db.models.deletion.SET_NULL,
                        related_name="+",
                        to=settings.AUTH_USER_MODEL,
                        verbose_name="by",
                    ),
                ),
                ("by_label", models.CharField(max_length=255, verbose_name="by")),
                ("via", models.CharField(max_length=20, verbose_name="via")),
                (
                    "claimed_by_label",
                    models.CharField(
                        blank=True,
                        db_default="",
                        default="",
                        max_length=255,
                        verbose_name="claimed by",
                    ),
                ),
                (
                    "key",
                    models.CharField(blank=True, max_length=255, verbose_name="idempotency key"),
                ),
                ("request_digest", models.CharField(max_length=32)),
                ("payload_digest", models.CharField(max_length=32)),
                (
                    "patch",
                    hitl_django.models.fields.JSONTextField(
                        blank=True, null=True, verbose_name="changes"
                    ),
                ),
                (
                    "approvals",
                    models.PositiveSmallIntegerField(default=1, verbose_name="approvals"),
                ),
                (
                    "quorum",
                    models.PositiveSmallIntegerField(default=1, verbose_name="approvals needed"),
                ),
                (
                    "created_at",
                    models.DateTimeField(
                        db_default=django.db.models.functions.datetime.Now(),
                        editable=False,
                        verbose_name="decided",
                    ),
                ),
                (
                    "undo_epoch",
                    models.BigIntegerField(
                        db_default=None, default=None, editable=False, null=True
                    ),
                ),
                (
                    "undone_at",
                    models.DateTimeField(
                        db_default=None,
                        default=None,
                        editable=False,
                        null=True,
                        verbose_name="undone",
                    ),
                ),
            ],
            options={
                "verbose_name": "decision",
                "verbose_name_plural": "decisions",
                "ordering": ["-created_at", "-id"],
                "permissions": [
                    ("view_reviewer_insights", "Can view insights by reviewer"),
                    ("export_decisions", "Can export decisions and the audit log"),
                ],
                "indexes": [
                    models.Index(fields=["-created_at", "-id"], name="hitl_decision_newest"),
                    models.Index(
                        condition=models.Q(("by__isnull", False)),
                        fields=["by"],
                        name="hitl_decision_decider",
                    ),
                ],
                "constraints": [
                    models.UniqueConstraint(
                        fields=("interrupt", "version", "effective"), name="hitl_one_decision"
                    ),
                    models.UniqueConstraint(
                        condition=models.Q(("effective", None)),
                        fields=("interrupt", "version", "by"),
                        name="hitl_one_approval",
                    ),
                    models.CheckConstraint(
                        condition=models.Q(
                            ("effective", True), ("effective", None), _connector="OR"
                        ),
                        name="hitl_decision_or_approval",
                    ),
                ],
            },
        ),
        migrations.CreateModel(
            name="Comment",
            fields=[
                (
                    "id",
                    models.UUIDField(
                        default=hitl_django.engine.ids.new_id,
                        editable=False,
                        primary_key=True,
                        serialize=False,
                    ),
                ),
                (
                    "interrupt",
                    models.ForeignKey(
                        db_index=False,
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="comments",
                        to="hitl_django.interrupt",
                        verbose_name="request",
                    ),
                ),
                (
                    "by",
                    models.ForeignKey(
                        blank=True,
                        null=True,
                        on_delete=django.db.models.deletion.SET_NULL,
                        related_name="+",
                        to=settings.AUTH_USER_MODEL,
                        verbose_name="by",
                    ),
                ),
                ("by_label", models.CharField(max_length=255, verbose_name="by")),
                ("via", models.CharField(max_length=20, verbose_name="via")),
                ("text", models.TextField(verbose_name="comment")),
                (
                    "mentions",
                    hitl_django.models.fields.JSONTextField(
                        blank=True, db_default=None, editable=False, null=True
                    ),
                ),
                (
                    "created_at",
                    models.DateTimeField(
                        db_default=django.db.models.functions.datetime.Now(),
                        editable=False,
                        verbose_name="created",
                    ),
                ),
            ],
            options={
                "verbose_name": "comment",
                "verbose_name_plural": "comments",
                "ordering": ["created_at", "id"],
                "indexes": [
                    models.Index(
                        fields=["interrupt", "created_at", "id"], name="hitl_comment_interrupt"
                    )
                ],
            },
        ),
        migrations.CreateModel(
            name="ReviewItem",
            fields=[],
            options={
                "verbose_name": "review request",
                "verbose_name_plural": "review queue",
                "ordering": (
                    models.OrderBy(models.F("overdue"), descending=True),
                    models.OrderBy(models.F("priority"), descending=True),
                    django.db.models.lookups.IsNull(models.F("due_at"), True),
                    models.F("due_at"),
                    models.F("created_at"),
                    "id",
                ),
                "proxy": True,
                "indexes": [],
                "constraints": [],
            },
            bases=("hitl_django.interrupt",),
            managers=[
                ("pending", django.db.models.manager.Manager()),
            ],
        ),
        migrations.CreateModel(
            name="RunEvent",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                (
                    "run",
                    models.ForeignKey(
                        db_index=False,
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="+",
                        to="hitl_django.run",
                        verbose_name="run",
                    ),
                ),
                ("seq", models.PositiveIntegerField(verbose_name="number")),
                ("kind", models.CharField(max_length=20, verbose_name="type")),
                ("ns", models.TextField(blank=True, default="", verbose_name="namespace")),
                ("data", hitl_django.models.fields.JSONTextField(verbose_name="data")),
                ("truncated", models.BooleanField(default=False, verbose_name="truncated")),
                (
                    "created_at",
                    models.DateTimeField(
                        db_default=django.db.models.functions.datetime.Now(),
                        editable=False,
                        verbose_name="created",
                    ),
                ),
            ],
            options={
                "verbose_name": "event",
                "verbose_name_plural": "events",
                "constraints": [
                    models.UniqueConstraint(fields=("run", "seq"), name="hitl_event_seq")
                ],
            },
        ),
        migrations.CreateModel(
            name="PendingWrite",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                (
                    "thread",
                    models.ForeignKey(
                        db_index=False,
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="writes",
                        to="hitl_django.thread",
                    ),
                ),
                ("ns", models.TextField(blank=True, verbose_name="namespace")),
                ("checkpoint_id", models.CharField(max_length=36)),
                ("task_id", models.CharField(max_length=36)),
                ("task_path", models.TextField(blank=True)),
                ("slot", models.SmallIntegerField()),
                ("data", models.BinaryField()),
                ("digest", models.CharField(max_length=32)),
                ("epoch", models.BigIntegerField(default=0)),
            ],
            options={
                "verbose_name": "pending write",
                "verbose_name_plural": "pending writes",
                "constraints": [
                    models.UniqueConstraint(
                        fields=("thread", "ns", "checkpoint_id", "task_id", "slot"),
                        name="hitl_write_slot",
                    )
                ],
            },
        ),
        migrations.CreateModel(
            name="Checkpoint",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                (
                    "thread",
                    models.ForeignKey(
                        db_index=False,
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="checkpoints",
                        to="hitl_django.thread",
                    ),
                ),
                ("ns", models.TextField(blank=True, verbose_name="namespace")),
                ("checkpoint_id", models.CharField(max_length=36)),
                ("parent_id", models.CharField(blank=True, max_length=36, null=True)),
                ("step", models.IntegerField(verbose_name="step")),
                ("source", models.CharField(max_length=20, verbose_name="source")),
                ("data", models.BinaryField()),
                ("digest", models.CharField(max_length=32)),
                ("metadata", models.BinaryField()),
                ("scalars", models.BinaryField(default=bytes)),
                ("writes", models.BinaryField(default=bytes)),
                ("epoch", models.BigIntegerField(default=0)),
                (
                    "created_at",
                    models.DateTimeField(
                        db_default=django.db.models.functions.datetime.Now(),
                        editable=False,
                        verbose_name="created",
                    ),
                ),
            ],
            options={
                "verbose_name": "checkpoint",
                "verbose_name_plural": "checkpoints",
                "constraints": [
                    models.UniqueConstraint(
                        fields=("thread", "ns", "checkpoint_id"), name="hitl_checkpoint_id"
                    )
                ],
            },
        ),
        migrations.CreateModel(
            name="ChannelBlob",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                (
                    "thread",
                    models.ForeignKey(
                        db_index=False,
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="blobs",
                        to="hitl_django.thread",
                    ),
                ),
                ("ns", models.TextField(blank=True, verbose_name="namespace")),
                ("channel", models.TextField(verbose_name="channel")),
                ("version", models.BigIntegerField(verbose_name="version")),
                ("data", models.BinaryField()),
                ("digest", models.CharField(max_length=32)),
            ],
            options={
                "verbose_name": "channel value",
                "verbose_name_plural": "channel values",
                "constraints": [
                    models.UniqueConstraint(
                        fields=("thread", "ns", "version", "channel"), name="hitl_channel_version"
                    )
                ],
            },
        ),
        migrations.CreateModel(
            name="AuditEntry",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                (
                    "thread",
                    models.ForeignKey(
                        db_index=False,
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="audit",
                        to="hitl_django.thread",
                    ),
                ),
                ("seq", models.PositiveIntegerField()),
                ("verb", models.CharField(max_length=50, verbose_name="action")),
                (
                    "subject",
                    models.CharField(blank=True, max_length=255, verbose_name="related object"),
                ),
                (
                    "actor",
                    models.ForeignKey(
                        blank=True,
                        db_index=False,
                        null=True,
                        on_delete=django.db.models.deletion.SET_NULL,
                        related_name="+",
                        to=settings.AUTH_USER_MODEL,
                    ),
                ),
                ("actor_label", models.CharField(max_length=255, verbose_name="actor")),
                ("via", models.CharField(max_length=20, verbose_name="via")),
                (
                    "detail",
                    hitl_django.models.fields.JSONTextField(default=dict, verbose_name="details"),
                ),
                ("at", models.DateTimeField(verbose_name="time")),
                ("prev_hash", models.CharField(blank=True, max_length=64)),
                ("hash", models.CharField(max_length=64)),
            ],
            options={
                "verbose_name": "audit entry",
                "verbose_name_plural": "audit entries",
                "ordering": ["thread", "seq"],
                "indexes": [
                    models.Index(
                        condition=models.Q(("actor__isnull", False)),
                        fields=["actor"],
                        name="hitl_audit_actor",
                    )
                ],
                "constraints": [
                    models.UniqueConstraint(fields=("thread", "seq"), name="hitl_audit_seq")
                ],
            },
        ),
    ]
