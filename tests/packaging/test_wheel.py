"""The built wheel in an empty environment and a new project."""

from __future__ import annotations

import re
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

from .conftest import ROOT, run

pytestmark = pytest.mark.process

#: The settings of a project in the documentation.
SETTINGS = "\n".join(
    re.findall(r"(?ms)^```python\n(.*?)^```$", (ROOT / "docs" / "install.md").read_text())
)

URLS = """
from django.contrib import admin
from django.urls import include, path

urlpatterns = [
    path("admin/", admin.site.urls),
    path("hitl/", include("hitl_django.urls")),
]
"""

#: Runs in the new project: nothing of this repository can be imported there.
VISIT = """
import django
django.setup()
from django.contrib.auth import get_user_model
from django.test import Client
import hitl_django

assert "site-packages" in hitl_django.__file__, hitl_django.__file__
get_user_model().objects.create_superuser("ann", password="secret")
for name in hitl_django.LAZY_MODULES:
    getattr(hitl_django, name)
client = Client(SERVER_NAME="localhost")
assert client.login(username="ann", password="secret")
for path in ("/admin/", "/admin/hitl_django/reviewitem/", "/admin/hitl_django/run/"):
    response = client.get(path)
    assert response.status_code == 200, (path, response.status_code)
assert client.get("/hitl/api/v1/interrupts/").status_code == 200
print("visited")
"""


def test_wheel_contains_all_package_files_and_no_tests(wheel: Path) -> None:
    names = set(zipfile.ZipFile(wheel).namelist())
    present = {
        str(path.relative_to(ROOT))
        for path in (ROOT / "hitl_django").rglob("*")
        if path.is_file() and path.suffix != ".pyc"
    }
    assert present - names == set()
    assert not any(name.startswith(("docs/", "tests/", "project/", "templates/")) for name in names)
    for part in ("templates", "static", "migrations", "locale/de/LC_MESSAGES"):
        assert any(name.startswith(f"hitl_django/{part}/") for name in names), part
    assert "hitl_django/locale/de/LC_MESSAGES/django.mo" in names


def test_source_distribution_contains_the_documentation(wheel: Path) -> None:
    (source,) = wheel.parent.glob("*.tar.gz")
    with tarfile.open(source) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    assert {"docs/conf.py", "docs/index.md", "docs/extension/settings.py"} <= names


def test_wheel_installed_in_a_new_project_shows_the_review_queue(
    wheel: Path, tmp_path: Path
) -> None:
    run(sys.executable, "-m", "venv", "venv", cwd=tmp_path)
    python = tmp_path / "venv" / "bin" / "python"
    run(python, "-m", "pip", "install", "--quiet", wheel, cwd=tmp_path)

    run(python, "-m", "django", "startproject", "shop", cwd=tmp_path)
    shop = tmp_path / "shop"
    assert {"INSTALLED_APPS", "Q_CLUSTER", "DATABASES"} <= set(
        re.findall(r"(?m)^[A-Z_]+", SETTINGS)
    )
    with (shop / "shop" / "settings.py").open("a") as settings:
        settings.write(SETTINGS)
    (shop / "shop" / "urls.py").write_text(URLS)
    (shop / "visit.py").write_text(
        'import os\nos.environ["DJANGO_SETTINGS_MODULE"] = "shop.settings"\n' + VISIT
    )

    run(python, "manage.py", "check", "--fail-level", "WARNING", cwd=shop)
    run(python, "manage.py", "migrate", "--verbosity", "0", cwd=shop)
    assert run(python, "visit.py", cwd=shop) == "visited\n"
