import django.db.models.functions.datetime
import hitl_django.models.fields
from django.db import migrations, models


class Migration(migrations.Migration):
    initial = True

    dependencies = []

    operations = [
        migrations.CreateModel(
            name="StoreItem",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("namespace", hitl_django.models.fields.NamespaceField(verbose_name="namespace")),
                ("key", models.TextField(verbose_name="key")),
                ("value", hitl_django.models.fields.JSONTextField(verbose_name="value")),
                ("vectors", models.BinaryField(default=bytes)),
                ("ttl", models.DurationField(blank=True, null=True, verbose_name="time to live")),
                ("expires_at", models.DateTimeField(blank=True, null=True, verbose_name="expires")),
                (
                    "created_at",
                    models.DateTimeField(
                        db_default=django.db.models.functions.datetime.Now(),
                        editable=False,
                        verbose_name="created",
                    ),
                ),
                (
                    "updated_at",
                    models.DateTimeField(
                        db_default=django.db.models.functions.datetime.Now(),
                        editable=False,
                        verbose_name="updated",
                    ),
                ),
            ],
            options={
                "verbose_name": "store item",
                "verbose_name_plural": "store items",
                "indexes": [
                    models.Index(fields=["namespace", "id"], name="hitl_store_order"),
                    models.Index(
                        condition=models.Q(("expires_at__isnull", False)),
                        fields=["expires_at"],
                        name="hitl_store_expiry",
                    ),
                ],
                "constraints": [
                    models.UniqueConstraint(fields=("namespace", "key"), name="hitl_store_key")
                ],
            },
        ),
    ]
