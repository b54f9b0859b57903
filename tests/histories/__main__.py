"""Program that saves threads, and the rows of the example app, in the format of this version.

    python -m tests.histories NAME

The files tests/histories/NAME.json and tests/histories/apps/NAME.json are written once for each
release and never changed.
"""

from __future__ import annotations

import os
import sys
import tempfile
from datetime import datetime
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
MODELS = (
    "GraphShape", "Thread", "Run", "Checkpoint", "ChannelBlob", "PendingWrite", "Interrupt",
    "Decision", "AuditEntry", "RunEvent",
)  # fmt: skip


def main(name: str) -> None:
    with tempfile.TemporaryDirectory() as folder:
        os.environ["DATABASE_URL"] = f"sqlite:///{folder}/history.sqlite3"
        os.environ.setdefault("DJANGO_SETTINGS_MODULE", "tests.extensions.settings")
        import django

        django.setup()
        from django.apps import apps
        from django.core import serializers
        from django.core.management import call_command
        from django.core.serializers.json import DjangoJSONEncoder

        from tests.histories import example_app
        from tests.histories.stages import make

        class Exact(DjangoJSONEncoder):
            """JSON encoder that keeps microseconds, which the hashes of audit log entries cover."""

            def default(self, o: Any) -> Any:
                return o.isoformat() if isinstance(o, datetime) else super().default(o)

        call_command("migrate", verbosity=0)
        make()
        models = [apps.get_model("hitl_django", model) for model in MODELS]
        rows = [row for model in models for row in model.objects.order_by("pk")]
        text = serializers.serialize("json", rows, indent=1, cls=Exact)
        (HERE / f"{name}.json").write_text(text)
        example_app.save(name)


if __name__ == "__main__":
    main(sys.argv[1])
