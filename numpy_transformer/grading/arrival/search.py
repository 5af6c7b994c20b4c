"""Looks through everything that one student handed in for Python source, in folders, archives and notebooks.

The feedback names each file that cannot be read, and the student's other files are still read.
"""

import html
import re
from dataclasses import dataclass, field
from datetime import datetime

from . import archives, names, notebooks
from .items import LARGEST, Unreadable
from .reading import kind_of_content, source
from .statements import statements

DOCUMENTS = {
    "a PDF file": ".pdf", "a document of a word processor": ".doc .docx .odt .rtf .pages .wpd",
    "a compiled Python file": ".pyc .pyo", "an image": ".png .jpg .jpeg .heic .gif .webp .bmp .tif .tiff",
    "a RAR archive": ".rar", "a 7z archive": ".7z", "a compressed file": ".gz .bz2 .xz .zipx .sit",
    "a link to something elsewhere":
    ".url .webloc .lnk .gdoc .alias", "a file of another program": ".xlsx .pptx .mlx .m .java .cpp .c .r .js"}
KINDS = {suffix: kind for kind, suffixes in DOCUMENTS.items() for suffix in suffixes.split()}
PACKED = {".rar", ".7z", ".gz", ".bz2", ".xz", ".zipx", ".sit"}
HAND_IN = "hand in the .py file, or a notebook (.ipynb)"
DEEPEST = 15                                    # folders in folders
MOST_FILES, MOST_BYTES = 20_000, 1 << 28        # of one student, unpacked


class OutOfTime(Exception):
    """Raised, wherever the program is, when the time for reading what one student handed in has run out."""


@dataclass
class FoundFile:
    """Python source that was found.

    Parameters:
        name : the name that the student gave to the file
        path : names from the student's folder to the file, its own included
        answers : numbers of the exercises or stages that it counts for
        spare : numbers of exercises whose functions it defines too; it counts for them if no other file does
        mislabeled : True if its name speaks of another exercise
        is_starter : True if it came with the assignment
        is_beside_stages : True if it lies beside stages and counts for nothing, so that they may import it
        sources : {number: source}, "" for the source of the whole file
    """

    name: str
    where: str
    path: tuple
    sources: dict
    marks: names.CopyMarks
    modified: datetime | None = None
    answers: tuple = ()
    spare: tuple = ()
    defined: frozenset = frozenset()
    mislabeled: bool = False
    remarks: list = field(default_factory=list)
    is_starter: bool = False
    is_beside_stages: bool = False

    def source(self, number):
        return self.sources.get(number, self.sources.get("", ""))


