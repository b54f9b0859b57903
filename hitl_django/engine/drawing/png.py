"""PNG images of graphs, created with cairosvg."""

from __future__ import annotations

from ..extras import require_extra
from .picture import Picture, PlacedNode
from .svg import write_svg


def render_png(picture: Picture, background: str | None) -> bytes:
    """Return a picture as a PNG image, drawn in black on ``background``.

    ``background`` is a color, or None for a transparent background.

    Raises:
        MissingExtraError: cairosvg is not installed.
    """
    with require_extra("draw"):
        import cairosvg
    drawn = write_svg(picture, title="", description="", describe_node=_get_name)
    image: bytes = cairosvg.svg2png(
        bytestring=drawn.replace("currentColor", "black").encode(),
        background_color=background,
        scale=2,
    )
    return image


def _get_name(node: PlacedNode, state: str) -> str:
    return node.name
