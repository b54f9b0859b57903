"""Progress of a command, as a bar on a terminal or as occasional lines elsewhere."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from typing import TypeVar

from django.core.management.base import OutputWrapper

from hitl_django.json_text.sanitize import format_count

T = TypeVar("T")

WIDTH = 30
#: Seconds between two updates on a terminal, and between two lines in a log.
TERMINAL_INTERVAL, LOG_INTERVAL = 0.1, 10.0


class Progress:
    """Progress of a command in bytes or rows.

    ``total`` is the size of the input. ``total`` is None if the size is unknown, for example for a
    pipe, or too expensive to count. Without a total, only the number of processed bytes or rows is
    shown.
    """

    def __init__(self, stream: OutputWrapper, total: int | None = None) -> None:
        self.stream, self.total = stream, total
        self.terminal = stream.isatty()
        self.interval = TERMINAL_INTERVAL if self.terminal else LOG_INTERVAL
        self._shown_at = time.monotonic()
        self._width = 0

    def show(self, done: int, note: str) -> None:
        """Show the progress: ``done`` bytes or rows, and a ``note``.

        Nothing is shown if the last update was recent.
        """
        if time.monotonic() - self._shown_at < self.interval:
            return
        self._shown_at = time.monotonic()
        if self.terminal:
            self._draw(self._bar(done) + note)
        else:
            self.stream.write(note, str)

    def count(self, rows: Iterable[T], one: str, many: str) -> Iterator[T]:
        """Yield the rows, and show the number of processed rows, for example "3 runs".

        ``one`` and ``many`` are the noun in singular and plural.
        """
        for done, row in enumerate(rows, start=1):
            yield row
            self.show(done, format_count(done, one, many))
        self.clear()

    def clear(self) -> None:
        """Remove the bar, so that a line can be printed."""
        if self._width:
            self._draw("")
            self.stream.write("\r", str, "")

    def _bar(self, done: int) -> str:
        if not self.total:
            return ""
        part = min(done / self.total, 1.0)
        filled = round(part * WIDTH)
        return f"[{'#' * filled}{'.' * (WIDTH - filled)}] {part:4.0%}  "

    def _draw(self, text: str) -> None:
        # Pad the text to the previous width, so that it overwrites the previous text completely.
        self.stream.write(f"\r{text:<{self._width}}", str, "")
        self.stream.flush()
        self._width = len(text)
