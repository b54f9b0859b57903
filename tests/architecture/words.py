"""Phrases that messages, documentation and docstrings must not contain, with their replacements."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from typing import NamedTuple

from .catalogues import CATALOGUES, catalogue_of
from .source import ROOT

UI, DOCS, CODE = "ui", "docs", "code"
FOLDERS = ("hitl_django", "project", "tools", "docs", "tests")
#: Relative pronouns and conjunctions, and the maximum number of them in a sentence.
RELATIVE = re.compile(r"\b(that|which|what|who|whose|whom|where|whatever|whoever)\b", re.IGNORECASE)
MOST_RELATIVES = 3

_VERBS = (
    "returns?|yields?|gives?|says?|tells?|reads?|stores?|shows?|emits?|counts?|lists?|selects?|"
    "matches|match|makes?|keeps?|drops?|finds?|adds?|notes?|writes?|takes?|removes?|deletes?|"
    "gathers?|sends?|runs?|answers?"
)


class Rule(NamedTuple):
    """A forbidden phrase: the kinds of text, its pattern and the words to use instead."""

    kinds: str
    pattern: str
    instead: str


RULES = (
    # Terms of the glossary.
    Rule("ui docs code", r"\b(put(s|ting)? off|putting \w+ off)\b", "snooze"),
    Rule("ui docs code", r"\bsecond looks?\b", "spot check"),
    Rule("ui docs code", r"\blooking back\b", "insights"),
    Rule("ui", r"(?<!\bon )\b(hold|holds|held)\b", "claim, valid, contain"),
    Rule("ui docs", r"\b(how (you|I) (are|am) told|(is|are) told of|tells? of)\b", "notify"),
    Rule("docs code", r"\bdoor\b", "API, endpoint, entry point"),
    Rule("docs code", r"\bstretch(es)?\b", "segment"),
    Rule("docs code", r"\b(the|its|other|own|three|of) rooms?\b", "package, layer"),
    Rule("ui docs", r"\b(half|nine of ten) within\b|\bhalf were\b", "median, 90th percentile"),
    Rule("ui", r"^made by$|\b(was|were) made yet\b|\banother secret\b", "create, rotate"),
    Rule("ui docs", r"\b(takes?|taken|took) (a link |it |them )?back\b", "revoke, undo"),
    Rule("ui", r"\bquestions?\b", "request"),
    Rule("ui docs code", r"\bpoison\b", "a run that keeps crashing"),
    Rule("ui", r"\b(goes|go|went|gone) on\b", "resume, continue"),
    # Sentences.
    Rule("ui docs code", r"\b(for|to|by|from|of|only) who\b(?!,)", "name the person"),
    Rule("code", rf"^(?:{_VERBS}) (all )?what\b", "name the object"),
    Rule("code", r"^(says|tells?) (whether|if)\b", "Return whether …"),
    Rule(
        "docs code",
        r"\bwhat (is|was|are|were) (asked|held|there|due|left|over|told|said|so|known|kept)\b",
        "name it: the payload, the pending interrupts, …",
    ),
    Rule("ui docs", r"\bwhoever\b", "the person who …, or name the role"),
    Rule("ui docs code", r"\b(anew|lest|heed(s|ed)?|mend(s|ed|ing)?)\b", "again, so that, fix"),
    Rule("ui docs code", r"(?<!here )\bis no (?!longer|more)(?=[a-z])", "is not a …"),
    Rule("ui", r"^there (is|are) no\b|^no \w+( \w+)? (was|were) .*\byet\b", "No … yet."),
    Rule("ui", r"\b(you|they|he|she|who|somebody) may (no more|not)\b", "no permission to …"),
    Rule("ui", r"\bput right\b", "Please correct the errors below."),
    Rule("ui", r"\bis(n't| not) there( any more)?\b", "no longer exists"),
    Rule("ui", r"\bby (itself|themselves)\b", "automatically"),
    Rule("ui", r"\b(asked otherwise|asks? (you|of you)|otherwise than)\b", "name the change"),
    Rule(
        "docs code",
        r"\bstands? (in(?! for)|on|at|there|beside|below|above|behind|by itself)\b",
        "is in, is shown in, follows",
    ),
    Rule("docs code", r"\bnothing of (it|them|theirs|yours|ours)\b", "name the missing effect"),
)
_COMPILED = [(rule, re.compile(rule.pattern, re.IGNORECASE)) for rule in RULES]


class Sentence(NamedTuple):
    kind: str
    place: str
    text: str


def find_faults(sentence: Sentence) -> Iterator[str]:
    """Yield a line for each rule that a sentence breaks."""
    for rule, pattern in _COMPILED:
        if sentence.kind in rule.kinds.split() and (found := pattern.search(sentence.text)):
            yield f"{sentence.place}: “{found[0]}” → {rule.instead}: {sentence.text[:120]}"
    if len(RELATIVE.findall(sentence.text)) > MOST_RELATIVES:
        yield f"{sentence.place}: more than {MOST_RELATIVES} relative words: {sentence.text[:120]}"


def read_messages() -> Iterator[Sentence]:
    """Yield the English messages of all catalogues."""
    for path in CATALOGUES:
        for message in catalogue_of(path).values():
            for text in [message.id] if isinstance(message.id, str) else message.id:
                yield Sentence(UI, str(path.relative_to(ROOT)), text)


def read_pages() -> Iterator[Sentence]:
    """Yield the sentences of the Markdown pages, without code, link targets and quotes."""
    for path in [ROOT / "README.md", *sorted(ROOT.glob("docs/**/*.md"))]:
        fenced = False
        for number, line in enumerate(path.read_text().splitlines(), 1):
            is_fence = line.lstrip().startswith(("```", "~~~"))
            fenced ^= is_fence
            # The line is a directive of MyST.
            if fenced or is_fence or line.startswith(("<!--", ":")):
                continue
            plain = re.sub(r"\{[a-z:]+\}`[^`]*`|``[^`]*``|`[^`]*`", "CODE", line)
            plain = re.sub(r"!?\[([^\]]*)\]\([^)]*\)", r"\1", plain)
            plain = re.sub(r"[“\"][^”\"]*[”\"]", "QUOTE", plain)
            for cell in plain.split("|"):
                for text in re.split(r"(?<=[.!?:;])\s+(?=[A-Z*])", cell.strip()):
                    yield Sentence(DOCS, f"{path.relative_to(ROOT)}:{number}", text)


def read_docstrings() -> Iterator[Sentence]:
    """Yield the sentences of all docstrings outside migrations."""
    for folder in FOLDERS:
        for path in sorted((ROOT / folder).rglob("*.py")):
            if {"migrations", "var", ".venv"}.isdisjoint(path.relative_to(ROOT).parts):
                yield from _read_module(str(path.relative_to(ROOT)), path.read_text())


def _read_module(name: str, source: str) -> Iterator[Sentence]:
    kinds = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    for node in ast.walk(ast.parse(source)):
        text = ast.get_docstring(node) if isinstance(node, kinds) else None
        if text is None:
            continue
        for paragraph in re.split(r"\n\s*\n", text):
            plain = re.sub(r"``[^`]*``|`[^`]*`", "CODE", " ".join(paragraph.split()))
            for sentence in re.split(r"(?<=[.!?])\s+(?=[A-Z])", plain):
                yield Sentence(CODE, f"{name}:{getattr(node, 'lineno', 1)}", sentence)
