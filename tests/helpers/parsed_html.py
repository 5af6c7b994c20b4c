"""Reads the HTML that a notebook shows: its tables and its text. It has to be well formed and to need nothing else."""

from html.parser import HTMLParser

VOID = {"br", "img", "hr"}


class Page(HTMLParser):
    """Attributes: tables (lists of rows of texts), captions, marked (texts of underlined cells), words (all text)."""

    def __init__(self, text):
        super().__init__()
        self.tables, self.captions, self.marked, self.words, self.open, self.tags = [], [], [], "", [], []
        self.is_marked = False
        self.feed(text)
        self.close()
        assert not self.open, f"not closed: {self.open}"

    def handle_starttag(self, tag, attributes):
        assert tag not in ("script", "link", "style", "iframe"), tag
        assert not {"src", "href", "onclick"} & {name for name, _ in attributes}, attributes
        self.tags.append(tag)
        if tag not in VOID:
            self.open.append(tag)
        if tag == "table":
            self.tables.append([])
        elif tag == "tr":
            self.tables[-1].append([])
        elif tag in ("td", "th"):
            self.tables[-1][-1].append("")
            self.is_marked = "underline" in (dict(attributes).get("style") or "")
        elif tag == "caption":
            self.captions.append("")

    def handle_endtag(self, tag):
        assert self.open and self.open.pop() == tag, f"</{tag}> closes nothing"

    def handle_data(self, text):
        self.words += text
        if self.open and self.open[-1] in ("td", "th"):
            self.tables[-1][-1][-1] += text
            if self.is_marked:
                self.marked.append(text)
        elif self.open and self.open[-1] == "caption":
            self.captions[-1] += text
