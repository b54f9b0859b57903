"""The TypeScript client of the guide: its generated types, its compilation, and a live server."""

from __future__ import annotations

import base64
import json
import subprocess
from pathlib import Path
from typing import Any

import pytest
from django.contrib.auth.models import User

from hitl_django.models import Decision
from tests.api.document import document
from tests.npm_packages import PATIENCE, install_packages

from .pages import Page

GUIDE = Page("docs/guides/typescript.md")
PACKAGES = {
    "openapi-fetch": "0.17.0",
    "openapi-typescript": "7.13.0",
    "typescript": "5.9.3",
    "@types/node": "24.10.1",
}
OPTIONS = {
    "strict": True,
    "noUnusedLocals": True,
    "target": "es2022",
    "module": "nodenext",
    "noEmitOnError": True,
    "skipLibCheck": True,
}

pytestmark = [
    pytest.mark.django_db(transaction=True),
    pytest.mark.process,
    pytest.mark.any_database,
]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a project with the files of the guide and the generated types."""
    folder = tmp_path_factory.mktemp("typescript")
    for snippet in GUIDE.snippets:
        language, _, name = snippet.info.partition(" file=")
        if language == "typescript":
            (folder / name).write_text(snippet.code)
    files = {
        "package.json": {"private": True, "type": "module", "dependencies": PACKAGES},
        "tsconfig.json": {"compilerOptions": OPTIONS, "files": ["main.ts"]},
        "openapi.json": document(),
    }
    for name, content in files.items():
        (folder / name).write_text(json.dumps(content))
    install_packages(folder)
    run("npx", "openapi-typescript", "openapi.json", "--output", "hitl.ts", cwd=folder)
    return folder


def run(*command: str, cwd: Path) -> str:
    done = subprocess.run(command, cwd=cwd, capture_output=True, text=True, timeout=PATIENCE)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_typescript_client_of_the_guide_compiles_in_strict_mode_and_decides(
    folder: Path, live_server: Any
) -> None:
    (client,) = (each for each in GUIDE.snippets if each.info == "typescript file=client.ts")
    assert len(client.code.splitlines()) <= 60
    run("npx", "tsc", "--project", ".", cwd=folder)
    keys = []
    for name in ("olga", "rita"):
        User.objects.create_superuser(name, password="demo")
        keys.append("Basic " + base64.b64encode(f"{name}:demo".encode()).decode())
    api = f"{live_server.url}/hitl/api/v1"
    assert run("node", "main.js", api, *keys, cwd=folder).splitlines() == [
        "Refund for order 10443? rita",
        "{ title: 'Refund for order 10443?', cents: 5000 }",
        "rita has already decided: edit",
    ]
    assert Decision.objects.get().type == "edit"
