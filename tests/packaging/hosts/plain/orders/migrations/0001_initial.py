from django.db import migrations, models


class Migration(migrations.Migration):
    initial = True
    dependencies = []

    operations = [
        migrations.CreateModel(
            name="Order",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        primary_key=True, serialize=False, auto_created=True, verbose_name="ID"
                    ),
                ),
                ("customer", models.CharField(max_length=100)),
                ("cents", models.PositiveIntegerField()),
                ("refunded", models.PositiveIntegerField(default=0)),
            ],
        )
    ]
