"""Rules for the package's source code."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

import pytest

from .source import PACKAGE, ROOT, attributes, imported, methods, modules, names, nodes, strings

#: Names that execute data as code, or that mark text as safe HTML.
UNSAFE_NAMES = {"mark_safe", "SafeString", "SafeText", "csrf_exempt", "RawSQL", "eval", "exec"}
#: Modules that may use these names. A review link's page and the unsubscribe page work without a
#: cookie, so they can't use Django's CSRF check. The engine doesn't import Django and escapes each
#: text in its SVG. The output of the Markdown renderer is sanitized.
ALLOWED = {
    "hitl_django/admin/form_tokens.py": {"csrf_exempt"},  # compares the form's token itself
    "hitl_django/admin/display/markdown.py": {"SafeString"},
    # The page's form is signed and needs no cookie.
    "hitl_django/contrib/notifications/email_decision_page.py": {"csrf_exempt"},
    # Slack signs its requests.
    "hitl_django/contrib/notifications/slack_actions.py": {"csrf_exempt"},
    "hitl_django/contrib/notifications/unsubscribe_page.py": {"csrf_exempt"},
    "hitl_django/graph_registry/svg.py": {"SafeString"},
    "hitl_django/contrib/links/pages/page.py": {"csrf_exempt"},
}
#: The templates of emails, which need inline styles and have no Content Security Policy.
MAILS = "mails"
UNSAFE_METHODS = {"mark_safe", "raw", "extra"}
VAGUE = {"utils", "util", "helpers", "helper", "common", "manager", "misc"}


@pytest.mark.promise("P19")
def test_package_source_marks_no_data_as_safe_and_executes_no_data() -> None:
    found = {
        path: UNSAFE_NAMES.intersection(names(tree)) | UNSAFE_METHODS.intersection(methods(tree))
        for path, tree in modules().items()
    }
    assert {path: used for path, used in found.items() if used} == ALLOWED


@pytest.mark.promise("P14")
def test_package_source_imports_no_pickle_modules() -> None:
    assert importers_of("pickle", "marshal", "shelve", "dill", "cloudpickle") == []


def test_package_source_imports_langgraph_and_langchain_only_in_their_packages() -> None:
    importers = importers_of("langgraph", "langchain", "langchain_core")
    assert {path.rpartition("/")[0] for path in importers} == {
        "hitl_django/contrib/langchain",
        "hitl_django/contrib/langgraph",
    }


#: Pattern of the package's name in a string.
CONTRIB = ("hitl_django.contrib", ".contrib", "contrib")
#: LangGraph's names of modules, which no module in contrib may have, so that a port only adds one
#: word to an import.
OPTIONAL = ("hitl_django/contrib/", "hitl_django/langgraph/")
#: Default values of settings. Importing a default would ignore a project's own setting.
DEFAULTS = {"hitl_django/conf/defaults.py": {"hitl_django.contrib.django_q2.Dispatcher"}}


def test_core_and_engine_source_mentions_no_contrib_package() -> None:
    found = {
        path: set(find_named(tree, *CONTRIB))
        for path, tree in modules().items()
        if not path.startswith(OPTIONAL)
    }
    assert {path: named for path, named in found.items() if named} == DEFAULTS


def test_engine_source_mentions_no_module_above_the_engine() -> None:
    above = [each.stem for each in PACKAGE.iterdir() if each.stem not in ("engine", "__init__")]
    names = [name for each in above for name in (f"hitl_django.{each}", f".{each}")]
    trees = modules(PACKAGE / "engine").items()
    found = {path: [*find_named(tree, *names)] for path, tree in trees}
    assert {path: named for path, named in found.items() if named} == {}


def test_named_module_check_reports_module_names_in_imports_and_strings() -> None:
    tree = ast.parse(
        "\n".join(
            (
                '"""hitl_django.contrib.docstring"""',
                "from hitl_django.contrib.first import a",
                "from hitl_django import contrib",
                'import_module("hitl_django.contrib.second")',
                'import_module(f"hitl_django.contrib.{third}")',
                'import_module(".contrib.fourth", "hitl_django")',
                '{"contrib.fifth": ("name",)}["text"]',
                '"hitl_django.contributors"',
            )
        )
    )
    assert [*find_named(tree, *CONTRIB)] == [
        "hitl_django.contrib.first.a",
        "hitl_django.contrib",
        "hitl_django.contrib.second",
        ".contrib.fourth",
        "hitl_django.contrib.",
        "contrib.fifth",
    ]


def find_named(tree: ast.Module, *modules: str) -> Iterator[str]:
    starts = tuple(f"{module}." for module in modules)
    for path in (*imported(tree), *strings(tree)):
        if f"{path}.".startswith(starts):
            yield path


#: Names of functions that read the frames of callers or the references of objects.
FRAME_NAMES = {
    "_getframe", "_getframemodulename", "_current_frames", "currentframe", "getouterframes",
    "getinnerframes", "f_back", "f_locals", "f_globals", "f_code", "tb_frame",
    "gi_frame", "cr_frame", "ag_frame", "setprofile", "settrace", "get_referrers",
}  # fmt: skip


def test_package_source_reads_interpreter_frames_in_two_modules_only() -> None:
    found = {
        path: sorted(read)
        for path, tree in modules().items()
        if (read := FRAME_NAMES.intersection([*names(tree), *attributes(tree)]))
    }
    assert found == {
        # LangGraph passes the payload of an answered interrupt to no hook.
        "hitl_django/contrib/langgraph/task_interrupts.py": ["_getframe", "f_code", "f_locals"],
        # The text of Django's error doesn't name the database alias, but its traceback does.
        "hitl_django/db/outages.py": ["f_locals", "tb_frame"],
    }


def importers_of(*packages: str) -> list[str]:
    return [
        path
        for path, tree in modules().items()
        if any(name.partition(".")[0] in packages for name in imported(tree))
    ]


#: Functions that retry by themselves, that open a transaction on databases with one writer, or that
#: only check for an open transaction.
TRIES_ITSELF = {"commit", "begin", "begin_thread", "_refuse_in_transaction"}


def test_every_function_opening_a_transaction_is_retried_on_conflict() -> None:
    def opens(function: ast.AST) -> bool:
        found = [node for node in ast.walk(function) if isinstance(node, ast.With)]
        return any("transaction.atomic" in ast.unparse(item) for w in found for item in w.items)

    functions = [
        (path, node)
        for path, tree in modules().items()
        for node in nodes(tree)
        if isinstance(node, ast.FunctionDef) and opens(node)
    ]
    left = [
        f"{path}: {node.name}"
        for path, node in functions
        if "retry_on_conflict" not in map(ast.unparse, node.decorator_list)
        and node.name not in TRIES_ITSELF
    ]
    assert len(functions) > 20
    assert left == []


@pytest.mark.promise("P19")
def test_templates_disable_no_escaping_and_contain_no_inline_scripts_or_styles() -> None:
    for template in [*PACKAGE.rglob("*.html"), *(ROOT / "templates").rglob("*.html")]:
        text = template.read_text()
        assert not re.search(r"\|\s*safe\b|autoescape\s+off", text), template
        if template.parent.name == MAILS:
            # Mail programs need inline styles.
            assert not re.search(r"<script|\son\w+=", text), template
            continue
        # A Content Security Policy would have to allow inline scripts and styles.
        assert not re.search(r"<script(?![^>]*\bsrc=)|<style|\sstyle=|\son\w+=", text), template


def test_module_names_contain_no_vague_words() -> None:
    vague = [path for path in modules() if VAGUE.intersection(path.removesuffix(".py").split("/"))]
    assert vague == []


def test_every_package_module_has_a_docstring() -> None:
    silent = [
        path
        for path, tree in modules().items()
        if tree.body and "migrations" not in path and not ast.get_docstring(tree)
    ]
    assert silent == []


def test_package_contains_a_py_typed_file() -> None:
    assert (PACKAGE / "py.typed").is_file()


COUNTED = r"(?:decisions|events|links|lines|messages|migrations|nodes|questions|rows|runs)"
COUNTED += r"|(?:steps|tasks|threads|times|webhooks|workers)"
#: Messages whose number is always greater than one.
SEVERAL = ("%(count)d requests from one run", "More than %(n)s pending requests", "{n} times)")


def test_messages_with_a_count_have_singular_and_plural_forms() -> None:
    bare = re.compile(rf"(?:\{{[^{{}}\"]+\}}|%[sd]) (?:{COUNTED})\b.*")
    translated = re.compile(rf"\b_\(\s*\"([^\"]*%\(\w+\)[sd] (?:{COUNTED})\b[^\"]*)\"")
    found = [
        f"{path.relative_to(ROOT)}: {text}"
        for path in sorted((ROOT / "hitl_django").rglob("*.py"))
        for text in (*bare.findall(path.read_text()), *translated.findall(path.read_text()))
        if not text.startswith(SEVERAL)
    ]
    assert found == []


def test_public_class_names_are_defined_in_one_module() -> None:
    homes: dict[str, list[str]] = {}
    for path, tree in modules().items():
        for node in tree.body:
            if "/migrations/" in path:
                continue  # Django requires a class with the name Migration in each migration.
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                homes.setdefault(node.name, []).append(path)
    # The engine's classes have LangGraph's names. The models use the same names.
    twice = {name for name, paths in homes.items() if len(paths) > 1}
    assert twice == {"Checkpoint", "Command", "Interrupt"}
