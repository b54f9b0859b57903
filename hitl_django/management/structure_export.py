"""Export of the graph structures on which active runs depend, without values of the state.

The format is JSON Lines. A line of kind ``structure`` contains a graph structure. Later lines of
kind ``run`` refer to this structure.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, TextIO

from hitl_django.engine.constants import START, TASKS
from hitl_django.engine.graph.fingerprint import UNKNOWN, GraphStructure, Load
from hitl_django.engine.savers.checkpoint import CheckpointTuple
from hitl_django.engine.types import Send
from hitl_django.json_text.strict_json import parse_strict

#: Parts of a checkpoint that are not channel values.
HEAD = ("v", "id", "ts", "channel_versions", "versions_seen", "updated_channels", "renamed")
METADATA = ("step", "graph_version")


@dataclass(frozen=True, slots=True)
class ActiveRun:
    """An active run and its stored graph structure.

    ``load`` reads the checkpoints of the run.
    """

    id: str
    graph: str
    version: str
    fingerprint: str
    is_pinned: bool
    structure: GraphStructure | None
    load: Load


class StructureExporter:
    """Writer of an export.

    Each graph structure is written once.
    """

    def __init__(self, stream: TextIO) -> None:
        self.stream = stream
        self._written: set[str] = set()

    def write(self, run: ActiveRun, heads: dict[str, CheckpointTuple]) -> None:
        """Write a run with its checkpoints.

        ``heads`` contains the newest checkpoint of each namespace. Channel values are written only
        as far as they determine the next nodes.
        """
        if run.structure is not None and run.fingerprint not in self._written:
            self._written.add(run.fingerprint)
            self._put(
                {"kind": "structure", "fingerprint": run.fingerprint, "structure": run.structure}
            )
        self._put(
            {
                "kind": "run",
                "run": run.id,
                "graph": run.graph,
                "version": run.version,
                "fingerprint": run.fingerprint,
                "pinned": run.is_pinned,
                "heads": {ns: _encode_head(saved) for ns, saved in heads.items()},
            }
        )

    def _put(self, line: dict[str, Any]) -> None:
        self.stream.write(json.dumps(line, ensure_ascii=False) + "\n")


def read_export(stream: TextIO) -> Iterator[ActiveRun]:
    """Yield the runs of an export.

    Raises:
        ValueError: if a line is invalid. The message contains the line's number.
    """
    structures: dict[str, GraphStructure] = {}
    for number, text in enumerate(stream, 1):
        if not text.strip():
            continue
        try:
            line = parse_strict(text)
            if line["kind"] == "structure":
                structures[line["fingerprint"]] = line["structure"]
                continue
            heads = {ns: _decode_head(head) for ns, head in line["heads"].items()}
            run = ActiveRun(
                line["run"], line["graph"], line["version"], line["fingerprint"], line["pinned"],
                structures.get(line["fingerprint"]), heads.get,
            )  # fmt: skip
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise ValueError(f"line {number} is not a valid export: {error}") from None
        yield run


def _encode_head(saved: CheckpointTuple) -> dict[str, Any]:
    checkpoint: Any = saved.checkpoint
    metadata: Any = saved.metadata
    return {
        **{name: checkpoint[name] for name in HEAD if name in checkpoint},
        "metadata": {name: metadata[name] for name in METADATA if name in metadata},
        "held": {
            name: _encode_values(value) for name, value in checkpoint["channel_values"].items()
        },
    }


def _encode_values(value: Any) -> Any:
    """Return a channel's value in the form for export.

    Only the parts that determine the next nodes are exported. Any other value becomes None.
    """
    if isinstance(value, list) and value and all(isinstance(sent, Send) for sent in value):
        return {"sent_to": [sent.node for sent in value]}
    if isinstance(value, set | frozenset):
        return {"reached": sorted(map(str, value))}
    if isinstance(value, tuple) and len(value) == 2 and isinstance(value[0], set | frozenset):
        return {"reached": sorted(map(str, value[0])), "finished": bool(value[1])}
    if isinstance(value, tuple) and len(value) == 2 and isinstance(value[1], bool):
        return {"finished": value[1]}
    return None


def _decode_head(head: dict[str, Any]) -> CheckpointTuple:
    checkpoint: Any = {name: head[name] for name in HEAD if name in head}
    checkpoint["channel_values"] = {
        name: _decode_values(name, value) for name, value in head["held"].items()
    }
    return CheckpointTuple({"configurable": {}}, checkpoint, head["metadata"])


def _decode_values(name: str, value: Any) -> Any:
    if value is None:
        return [] if name == TASKS else {} if name == START else UNKNOWN
    if "sent_to" in value:
        return [Send(node, UNKNOWN) for node in value["sent_to"]]
    reached = set(value["reached"]) if "reached" in value else UNKNOWN
    return (reached, value["finished"]) if "finished" in value else reached
