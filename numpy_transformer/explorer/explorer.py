"""The explorer in Python: `nt.explore(model, inputs, targets, criterion)` shows a training step as a page."""

import html
import tempfile
import webbrowser
from pathlib import Path
from typing import Any

import numpy as np

from ..module import Module
from ..outputs import check_output, write_output
from .arrays import ArrayExample
from .page import MARK, render
from .server import PageServer
from .session import LARGEST_PAGE, Session
from .wording import sentence

AGREES = 1e-5                                   # relative error of a right gradient, at most


def explore(model: Any, inputs: Any, targets: np.ndarray | None = None, criterion: Module | None = None, *,
            tokens: Any = None, title: str | None = None, proof: bool = True) -> "Explorer":
    """Records one training step of a model and returns it as a page to explore: an `Explorer`.

    The step is computed by a float64 copy of the model with dropout off; the model itself stays unchanged. In a notebook,
    the page stands in the cell's output. Elsewhere, use `.open()` or `.save("page.html")`.

    Parameters:
        model : Module, or any object with forward and backward and with components in its attributes
        inputs : array, or tuple of arrays if forward takes several
        targets : array, the second argument of the criterion; None if the criterion takes the output alone
        criterion : a loss with forward and backward; None means CrossEntropyLoss() if there are targets, and otherwise
            the sum of the output
        tokens : names of the ids, for the labels of rows and columns: a list of strings for each sequence of the batch, or
            a dict as in explorer/FORMAT.md, such as {"source": [["the", "cat"]], "vocabulary": ["the", "cat", "sat"]}
        title : str, the title of the page; None means the class of the model
        proof : bool; whether a tiny model's gradients are computed by finite differences too, which takes seconds; the more
            operations the model has, the longer
    """
    session = Session(ArrayExample(model, inputs, targets, criterion, tokens, title))
    if proof:
        session.prove()
    return Explorer(session)


class Explorer:
    """One training step as a page: `document` (FORMAT.md), `save(path)`, `open()`, `serve()`; a notebook shows it."""

    def __init__(self, session):
        self.session = session

    def __repr__(self):
        step = self.session.base
        loss = f"loss={step.loss:.4g}"
        if step.graph.loss.producer is not None and step.graph.loss.producer.kind == "sum":
            loss = f"{sentence('page.header.sum')}={step.loss:.4g}"
        return (f"Explorer({step.title!r}, {loss}, {len(step.ops)} operations, {len(step.arrays)} arrays"
                f"{self.verdict()}); use .open(), .save('page.html') or .serve()")

    def verdict(self):
        """Returns what the comparison with finite differences found, as text after a comma; "" if there was none."""
        proof = self.session.proof
        if proof is None:
            return ""
        if proof["worst"] <= AGREES:
            return sentence("step.proof.agrees", worst=proof["worst"])
        return sentence("step.proof.differs", **self.worst())

    def worst(self):
        """Returns the array whose gradient contradicts finite differences most, as {"array": name, "error": number}.

        None if all agree, or if they were not compared.
        """
        proof = self.session.proof
        if proof is None or proof["worst"] <= AGREES:
            return None
        array = max(proof["errors"], key=lambda name: np.nan_to_num(proof["errors"][name], nan=np.inf))
        return {"array": array, "error": proof["errors"][array]}

    @property
    def document(self):
        """The document that a saved page contains, with all arrays that fit into it."""
        return self.session.saved_document()

    def save(self, path, start="", megabytes=LARGEST_PAGE):
        """Writes the page as one HTML file that works offline. Returns its path.

        An earlier page of the explorer is replaced; any other file is not.

        Parameters:
            path : str or Path that ends in .html
            start : the place at which the page opens: what its address has after the # there
            megabytes : size of all arrays of a large model, whose largest arrays are left out; the page says which
        """
        path = check_page(path)
        write_output(path, render(self.session.saved_document(megabytes), start).encode())
        return path

    def open(self):
        """Saves the page to a temporary file and opens it in the browser. Returns its path.

        The file stays until the system empties its folder of temporary files, so the page outlives the program.
        """
        return open_page(self.document)

    def serve(self, port=0, browser=True, start=""):
        """Serves the page on this machine, with everything that needs recomputation, until Ctrl-C.

        Parameters:
            port : int, 0 for a free one
            browser : whether to open the page in the browser
            start : the place at which the page opens, as in `save`
        """
        self.session.document()                 # takes a moment for the first page: what can be changed is tried
        with PageServer(self.session, port, self.session.example.title) as server:
            address = f"{server.address}#{start}" if start else server.address
            print(f"{address}  {sentence('step.browser.end')}", flush=True)
            if browser and not open_in_browser(address):
                print(sentence("step.browser.open_address"), flush=True)
            try:
                server.serve_forever(poll_interval=0.2)
            except KeyboardInterrupt:
                print(f"\n{sentence('step.browser.ended')}", flush=True)

    def _repr_html_(self):
        page = html.escape(render(self.document, in_frame=True))
        page = page.encode("ascii", "xmlcharrefreplace").decode()           # the same in every encoding of the notebook
        style = "display: block; box-sizing: border-box; width: 100%; height: 800px; border: 1px solid #8888"
        title, text = html.escape(self.session.example.title), html.escape(sentence("step.notebook.trust"), quote=False)
        return f'<iframe srcdoc="{page}" title="{title}" style="{style}">{text}</iframe>'


def open_page(document):
    """Saves the page of a document to a temporary file and opens it in the browser. Returns its path."""
    path = Path(tempfile.mkdtemp(prefix="explorer-"), "page.html")          # a folder that only this user can read
    write_output(path, render(document).encode())
    if not open_in_browser(path.as_uri()):
        print(sentence("step.browser.open_page", path=path))
    return path


def check_page(path):
    """Returns the Path of a page that will be written. Raises ValueError if it cannot, or would replace another file."""
    path = Path(path)
    if path.suffix.lower() not in (".html", ".htm"):
        raise ValueError(sentence("errors.explorer.html", path=str(path)))
    check_output(path)
    if path.exists():
        with open(path, "rb") as file:
            if MARK.encode() not in file.read(4096):
                raise ValueError(sentence("errors.explorer.exists", path=str(path)))
    return path


def open_in_browser(address):
    """Opens an address in the reader's browser. Returns whether there is one with a window."""
    try:
        browser = webbrowser.get()
    except webbrowser.Error:
        return False
    if type(browser) is webbrowser.GenericBrowser:          # one that runs in the terminal, and without scripts
        return False
    return browser.open(address)
