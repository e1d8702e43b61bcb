"""Reads a report as a browser would, and complains of what a browser would forgive."""

from __future__ import annotations

from html.parser import HTMLParser

VOID = {"meta", "link", "br", "img", "hr", "input"}


class Page(HTMLParser):
    """Elements, identifiers and text of a page whose tags must match."""

    def __init__(self, html: str):
        super().__init__()
        self.open: list[str] = []
        self.found: list[tuple[str, dict[str, str]]] = []
        self.headings: list[str] = []
        self.texts: list[str] = []
        self.feed(html)
        self.close()
        assert not self.open, f"never closed: {self.open}"

    def handle_starttag(self, tag, attrs):
        self.found.append((tag, {name: value or "" for name, value in attrs}))
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.found.append((tag, dict(attrs)))

    def handle_endtag(self, tag):
        assert self.open and self.open[-1] == tag, f"</{tag}> closes {self.open[-1:]}"
        self.open.pop()

    def handle_data(self, data):
        if self.open and self.open[-1] == "style":
            return
        self.texts.append(data)
        if self.open and self.open[-1] in ("h1", "h2"):
            self.headings.append(data)

    @property
    def text(self) -> str:
        return " ".join(self.texts)

    def all(self, tag: str) -> list[dict[str, str]]:
        return [attrs for name, attrs in self.found if name == tag]


def check_page(html: str) -> Page:
    """A page that loads nothing, with identifiers that are unique and are there, and headed cells."""
    page = Page(html)
    tags = {tag for tag, _ in page.found}
    assert not tags & {"script", "img", "link", "iframe", "object"}
    assert all(a["href"].startswith("#") for a in page.all("a"))
    assert not any(name.startswith("on") or name == "src" for _, attrs in page.found for name in attrs)
    names = [attrs["id"] for _, attrs in page.found if "id" in attrs]
    assert len(names) == len(set(names)), "identifiers twice"
    asked = [name for _, attrs in page.found for name in attrs.get("aria-labelledby", "").split()]
    asked += [a["href"][1:] for a in page.all("a")]
    assert set(asked) <= set(names)
    assert all(cell.get("scope") in ("col", "row") for cell in page.all("th"))
    assert len(page.all("table")) == len(page.all("caption"))
    assert len(page.all("figure")) == len(page.all("figcaption"))
    assert all(d.get("role") == "img" or d.get("aria-hidden") == "true" for d in page.all("svg"))
    assert "nan" not in " ".join(attrs.get("d", "") for attrs in page.all("path")).lower()
    return page
