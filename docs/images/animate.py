"""``python docs/images/animate.py``: makes the animation of a request that is approved.

It starts the demo as ``take.py`` does, approves a refund, and follows its run to the end. The
frames are written to ``approve.png``, an animated PNG. It needs Playwright and Pillow.
"""

from __future__ import annotations

import io
import shutil
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from PIL import Image, ImageDraw
from playwright.sync_api import Locator, Page, ViewportSize, sync_playwright

from docs.images.take import PATIENCE, QUEUE, REFUND, running_demo, window

TARGET = Path(__file__).resolve().parent / "approve.png"
#: Maximum size of the animation in bytes.
MOST = 3_000_000
#: Size of the window, and width of the animation.
SIZE: ViewportSize = {"width": 1280, "height": 800}
WIDTH = 1000
SCALE = WIDTH / SIZE["width"]
#: Number of colors of a frame.
COLORS = 128
#: Corners of the drawn mouse pointer, relative to its tip.
POINTER = ((0, 0), (0, 19), (5, 15), (8, 22), (11, 21), (8, 14), (14, 14))
#: Steps of the pointer between two places, and their duration in milliseconds.
STEPS, STEP = 6, 50


@dataclass(slots=True)
class Film:
    """The frames of a page, each with its duration in milliseconds, and the pointer's place."""

    page: Page
    frames: list[Image.Image] = field(default_factory=list)
    durations: list[int] = field(default_factory=list)
    pointer: tuple[float, float] = (SIZE["width"] * 0.75, SIZE["height"] * 0.6)

    def show(self, milliseconds: int) -> None:
        """Add a frame of the page."""
        self._add(self._take(), milliseconds)

    def click(self, target: Locator) -> None:
        """Move the pointer to an element and click."""
        target.scroll_into_view_if_needed()
        box = target.bounding_box()
        assert box is not None, "the element is hidden"
        end = (box["x"] + min(box["width"] / 2, 120), box["y"] + box["height"] / 2)
        picture = self._take()
        for place in between(self.pointer, end):
            self.pointer = place
            self._add(picture, STEP)
        target.hover()
        self.show(400)
        target.click()
        self.page.wait_for_load_state()

    def save(self) -> None:
        """Write the animation."""
        first, *rest = self.frames
        first.save(
            TARGET, save_all=True, append_images=rest, duration=self.durations, loop=0,
            optimize=True,
        )  # fmt: skip

    def _take(self) -> Image.Image:
        picture = Image.open(io.BytesIO(self.page.screenshot())).convert("RGB")
        height = round(picture.height * SCALE)
        picture = picture.resize((WIDTH, height), Image.Resampling.LANCZOS)
        # Fewer colors make the file smaller. Only frames in RGB can be stored as differences.
        return picture.quantize(COLORS, dither=Image.Dither.NONE).convert("RGB")

    def _add(self, picture: Image.Image, milliseconds: int) -> None:
        frame = picture.copy()
        x, y = (SCALE * each for each in self.pointer)
        corners = [(x + dx, y + dy) for dx, dy in POINTER]
        ImageDraw.Draw(frame).polygon(corners, fill="white", outline="black", width=2)
        self.frames.append(frame)
        self.durations.append(milliseconds)


def between(start: tuple[float, float], end: tuple[float, float]) -> Iterator[tuple[float, float]]:
    """Yield the places of the pointer on its way."""
    for step in range(1, STEPS + 1):
        part = step / STEPS
        eased = part * part * (3 - 2 * part)
        yield (
            start[0] + (end[0] - start[0]) * eased,
            start[1] + (end[1] - start[1]) * eased,
        )


def approve(film: Film) -> None:
    """Approve a request, and show its run before and after it resumes."""
    page = film.page
    page.goto(QUEUE)
    film.show(1500)
    film.click(page.get_by_role("link", name=REFUND, exact=True))
    film.show(1500)
    run = page.locator("a[href*='/run/'][href*='/change/']").first.get_attribute("href")
    assert run is not None, "the request has no link to its run"
    note = page.get_by_label("Note to the customer")
    film.click(note)
    text = "Sorry about the shoes. The refund is on its way."
    for end in range(12, len(text) + 12, 12):
        note.press_sequentially(text[end - 12 : end])
        film.show(120)
    film.show(500)
    film.click(page.get_by_role("button", name="Approve", exact=False).first)
    page.locator(".hitl-toast").first.wait_for()  # The next request is shown without a new page.
    film.show(1800)
    page.goto(run)
    film.show(1500)
    page.wait_for_timeout(1000)
    state = page.get_by_text("succeeded").first
    for _ in range(int(PATIENCE)):
        if state.is_visible():
            break
        page.wait_for_timeout(1000)
        page.reload()
    film.show(3000)


def main() -> None:
    """Make the animation."""
    executable = shutil.which("chromium") or shutil.which("chromium-browser")
    with running_demo() as address, sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=executable, args=["--no-sandbox"])
        with window(browser, address, SIZE, "rita") as page:
            film = Film(page)
            approve(film)
            film.save()
        browser.close()
    size = TARGET.stat().st_size
    sys.stdout.write(f"{TARGET.name}: {len(film.frames)} frames, {size // 1000} KB\n")
    if size > MOST:
        raise SystemExit(f"{TARGET.name} is larger than {MOST} bytes.")


if __name__ == "__main__":
    main()
