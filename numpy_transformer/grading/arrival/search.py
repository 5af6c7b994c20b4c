"""Looks through everything that one student handed in for Python source, in folders, archives and notebooks."""

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
MOST_FILES, MOST_BYTES = 20_000, 1 << 28        # of one student


@dataclass
class FoundFile:
    """Python source that was found.

    Parameters:
        name : the name that the student gave to the file
        path : names from the student's folder to the file, its own included
        answers : numbers of the exercises that it counts for
        spare : numbers of exercises whose functions it defines too; it counts for them if no other file does
        mislabeled : True if its name speaks of another exercise
        sources : {number: source}, "" for the source of the whole file
        is_starter : True if it came with the assignment
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

    def source(self, number):
        return self.sources.get(number, self.sources.get("", ""))


@dataclass
class Search:
    """What was found of one student.

    Parameters:
        problems : (where, number, sentence) of what could not be read
        strays : (where, sentence) of what is no work on an exercise, as far as one can tell without reading it
        others : names of files that are of no interest
    """

    found: list = field(default_factory=list)
    problems: list = field(default_factory=list)
    strays: list = field(default_factory=list)
    others: list = field(default_factory=list)
    files: int = 0
    bytes: int = 0

    def visit(self, item, name=None, folders=(), depth=0):
        """Looks at a file, or at a folder or an archive and everything in it.

        Parameters:
            name : the student's own name for the file, if the system put something before it
            folders : names of the folders around it, the nearest first
            depth : number of archives around it
        """
        name = item.name if name is None else name
        self.files += 1
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

    def visit_archive(self, item, name, folders, depth):
        if depth >= archives.DEPTH:
            raise Unreadable("is an archive in too many other archives; hand in only the files with your code")
        self.count(item)
        with archives.opened(item) as top:
            for child in top.children():
                self.visit(child, None, (name, *folders), depth + 1)

    def visit_file(self, item, name, folders):
        stem = names.stem_of(name)
        suffix = "." + name.rpartition(".")[2].lower() if "." in name.lstrip(".") else ""
        if stem is not None or not suffix:
            self.count(item)
            self.read(item, name, folders, name if stem is None else stem)
        elif suffix in (".html", ".htm") and not item.problem:
            self.count(item)
            self.read_page(item, name)
        elif suffix in KINDS:
            remedy = "hand in a zip or the .py files" if suffix in PACKED else HAND_IN
            raise Unreadable(f"is {KINDS[suffix]}, which is not read; {remedy}")
        elif item.problem:
            raise Unreadable(item.problem)
        elif not name.startswith("."):
            self.others.append(name)

    def count(self, item):
        self.bytes += item.size
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
        every, remarks = notebooks.code_cells(content)
        for cell in every:
            written = names.stem_of(cell.writes.rpartition("/")[2]) if cell.writes else None
            if written:
                self.add(item, cell.writes.rpartition("/")[2], (name, *folders), written, cell.source, [], True)
        every = [cell for cell in every if not cell.writes]
        tagged = {}
        for cell in every:
            for number in {number for tag in cell.tags for number in names.tagged(tag)}:
                tagged.setdefault(number, []).append(cell)
        plain, marks = names.split_marks(stem)
        whole = "\n\n".join(cell.source for cell in every) + "\n"
        answers, spare, defined, mislabeled = names.exercises_answered(plain, folders, statements(whole))
        answers = tuple(sorted({*answers, *tagged}))
        by_number = {number: name for name, number in names.functions().items()}
        sources = {number: notebooks.code_for(by_number[number], every, tagged.get(number, ()))
                   for number in (*answers, *spare) if number in defined or number in tagged}
        self.found.append(FoundFile(name, item.where, (*reversed(folders), name), {"": whole, **sources}, marks,
                                item.modified, answers, spare, defined, mislabeled, remarks))

    def add_problem(self, item, name, folders, sentence):
        plain, _ = names.split_marks(names.stem_of(name) or re.sub(r"\.\w+$", "", name))
        numbers, _ = names.numbers_of(plain, folders, frozenset())
        may_hold_code = item.is_folder or archives.is_archive(name) or names.stem_of(name) is not None
        is_unknown = bool(item.problem) and "." not in name or name.lower().endswith(tuple(PACKED))
        if numbers or may_hold_code or is_unknown:
            self.problems.append((item.where, numbers[0] if numbers else "", sentence))
        else:
            self.strays.append((item.where, sentence))

    def unassigned(self):
        """Returns the names of files that belong to no exercise."""
        return {*self.others, *(where.rpartition("/")[2] for where, _ in self.strays),
                *(one.name for one in self.found if not one.answers and not one.spare)}

    def forget(self, those):
        """Drops what `unassigned` names, except Python files, which others may import."""
        self.others = [name for name in self.others if name not in those]
        self.strays = [stray for stray in self.strays if stray[0].rpartition("/")[2] not in those]
        for one in self.found:
            one.is_starter = one.name in those and not one.answers


def text_of_page(page):
    """Returns the text of an HTML page, with a new line for each paragraph, line break and list entry."""
    body = re.sub(r"<(?:/?(?:p|div|li|pre|tr)|br)\b[^<>]*>", "\n", page[max(0, page.find("<body")):], flags=re.I)
    return html.unescape(re.sub(r"</?[a-z][^<>]*>", "", body, flags=re.I)).replace("\xa0", " ").strip() + "\n"
