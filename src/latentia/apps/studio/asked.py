"""What requests bring, checked: anything else than what the page sends is refused."""

from __future__ import annotations

import json

from latentia.apps import JsonObject
from latentia.apps.studio.board import INK, SIDE
from latentia.apps.studio.problems import Problem
from latentia.persistence.format import Json

MAX_TEXT = 1000


def parse(body: bytes) -> JsonObject:
    """A JSON object."""
    try:
        found = json.loads(body)
    except (ValueError, RecursionError):
        raise Problem("The request is no JSON.", 400) from None
    if not isinstance(found, dict):
        raise Problem("The request is no JSON object.", 400)
    return found


def example(asked: JsonObject) -> JsonObject:
    return {"name": _text(asked, "name")}


def nothing(asked: JsonObject) -> JsonObject:
    return {}


def fit(asked: JsonObject) -> JsonObject:
    kinds = asked.get("kinds", {})
    if not isinstance(kinds, dict) or not all(isinstance(kind, str) for kind in kinds.values()):
        raise _wrong("kinds", "an object from column to kind")
    return {"target": _text(asked, "target"), "kinds": kinds, "effort": _text(asked, "effort")}


def row(asked: JsonObject) -> JsonObject:
    number, changes = asked.get("row"), asked.get("changes", {})
    if not isinstance(number, int) or isinstance(number, bool):
        raise _wrong("row", "the number of a row")
    if not isinstance(changes, dict) or not all(_is_cell(cell) for cell in changes.values()):
        raise _wrong("changes", "an object from column to text or null")
    return {"row": number, "changes": changes}


def drawing(asked: JsonObject) -> JsonObject:
    pixels = asked.get("pixels")
    if not isinstance(pixels, list) or len(pixels) != SIDE * SIDE or not all(_is_pixel(p) for p in pixels):
        raise _wrong("pixels", f"{SIDE * SIDE} numbers from 0 to {INK:.0f}, or null where the picture is unknown")
    return {"pixels": pixels}


def _is_cell(cell: Json) -> bool:
    return cell is None or (isinstance(cell, str) and len(cell) <= MAX_TEXT)


def _is_pixel(pixel: Json) -> bool:
    return pixel is None or (isinstance(pixel, int | float) and not isinstance(pixel, bool) and 0 <= pixel <= INK)


def _text(asked: JsonObject, name: str) -> str:
    found = asked.get(name)
    if not isinstance(found, str) or len(found) > MAX_TEXT:
        raise _wrong(name, "text")
    return found


def _wrong(name: str, expected: str) -> Problem:
    return Problem(f"{name} of the request is not {expected}.", 400)
