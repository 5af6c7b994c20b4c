"""Writes the list of pictures in figures/README.md anew: `python -m helpers.gallery`, in the folder tests."""

import html

from helpers import ROOT
from PIL import Image

from numpy_transformer.cli.lesson import headline
from numpy_transformer.course.lessons.files import lessons_in
from numpy_transformer.views import drawings

PAGE = ROOT / "figures" / "README.md"


def gallery():
    """The pictures of each lesson, its drawings first, with their texts and their variants for dark pages."""
    for number, lesson in lessons_in(ROOT / "lessons").items():
        pictures = [path for path in sorted(PAGE.parent.glob(f"{number}_*.png")) if not path.stem.endswith("_dark")]
        pictures.sort(key=lambda path: not dark(path).exists())
        lines = [picture(path, path.stem[len(number) + 1:]) for path in pictures]
        yield f'<p><a href="../lessons/{lesson.name}">{number} {headline(lesson)[0]}</a><br>\n' + "\n".join(lines) + "</p>"


def picture(path, name):
    """One picture as HTML."""
    if not dark(path).exists():
        with Image.open(path) as plot:
            text = html.escape(plot.text.get("Description") or name.replace("_", " "))
        return f'<a href="{path.name}"><img src="{path.name}" alt="{text}" height="150"></a>'
    text = html.escape(drawings.text_of(name))
    source = f'<source media="(prefers-color-scheme: dark)" srcset="{dark(path).name}">'
    return f'<a href="{path.name}"><picture>{source}<img src="{path.name}" alt="{text}" height="150"></picture></a>'


def dark(path):
    return path.with_name(f"{path.stem}_dark.png")


if __name__ == "__main__":
    text = PAGE.read_text(encoding="utf-8")
    PAGE.write_text(text[:text.index("<p>")] + "\n".join(gallery()) + "\n", encoding="utf-8")
