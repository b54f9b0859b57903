"""``hitl export-audit`` and ``verify-audit``: verification without the database."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import pytest
from django.core.management import CommandError, call_command

from hitl_django.models import AuditEntry
from hitl_django.testing import GraphEnvironment

pytestmark = pytest.mark.django_db


@pytest.fixture
def record(tmp_path: Path) -> Path:
    """Return the exported record of two threads, of which each has a decision."""
    with GraphEnvironment() as hitl:
        for text in ("A", "B"):
            hitl.start("approval", {"text": text})
            hitl.decide(f"Publish {text}?", "approve", reason="Fine.")
    file = tmp_path / "record.jsonl"
    out = io.StringIO()
    call_command("hitl", "export-audit", "--since", "2020-01-01", stdout=out)
    file.write_text(out.getvalue())
    return file


def verify(*arguments: Any) -> tuple[str, str]:
    """Return the reported faults and the last line."""
    out, err = io.StringIO(), io.StringIO()
    try:
        call_command("hitl", "verify-audit", *map(str, arguments), stdout=out, stderr=err)
    except CommandError as error:
        return err.getvalue(), str(error)
    return err.getvalue(), out.getvalue()


def test_verify_audit_command_reports_intact_log_in_database_and_exported_file(
    record: Path,
) -> None:
    assert verify() == ("", "The audit log is intact.\n")
    assert verify("--file", record) == ("", "The audit log is intact.\n")
    entries = [json.loads(line) for line in record.read_text().splitlines()]
    assert {entry["verb"] for entry in entries} >= {"start", "decide"}


@pytest.mark.parametrize(
    "change",
    [
        lambda entries: entries[1].update(actor="eve"),
        lambda entries: entries[1].update(hashed=entries[1]["hashed"].replace("decide", "start")),
        lambda entries: entries.pop(0),
        lambda entries: entries.insert(0, entries.pop(1)),
        lambda entries: entries.insert(1, dict(entries[0])),
        lambda entries: entries[0].update(thread_id="another"),
    ],
    ids=["actor", "text", "removed", "moved", "repeated", "thread"],
)
def test_verify_audit_command_reports_line_of_change_in_exported_file(
    record: Path, change: Any
) -> None:
    entries = [json.loads(line) for line in record.read_text().splitlines()]
    change(entries)
    record.write_text("".join(json.dumps(entry) + "\n" for entry in entries))
    faults, said = verify("--file", record)
    assert "line " in faults
    assert said.endswith(("is broken.", "are broken."))


@pytest.mark.parametrize("is_file", [False, True])
def test_verify_audit_command_shows_progress_on_a_terminal(
    record: Path, monkeypatch: pytest.MonkeyPatch, is_file: bool
) -> None:
    monkeypatch.setattr("hitl_django.management.progress.TERMINAL_INTERVAL", 0.0)
    err = io.StringIO()
    err.isatty = lambda: True  # type: ignore[method-assign]
    file = str(record) if is_file else None
    call_command("hitl", "verify-audit", file=file, stdout=io.StringIO(), stderr=err, no_color=True)
    assert ("\r1 entry" if is_file else "\r1 thread") in err.getvalue()
    assert err.getvalue().endswith("\r")


def test_verify_audit_command_names_thread_and_audit_entry_of_changed_row(record: Path) -> None:
    first = AuditEntry.objects.filter(seq=2).order_by("pk").first()
    assert first is not None
    AuditEntry.objects.filter(pk=first.pk).update(verb="cancel")
    faults, said = verify()
    broken, forged = faults.splitlines()
    assert broken == f"{first.thread.thread_id}: entry 2"
    assert "isn't in the audit log" in forged  # the decision that the entry was about
    assert said == "The audit log of 1 thread is broken."


def test_verify_audit_command_with_json_prints_line_thread_and_entry_of_each_fault(
    record: Path,
) -> None:
    entries = [json.loads(line) for line in record.read_text().splitlines()]
    entries[1]["actor"] = "eve"
    record.write_text("".join(json.dumps(entry) + "\n" for entry in entries))
    out = io.StringIO()
    call_command("hitl", "verify-audit", "--json", stdout=out)
    assert out.getvalue() == ""
    with pytest.raises(CommandError):
        call_command("hitl", "verify-audit", "--json", "--file", str(record), stdout=out)
    thread, seq = entries[1]["thread_id"], entries[1]["seq"]
    assert json.loads(out.getvalue()) == {"line": 2, "thread": thread, "entry": seq}


def test_verify_audit_command_rejects_unreadable_files_and_files_in_another_format(
    tmp_path: Path,
) -> None:
    (tmp_path / "a").write_text("{}\n")
    assert verify("--file", tmp_path / "a")[1] == "Line 1 is not an audit log entry."
    assert verify("--file", tmp_path / "b")[1].startswith(f"Can't read {tmp_path / 'b'}: ")


def test_export_audit_command_with_end_before_start_raises_command_error() -> None:
    with pytest.raises(CommandError, match="end date is before the start date"):
        call_command("hitl", "export-audit", "--since", "2020-01-02", "--until", "2020-01-01")
