"""Reference of the verbs of ``manage.py hitl``, from their argument parsers."""

from __future__ import annotations

import argparse
from typing import Any

from . import markdown, sources


def verbs() -> dict[str, argparse.ArgumentParser]:
    """Return the parser of each verb."""
    return {name: _parser(name, module) for name, module in sources.load(sources.VERBS)().items()}


def _parser(name: str, module: Any) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog=f"manage.py hitl {name}", description=module.HELP, add_help=False
    )
    module.add_arguments(parser)
    return parser


def section(verb: str) -> str:
    """Return the description, usage and arguments of a verb."""
    parser = verbs()[verb]
    return markdown.page(
        [
            markdown.from_docstring(parser.description or ""),
            markdown.directive("code-block", "text", _usage(parser)),
            markdown.directive("program", parser.prog),
            *(_argument(action) for action in parser._actions),
        ]
    )


def _usage(parser: argparse.ArgumentParser) -> str:
    return " ".join(parser.format_usage().removeprefix("usage: ").split())


def _argument(action: argparse.Action) -> str:
    value = action.metavar or (action.dest.upper() if action.nargs != 0 else "")
    names = [f"{name} {value}".strip() for name in action.option_strings] or [str(value).lower()]
    return markdown.directive("option", ", ".join(names), (action.help or "").replace("%%", "%"))
