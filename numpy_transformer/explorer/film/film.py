"""A film of a training run: frames are recorded while a Trainer trains, and become one page."""

import math

import numpy as np

from ...outputs import write_output
from ...threads import limited_blas_threads
from ..explorer import check_page
from ..naming import STACKS, joined_words, spoken, words_of
from ..page import FILM, render
from ..wording import sentence
from .budget import (MOST_POINTS, MOST_VALIDATIONS, block_length, cells, evenly, plan_attention, plan_parameters,
                     steps_of_frames)
from .fixed_example import GUESSES, MOST_CLASSES
from .pictures import as_json, pool, signed_bytes, unsigned_bytes

EVERY_SAMPLE = 4                                # frames: to write a text takes longer than all else in a frame


class Film:
    """Records a Trainer's next `steps` steps; the training goes on as it would without it.

        film = Film(trainer, steps=800)
        trainer.fit(batches, steps=800, after_step=film.watch)
        film.save("film.html")

    A frame shows the weights after its step, and the gradients that the step used, as they were before clipping.

    Parameters:
        trainer : Trainer; the first frame shows its model as it is now, before the first step
        steps : int, the number of steps that are planned
        example : FixedExample that the model reads in every frame, or None
        title : str, the title of the page; None means the class of the model
    """

    def __init__(self, trainer, steps, example=None, title=None):
        self.trainer, self.example = trainer, example
        self.title = title or type(trainer.model).__name__
        self.first, self.planned = trainer.steps, trainer.steps + steps
        self.steps = steps_of_frames(self.first, self.planned)
        self.named = trainer.model.named_parameters(trained=True)
        self.side, self.shown = plan_parameters([parameter.data.shape for _, parameter in self.named], len(self.steps))
        with limited_blas_threads(1):
            self.layers = example.layers() if example else []
        self.kept_layers, self.heads = self.plan_attention()
        self.frames, self.norms, self.pictures = [], [], []
        self.predicted, self.attention, self.samples = [], [], []
        self.record()

    def __repr__(self):
        return f"Film({self.title!r}, {len(self.frames)} of {len(self.steps)} frames)"

    def plan_attention(self):
        shapes = [weights.shape for _, weights in self.example.attention()] if self.example else []
        return plan_attention(shapes, len(self.steps))

    def watch(self, trainer):
        """Records a frame if one is planned for the step that has just been done; `after_step` of Trainer.fit."""
        if trainer.steps in self.steps:
            self.record()

    def record(self):
        row = self.trainer.history[-1] if self.trainer.steps > self.first else None
        self.frames.append({"step": self.trainer.steps, "loss": row and row["loss"], "norm": row and row["norm"],
                            "lr": row and row["lr"]})
        with limited_blas_threads(1):           # these matrices are small
            self.record_parameters(self.unclipped(row))
            if self.example:
                self.record_example()

    def unclipped(self, row):
        """Returns the factor that undoes the clipping of the gradients; None before the first step, which has none."""
        if row is None:
            return None
        clip = self.trainer.clip
        return max(1.0, row["norm"] / clip) if clip else 1.0

    def record_parameters(self, factor):
        norms, pictures = [], []
        for number in self.shown:
            _, parameter = self.named[number]
            weights = pool(parameter.data, self.side)
            grad = np.zeros_like(weights) if factor is None else pool(parameter.grad, self.side) * factor
            norm_of_grad = math.nan if factor is None else np.linalg.norm(parameter.grad) * factor
            norms.append((np.linalg.norm(parameter.data), norm_of_grad))
            pictures.append((weights, grad))
        self.norms.append(norms)
        self.pictures.append(pictures)

    def record_example(self):
        p, attention = self.example.probabilities()
        best = np.argsort(-p, kind="stable")[:, :self.guesses]
        self.predicted.append((np.take_along_axis(p, self.example.right[:, None], 1)[:, 0], best,
                               np.take_along_axis(p, best, 1)))
        self.attention.append([unsigned_bytes(attention[layer][1][:self.heads]) for layer in self.kept_layers])
        if (len(self.frames) - 1) % EVERY_SAMPLE == 0 or self.trainer.steps == self.planned:
            text = self.example.writes()
            if text is not None:
                self.samples.append({"frame": len(self.frames) - 1, "text": text})

    @property
    def guesses(self):
        return min(len(self.example.names), MOST_CLASSES if self.example.kind == "class" else GUESSES)

    def save(self, path):
        """Writes the page. An earlier page of the explorer is replaced; any other file is not. Returns its path."""
        path = check_page(path)
        write_output(path, render(self.document(), page=FILM).encode())
        return path

    def document(self):
        """Returns what the page shows, as FORMAT.md describes it."""
        model = self.trainer.model
        return {"format": "numpy-transformer-film", "version": 1, "title": self.title,
                "model": {"class": type(model).__name__, "parameters": model.num_parameters()},
                "run": {"first": self.first, "last": self.trainer.steps, "planned": self.planned, "clip": self.trainer.clip,
                        "label_smoothing": getattr(self.trainer.criterion, "label_smoothing", 0.0)},
                "frames": self.frames, "curves": self.curves(), "validation": self.validations(),
                "parameters": self.parameters(), "norms": self.norms_of_parameters(),
                "example": self.example and self.describe_example(), "attention": self.attention_maps(),
                "left_out": self.left_out()}

    def curves(self):
        """Returns loss, learning rate and norm of every step, or the means of some steps each if there are many."""
        rows = self.trainer.history[self.first:]
        length = block_length(len(rows), MOST_POINTS)
        blocks = [rows[i:i + length] for i in range(0, cells(len(rows), MOST_POINTS) * length, length)] if rows else []
        curves = {name: as_json(np.array([np.mean([row[name] for row in block]) for block in blocks], np.float32))
                  for name in ("loss", "lr", "norm")}
        return {"every": length, "step": as_json(np.array([block[-1]["step"] for block in blocks], np.int32)), **curves}

    def validations(self):
        rows = [row for row in self.trainer.history[self.first:] if "validation" in row]
        return [{"step": rows[i]["step"], "loss": rows[i]["validation"]} for i in evenly(len(rows), MOST_VALIDATIONS)]

    def parameters(self):
        described = []
        for place, number in enumerate(self.shown):
            name, parameter = self.named[number]
            entry = {"name": name, **self.title_of(name), "shape": list(parameter.data.shape)}
            for part, kind in enumerate(("weights", "gradients")):
                codes, scales = signed_bytes([frame[place][part] for frame in self.pictures])
                entry[kind] = {"codes": as_json(codes), "scales": as_json(scales)}
            described.append(entry)
        return described

    def title_of(self, name):
        """Returns {"group": "block 0", "title": "attention, query: weight"}; the group is "" outside the blocks."""
        both = all(hasattr(self.trainer.model, stack) for stack in STACKS)
        *place, array = words_of(name)
        words = [word for word in place if both or word not in STACKS]
        inside = next((i + 1 for i, word in enumerate(words) if word.startswith("block ")), 0)
        group, rest = joined_words(words[:inside]), joined_words(words[inside:])
        return {"group": spoken(group), "title": spoken(": ".join(filter(None, [rest, array])))}

    def norms_of_parameters(self):
        norms = np.array(self.norms, np.float32).reshape(len(self.frames), -1, 2)
        return {"weights": as_json(norms[..., 0]), "gradients": as_json(norms[..., 1])}

    def describe_example(self):
        right, best, probabilities = (np.array(column) for column in zip(*self.predicted))
        used, places = np.unique(best, return_inverse=True)
        example = self.example
        return {"text": example.text, "target": example.target, "kind": example.kind, "rows": example.rows(),
                "names": [example.names[i] for i in used], "right": as_json(right.astype(np.float32)),
                "best": as_json(places.reshape(best.shape).astype(np.int32)),
                "is_right": as_json((best[..., 0] == example.right).astype(np.uint8)),
                "probabilities": as_json(probabilities.astype(np.float32)), "start": example.start(), "samples": self.samples}

    def attention_maps(self):
        return [{**self.layers[layer], "weights": as_json(np.array([frame[place] for frame in self.attention]))}
                for place, layer in enumerate(self.kept_layers)]

    def left_out(self):
        """Returns sentences on what the page does not show."""
        sentences = []
        if self.first:
            sentences.append(sentence("film.left_out.resumed", step=self.first))
        if self.trainer.steps < self.planned:
            sentences.append(sentence("film.left_out.stopped", last=self.trainer.steps, planned=self.planned))
        if len(self.shown) < len(self.named):
            sentences.append(sentence("film.left_out.parameters", shown=len(self.shown), of=len(self.named)))
        if len(self.named) < len(self.trainer.model.parameters()):
            sentences.append(sentence("film.left_out.frozen"))
        if self.example is None:
            sentences.append(sentence("film.left_out.example"))
        elif not self.layers:
            sentences.append(sentence("film.left_out.attention"))
        if len(self.kept_layers) < len(self.layers):
            sentences.append(sentence("film.left_out.layers", shown=len(self.kept_layers), of=len(self.layers)))
        most = max((weights.shape[0] for _, weights in self.example.attention()), default=0) if self.example else 0
        if 0 < self.heads < most:
            sentences.append(sentence("film.left_out.heads", shown=self.heads, of=most))
        return sentences
