"""The film of a run of `train`: checked before the run starts, recorded while it trains, and saved however it ends."""

import os

# The explorer is imported inside the functions: only a run with a film needs it.


class FilmFile:
    """A Film and the file to which it will be written."""

    def __init__(self, film, path):
        self.film, self.path = film, path
        self.watch = film.watch

    def save(self):
        """Writes the page and returns the line that says so."""
        from ..explorer.wording import sentence

        path = self.film.save(self.path)
        return sentence("film.command.saved", path=str(path), frames=len(self.film.frames),
                        megabytes=path.stat().st_size / 1e6)


def check_film(path, out):
    """Raises ValueError if the page could not be written there, or would replace anything but such a page."""
    if path is None:
        return
    from ..explorer.explorer import check_page
    from ..explorer.wording import sentence

    if os.path.realpath(path) == os.path.realpath(out):
        raise ValueError(sentence("film.command.run", path=path))
    check_page(path)


def start_film(path, trainer, task):
    """Returns the FilmFile that records what is left of a run, or None if none is wanted or nothing is left."""
    if path is None:
        return None
    from ..explorer.film import Film, example_of
    from ..explorer.wording import sentence

    steps = task.settings["steps"] - trainer.steps
    if steps <= 0:
        print(sentence("film.command.nothing"), flush=True)
        return None
    title = sentence(f"step.model.{'text_classifier' if task.name == 'classifier' else task.name}")
    return FilmFile(Film(trainer, steps, example_of(task, trainer.model), title), path)
