"""The OpenAPI document: validity, completeness, and independence of project settings."""

from __future__ import annotations

import json
from typing import Any

import pytest
from django.core.management import call_command
from drf_spectacular.generators import SchemaGenerator
from drf_spectacular.settings import patched_settings
from jsonschema import Draft202012Validator

from hitl_django.api import operations
from hitl_django.api import problems as errors
from hitl_django.api.openapi import Generator, problems
from hitl_django.api.openapi.generator import iterate_operations as declared_operations
from hitl_django.api.urls import urlpatterns
from hitl_django.api.views import schema as schema_views

from . import document as judge
from .document import document

OPERATIONS = [
    pytest.param(path, method, told, id=told["operationId"])
    for path, methods in document().items()
    if path == "paths"
    for path, methods in methods.items()
    for method, told in methods.items()
]


def test_openapi_document_declares_every_method_of_every_endpoint() -> None:
    handled = {
        (pattern.name, method)
        for pattern in urlpatterns
        for method in ("get", "post", "put", "patch", "delete")
        if hasattr(pattern.callback.cls, method)
    }
    assert {(pattern.name, method) for pattern, _, method, _ in declared_operations()} == handled


def test_openapi_operation_ids_are_unique() -> None:
    names = [declared.id for *_, declared in declared_operations()]
    assert len(names) == len(set(names))


@pytest.mark.parametrize(("path", "method", "told"), OPERATIONS)
def test_openapi_operation_declares_summary_security_and_error_responses(
    path: str, method: str, told: Any
) -> None:
    assert told["summary"]
    assert told["description"].strip()
    assert told["security"]
    assert any(int(status) < 400 for status in told["responses"])
    assert {"400", "401", "403", "429"} <= told["responses"].keys()
    if "{" in path:
        assert "404" in told["responses"]
    if "requestBody" in told:
        assert {"413", "415", "422"} <= told["responses"].keys()
    for status, response in told["responses"].items():
        if int(status) >= 400:
            assert list(response["content"]) == ["application/problem+json"]


@pytest.mark.parametrize(("path", "method", "told"), OPERATIONS)
def test_openapi_parameters_have_descriptions(path: str, method: str, told: Any) -> None:
    lacking = [
        each["name"] for each in told["parameters"] if not each.get("description", "").strip()
    ]
    assert lacking == []


@pytest.mark.parametrize(("path", "method", "told"), OPERATIONS)
def test_openapi_responses_declare_request_id_and_rate_limit_headers(
    path: str, method: str, told: Any
) -> None:
    for response in told["responses"].values():
        assert {"X-Request-ID", "RateLimit", "RateLimit-Policy"} <= response["headers"].keys()
    assert document()["components"]["headers"]["X-Request-ID"]["schema"] == {"type": "string"}


def test_openapi_body_of_post_is_required_if_an_empty_object_is_invalid() -> None:
    components = document()["components"]["schemas"]
    for _, method, told in (each.values for each in OPERATIONS):
        if method == "post" and "requestBody" in told:
            content = told["requestBody"]["content"]["application/json"]
            schema = components[content["schema"]["$ref"].rpartition("/")[2]]
            nothing = {**schema, "components": document()["components"]}
            takes_nothing = Draft202012Validator(nothing).is_valid({})
            assert told["requestBody"]["required"] is not takes_nothing, told["operationId"]


@pytest.mark.parametrize(("path", "method", "told"), OPERATIONS)
def test_openapi_request_example_matches_its_schema(path: str, method: str, told: Any) -> None:
    if "requestBody" not in told:
        return
    content = told["requestBody"]["content"]["application/json"]
    root = {**content["schema"], "components": document()["components"]}
    Draft202012Validator(root).validate(content["example"])


@pytest.mark.parametrize(("path", "method", "told"), OPERATIONS)
def test_openapi_body_of_operation_is_required_unless_an_empty_object_is_valid(
    path: str, method: str, told: Any
) -> None:
    if "requestBody" not in told:
        return
    schema = told["requestBody"]["content"]["application/json"]["schema"]
    root = {**schema, "components": document()["components"]}
    assert told["requestBody"]["required"] is not Draft202012Validator(root).is_valid({})