@dataclass
class Search:
    """What was found of one student.

    Parameters:
        problems : (where, number, sentence) of what could not be read
        strays : (where, sentence) of what is no work on an exercise, as far as one can tell without reading it
        others : names of files that are of no interest
        is_over : True after the time has run out; no further file is read
    """

    found: list = field(default_factory=list)
    problems: list = field(default_factory=list)
    strays: list = field(default_factory=list)
    others: list = field(default_factory=list)
    files: int = 0
    bytes: int = 0
    is_over: bool = False

    def visit(self, item, name=None, folders=(), depth=0):
        """Looks at a file, or at a folder or an archive and everything in it.

        Parameters:
            name : the student's own name for the file, if the system put something before it
            folders : names of the folders around it, the nearest first
            depth : number of archives around it
        """
        name = item.name if name is None else name
        self.files += 1
        if self.is_over:
            return
        try:
            if self.files > MOST_FILES or len(folders) > DEEPEST:
                raise Unreadable("is one of too many files or folders; hand in only the files with your code")
            if item.is_folder:
                for child in item.children():
                    self.visit(child, None, (name, *folders), depth)
            elif archives.is_archive(name) and not item.problem:
                self.visit_archive(item, name, folders, depth)
            else:
                self.visit_file(item, name, folders)
        except Unreadable as error:
            self.add_problem(item, name, folders, str(error))
        except OutOfTime:
            self.is_over = True
            self.add_problem(item, name, folders, "was not read to its end, and nothing after it, because reading all that "
                             "was handed in took too long; hand in only the files with your code")
        except Exception as error:              # whatever a file can do to a parser is a problem of this file
            self.add_problem(item, name, folders, f"could not be read ({type(error).__name__}); save it again, or hand in a "
                             ".py file")

    def visit_archive(self, item, name, folders, depth):
        if depth >= archives.DEPTH:
            raise Unreadable("is an archive in too many other archives; hand in only the files with your code")
        self.count(item.size)
        try:
            with archives.opened(item) as top:
                self.count(top.size)
                for child in top.children():
                    self.visit(child, None, (name, *folders), depth + 1)
        except archives.TooMuch:
            self.bytes += archives.LARGEST      # which it has taken to find out
            raise

    def visit_file(self, item, name, folders):
        stem = names.stem_of(name)
        suffix = "." + name.rpartition(".")[2].lower() if "." in name.lstrip(".") else ""
        if stem is not None or not suffix:
            self.count(item.size)
            self.read(item, name, folders, name if stem is None else stem)
        elif suffix in (".html", ".htm") and not item.problem:
            self.count(item.size)
            self.read_page(item, name)
        elif suffix in KINDS:
            remedy = "hand in a zip or the .py files" if suffix in PACKED else HAND_IN
            raise Unreadable(f"is {KINDS[suffix]}, which is not read; {remedy}")
        elif item.problem:
            raise Unreadable(item.problem)
        elif not name.startswith("."):
            self.others.append(name)

    def count(self, size):
        self.bytes += size
        if self.bytes > MOST_BYTES:
            raise Unreadable(f"was not read, because all files together hold more than {MOST_BYTES >> 20} MB; hand in "
                             "only the files with your code")

    def read(self, item, name, folders, stem):
        """Reads a Python file, a text or a notebook."""
        may_be_notebook = name.lower().endswith((".ipynb", ".json", ".ipynb.txt"))
        if not may_be_notebook and name.lower().endswith(".txt") and item.size > LARGEST:
            self.others.append(name)
            return
        content = item.read(notebooks.LARGEST if may_be_notebook else LARGEST)
        if notebooks.is_notebook(content):
            self.read_notebook(content, item, name, folders, stem)
            return
        if may_be_notebook and content.lstrip()[:1] in (b"{", b""):
            raise Unreadable(f"is {'an empty file' if not content.strip() else 'a damaged notebook'}; save it again in "
                             "Jupyter, or hand in a .py file")
        if stem == name and kind_of_content(content):
            self.others.append(name)
            return
        text, remarks = source(content)
        is_python = stem != name and not name.lower().endswith(".txt")
        self.add(item, name, folders, stem, text, remarks, surely_python=is_python)

    def read_page(self, item, name):
        """Reads code that was typed into Canvas or Moodle, or saved as a web page, if that is what the page holds."""
        content = item.read()
        shows_outputs = b"jp-Cell" in content or b"nbconvert" in content        # the page of a notebook
        text = "" if shows_outputs else text_of_page(source(content)[0])
        if not names.defined_in(statements(text))[0]:
            raise Unreadable(f"is a web page without code that can be read; {HAND_IN}")
        stem = re.sub(r"\.html?$", "", name, flags=re.I)
        self.add(item, name, (), stem, text, [f"the code was taken from the page {name}"], surely_python=False)

    def add(self, item, name, folders, stem, text, remarks, surely_python):
        plain, marks = names.split_marks(stem)
        file_statements = statements(text)
        answers, spare, defined, mislabeled = names.exercises_answered(plain, folders, file_statements)
        if not surely_python and not answers:
            self.others.append(name)
            return
        self.found.append(FoundFile(name, item.where, (*reversed(folders), name), {"": text}, marks, item.modified, answers,
                                spare, defined, mislabeled, remarks))

    def read_notebook(self, content, item, name, folders, stem):
        cells, remarks = notebooks.code_cells(content)
        for cell in cells:
            written = cell.writes.rpartition("/")[2]
            if names.stem_of(written):
                self.add(item, written, (name, *folders), names.stem_of(written), cell.source, [], True)
        notebook = notebooks.Notebook([cell for cell in cells if not cell.writes])
        tagged = {}
        for cell in notebook.cells:
            for number in {number for tag in cell.tags for number in names.tagged(tag)}:
                tagged.setdefault(number, []).append(cell)
        plain, marks = names.split_marks(stem)
        answers, spare, defined, mislabeled = names.exercises_answered(plain, folders, notebook.statements)
        answers = tuple(sorted({*answers, *tagged}))
        by_number = {number: name for name, number in names.functions().items()}
        sources = {number: notebook.code_for(by_number[number], tagged.get(number, ()))
                   for number in (*answers, *spare) if number in defined or number in tagged}
        self.found.append(FoundFile(name, item.where, (*reversed(folders), name), {"": notebook.source, **sources}, marks,
                                item.modified, answers, spare, defined, mislabeled, remarks))

    def add_problem(self, item, name, folders, sentence):
        plain, _ = names.split_marks(names.stem_of(name) or re.sub(r"\.\w+$", "", name))
        numbers = [names.stage_in(plain)] if names.stage_in(plain) else names.numbers_of(plain, folders, frozenset())[0]
        may_hold_code = item.is_folder or archives.is_archive(name) or names.stem_of(name) is not None
        is_unknown = bool(item.problem) and "." not in name or name.lower().endswith(tuple(PACKED))
        if numbers or may_hold_code or is_unknown:
            self.problems.append((item.where, numbers[0] if numbers else "", sentence))
        else:
            self.strays.append((item.where, sentence))

    def forget(self, starters):
        """Drops files that came with the assignment and belong to no exercise. Python files stay, which others may import.

        Parameters:
            starters : their names
        """
        self.others = [name for name in self.others if name not in starters]
        self.strays = [stray for stray in self.strays if stray[0].rpartition("/")[2] not in starters]
        for one in self.found:
            one.is_starter = one.name in starters and not one.answers


def search_item(item, owner):
    """Returns the Search of an item that a student handed in."""
    search = Search()
    if owner.kind == "link":
        search.problems.append((item.where, "", "holds only a link to something elsewhere; hand in the file itself"))
    elif item.is_folder and not item.problem:
        try:
            for child in item.children():
                search.visit(child)
        except Unreadable as error:
            search.problems.append((item.where, "", str(error)))
    else:
        search.visit(item, owner.rest or item.name)
    return search


def text_of_page(page):
    """Returns the text of an HTML page, with a new line for each paragraph, line break and list entry."""
    body = re.sub(r"<(?:/?(?:p|div|li|pre|tr)|br)\b[^<>]*>", "\n", page[max(0, page.find("<body")):], flags=re.I)
    return html.unescape(re.sub(r"</?[a-z][^<>]*>", "", body, flags=re.I)).replace("\xa0", " ").strip() + "\n"
