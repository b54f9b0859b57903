import uuid

from django.db import migrations, models


class Migration(migrations.Migration):
    initial = True
    dependencies = []

    operations = [
        migrations.CreateModel(
            name="Claim",
            fields=[
                (
                    "number",
                    models.UUIDField(
                        default=uuid.uuid4, editable=False, primary_key=True, serialize=False
                    ),
                ),
                ("holder", models.CharField(max_length=100)),
                ("damage", models.DecimalField(decimal_places=2, max_digits=10)),
                ("state", models.CharField(default="open", max_length=20)),
            ],
        )
    ]