@pytest.mark.parametrize("name", sorted(document()["components"]["schemas"]))
def test_openapi_component_example_matches_its_schema(name: str) -> None:
    schema = judge.closed(document()["components"])["schemas"][name]
    (example,) = document()["components"]["schemas"][name]["examples"]
    root = {**schema, "components": judge.closed(document()["components"])}
    Draft202012Validator(root).validate(example)


def test_openapi_problems_with_the_same_code_have_the_same_additional_members() -> None:
    shapes: dict[str, set[str]] = {}
    for answer in errors.PROBLEM_TYPES.values():
        if answer.extensions.schema:
            shapes.setdefault(answer.code, set()).add(repr(answer.extensions.schema))
    assert {code: found for code, found in shapes.items() if len(found) > 1} == {}


def test_openapi_operation_with_unmapped_error_raises_lookup_error() -> None:
    wrong = operations.Operation("wrong", {}, errors=(ZeroDivisionError,))
    with pytest.raises(LookupError, match="ZeroDivisionError"):
        problems.list_problem_types(wrong, names_object=False)


def test_openapi_document_has_a_relative_server_url(api: Any) -> None:
    served = api.get("schema", headers={"Host": "127.0.0.1:8000"}).json()
    assert served["servers"] == [{"url": "/hitl/api/v1"}]
    assert served["paths"] == json.loads(json.dumps(document()["paths"]))


def test_openapi_document_returns_304_with_its_etag(
    api: Any, settings: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    # The document differs from the previous one, so it is generated again.
    settings.HITL = {"PAGE_SIZE": 7}
    first = api.get("schema")
    parameters = first.json()["paths"]["/runs/"]["get"]["parameters"]
    assert [one["schema"]["default"] for one in parameters if one["name"] == "page_size"] == [7]
    monkeypatch.setattr(Generator, "get_schema", None)
    assert api.get("schema").content == first.content
    known = api.get("schema", headers={"If-None-Match": first["ETag"]})
    assert (known.status_code, known.content, known["ETag"]) == (304, b"", first["ETag"])
    assert api.get("schema", headers={"If-None-Match": '"another"'}).status_code == 200


@pytest.mark.slow
def test_spectacular_command_writes_a_valid_openapi_3_1_document_without_warnings(
    capsys: Any, settings: Any, tmp_path: Any
) -> None:
    settings.INSTALLED_APPS = [*settings.INSTALLED_APPS, "drf_spectacular"]
    file = tmp_path / "openapi.json"
    call_command(
        "spectacular",
        "--generator-class=hitl_django.api.openapi.Generator",
        "--format=openapi-json",
        "--validate",
        "--fail-on-warn",
        f"--file={file}",
    )
    written = json.loads(file.read_text())
    assert written["openapi"] == "3.1.0"
    assert written == json.loads(json.dumps(document()))


def test_openapi_document_ignores_spectacular_settings_of_the_project() -> None:
    with patched_settings(
        {
            "TITLE": "The host's",
            "OAS_VERSION": "3.0.3",
            "COMPONENT_SPLIT_REQUEST": True,
            "CAMELIZE_NAMES": True,
            "SCHEMA_PATH_PREFIX_INSERT": "/host",
            "APPEND_COMPONENTS": {"schemas": {"Host": {"type": "object"}}},
            "POSTPROCESSING_HOOKS": ["tests.api.test_openapi.never"],
            "PREPROCESSING_HOOKS": ["tests.api.test_openapi.never"],
        }
    ):
        assert Generator().get_schema() == document()


def never(*args: Any, **options: Any) -> None:
    raise AssertionError("the host's hook was called")


def test_openapi_document_of_the_project_excludes_package_endpoints() -> None:
    assert SchemaGenerator().get_schema(public=True)["paths"] == {}


def test_api_without_spectacular_package_lacks_only_the_schema_endpoint(
    api: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(schema_views, "find_spec", lambda name: None)
    assert api.get("schema").status_code == 404
    assert api.get("runs").status_code == 200
