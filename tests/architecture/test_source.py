"""Rules for the package's source code."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

import pytest

from .source import PACKAGE, ROOT, attributes, imported, methods, modules, names, strings

#: Ways to run what came as data, or to show it as if we had written it.
UNSAFE_NAMES = {"mark_safe", "SafeString", "SafeText", "csrf_exempt", "RawSQL", "eval", "exec"}
#: A link's page checks its form without a cookie: contrib/links/pages/signature.py says how. A mail
#: program that unsubscribes has none either, and the page for it does nothing else. The engine,
#: which knows no Django, writes a picture and escapes each text in it. Markdown, where code asks
#: for it, is written by its renderer and goes through a sanitizer.
ALLOWED = {
    "hitl_django/admin/form_tokens.py": {"csrf_exempt"},  # it checks by itself, and then says so
    "hitl_django/admin/display/markdown.py": {"SafeString"},
    # Its form is signed, and works without a cookie.
    "hitl_django/contrib/notifications/email_decision_page.py": {"csrf_exempt"},
    # Slack signs its requests.
    "hitl_django/contrib/notifications/slack_actions.py": {"csrf_exempt"},
    "hitl_django/contrib/notifications/unsubscribe_page.py": {"csrf_exempt"},
    "hitl_django/graph_registry/svg.py": {"SafeString"},
    "hitl_django/contrib/links/pages/page.py": {"csrf_exempt"},
}
#: The directory of the templates of emails, which have no other place for styles and no policy.
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


#: How a string names the package.
CONTRIB = ("hitl_django.contrib", ".contrib", "contrib")
#: LangGraph's module names are in no package of contrib, so that a port is one word longer.
OPTIONAL = ("hitl_django/contrib/", "hitl_django/langgraph/")
#: Default values of settings. A project that sets another one doesn't import these.
DEFAULTS = {"hitl_django/conf/defaults.py": {"hitl_django.contrib.django_q2.Dispatcher"}}


def test_core_and_engine_source_names_no_contrib_package() -> None:
    found = {
        path: set(find_named(tree, *CONTRIB))
        for path, tree in modules().items()
        if not path.startswith(OPTIONAL)
    }
    assert {path: named for path, named in found.items() if named} == DEFAULTS


def test_engine_source_names_no_module_above_the_engine() -> None:
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


#: Names with which code reads frames of its callers, or objects that refer to others.
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
        # Django's error has no alias of its database, but its traceback does.
        "hitl_django/db/outages.py": ["f_locals", "tb_frame"],
    }


def importers_of(*packages: str) -> list[str]:
    return [
        path
        for path, tree in modules().items()
        if any(name.partition(".")[0] in packages for name in imported(tree))
    ]


#: Who tries again by itself, what is done where a database has one writer at a time, and what only
#: asks whether a transaction is open.
TRIES_ITSELF = {"commit", "begin", "begin_thread", "_refuse_in_transaction"}


def test_every_function_opening_a_transaction_is_retried_on_conflict() -> None:
    def opens(function: ast.AST) -> bool:
        found = [node for node in ast.walk(function) if isinstance(node, ast.With)]
        return any("transaction.atomic" in ast.unparse(item) for w in found for item in w.items)

    functions = [
        (path, node)
        for path, tree in modules().items()
        for node in ast.walk(tree)
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
        # Inline scripts and styles would need a hole in a Content Security Policy.
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
#: Of these there are always several.
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
                continue  # Django has each of them define a Migration
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                homes.setdefault(node.name, []).append(path)
    # The engine's values have LangGraph's names, and the rows that keep them Django's for them.
    twice = {name for name, paths in homes.items() if len(paths) > 1}
    assert twice == {"Checkpoint", "Command", "Interrupt"}
