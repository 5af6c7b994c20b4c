"""Everything that reads files of strangers, for helpers/fuzzing.py: sound files, how they are damaged, what reads them."""

import contextlib
import io
import json
import shutil
import struct
from datetime import datetime, timedelta, timezone

import numpy as np

import numpy_transformer as nt
from numpy_transformer.cli import main
from numpy_transformer.course.exercises import choose
from numpy_transformer.data import (BytePairTokenizer, CharTokenizer, MixedTokenizer, StoryTokenizer, TextReader,
                                    WordTokenizer, read_conll, read_labeled, read_pairs)
from numpy_transformer.data.pretrained_tokenizer import PretrainedTokenizer
from numpy_transformer.data.tokenizers import tokenizer_from_json
from numpy_transformer.grading import anonymous, lateness, policy, report, shards
from numpy_transformer.grading.gradebooks.canvas import CanvasGradebook
from numpy_transformer.grading.gradebooks.moodle import MoodleWorksheet
from numpy_transformer.grading.gradebooks.people import match, people
from numpy_transformer.grading.gradebooks.roster import add_roster
from numpy_transformer.pretrained import load_pretrained
from numpy_transformer.pretrained.safetensors import TensorFile, write_safetensors
from numpy_transformer.tasks.imported_runs import run_of_folder
from numpy_transformer.tasks.runs import outline_run

from . import mutations
from .fuzzing import Reader
from .graded_rows import row
from .small_checkpoints import SMALL

TEXT = "the film was good. the film was bad.\n" * 20
SIZES = {"d_model": 8, "num_heads": 2, "num_layers": 1, "d_ff": 8, "rng": 0}


def command(*arguments):
    """Runs a command. A refusal is raised as ValueError with its sentence, like that of a reader in Python."""
    err = io.StringIO()
    with contextlib.redirect_stderr(err):
        code = main(list(map(str, arguments)))
    if code == 2:
        raise ValueError(err.getvalue().rstrip("\n"))
    assert code == 0, code


def make_runs(folder):
    """A run of each kind: a language model, an encoder-decoder, a classifier, one with LoRA, and a published one."""
    characters, words = CharTokenizer(TEXT), WordTokenizer.train(TEXT, 12)
    reader = TextReader(words, max_len=10)
    paths = [folder / f"{name}.npz" for name in ("lm", "pairs", "classifier", "published", "trained", "lora")]
    lm, pairs, classifier, published, trained, lora = paths
    nt.save_run(lm, nt.CausalLanguageModel(characters.vocab_size, **SIZES, max_len=16), characters)
    sizes = characters.vocab_size + 3, words.vocab_size + 3
    nt.save_run(pairs, nt.EncoderDecoder(*sizes, **SIZES, max_len=20), characters, words)
    nt.save_run(classifier, nt.SequenceClassifier(reader.vocab_size, **SIZES, max_len=10, num_classes=2), reader,
                labels=["bad", "good"])
    nt.save_run(published, load_pretrained(SMALL / "gpt2"), CharTokenizer("abcdefghijklmnopqrs"))
    (folder / "text.txt").write_text(TEXT)
    command("train", "lm", "--text", folder / "text.txt", "--out", trained, "--steps", 2, "--d-model", 8, "--num-heads", 2,
            "--num-layers", 1, "--d-ff", 8, "--context", 8, "--batch-size", 2, "--tokenizer", "char", "--workers", 1)
    command("train", "lm", "--text", folder / "text.txt", "--out", lora, "--steps", 2, "--pretrained", trained, "--lora", 1,
            "--context", 8, "--batch-size", 2, "--workers", 1)
    return paths


def read_run(path):
    """Looks at a run and uses it."""
    command("info", path)
    run = nt.load_run(path)
    outline_run(path)
    words = {"lm": ("generate", "--length", 1, "--prompt", "a"), "seq2seq": ("translate", "the film", "--beam", 1),
             "classifier": ("classify", "the film")}[run.kind]
    if run.settings.get("max_len", 0) <= 1000:
        command(words[0], path, *words[1:])


def make_checkpoints(folder):
    path = folder / "run.npz"
    trainer().fit(batch, 2, checkpoint=path)
    return [path]


def trainer():
    model = nt.CausalLanguageModel(7, **SIZES, max_len=6, dropout=0.1)
    return nt.Trainer(model, nt.CrossEntropyLoss(), nt.AdamW(model.parameters(), 0.01))


def batch(number):
    ids = np.random.default_rng(number).integers(0, 7, (2, 7))
    return ids[:, :-1], ids[:, 1:]


def read_trainer(path):
    """Loads a checkpoint into a trainer, which stays as it is if that fails."""
    run = trainer()
    before = run.model.state_dict()
    try:
        run.load(path)
        nt.average_checkpoints([path, path])
    except ValueError:
        assert all(np.array_equal(array, before[name]) for name, array in run.model.state_dict().items()), "half loaded"
        raise


def make_tensors(folder):
    shutil.copy(SMALL / "bert" / "model.safetensors", folder / "x.safetensors")
    return [folder / "x.safetensors"]


def read_tensors(path):
    file = TensorFile(path)
    for name in file:
        file[name]


def make_folders(file):
    def make(folder):
        for family in ("gpt2", "llama", "bert", "t5"):
            shutil.copytree(SMALL / family, folder / family)
        return [folder / family / file for family in ("gpt2", "llama", "bert", "t5")]
    return make


def read_folder(path):
    command("info", path.parent)
    load_pretrained(path.parent)


def make_sentence_files(folder):
    """The small files beside the weights of a sentence encoder."""
    shutil.copytree(SMALL / "bert", folder / "bert")
    config = json.loads((folder / "bert/config.json").read_text())
    (folder / "bert/config.json").write_text(json.dumps(config | {"architectures": ["BertModel"]}))
    file = TensorFile(SMALL / "bert/model.safetensors")
    write_safetensors(folder / "bert/model.safetensors", {
        name.removeprefix("bert."): file[name] for name in file if name.startswith("bert.")})
    texts = {"modules.json": [{"type": "sentence_transformers.models.Transformer", "path": ""},
                              {"type": "sentence_transformers.models.Pooling", "path": "1_Pooling"}],
             "1_Pooling/config.json": {"pooling_mode_cls_token": True, "pooling_mode_mean_tokens": False},
             "sentence_bert_config.json": {"max_seq_length": 8}, "tokenizer_config.json": {"add_bos_token": True},
             "special_tokens_map.json": {"pad_token": "[PAD]", "mask_token": {"content": "[MASK]"}},
             "generation_config.json": {"eos_token_id": [1, 2]}}
    (folder / "bert/1_Pooling").mkdir()
    for name, content in texts.items():
        (folder / "bert" / name).write_text(json.dumps(content))
    return [folder / "bert" / name for name in texts]


def read_sentence_files(path):
    folder = next(parent for parent in path.parents if parent.name == "bert")
    run_of_folder(folder)
    command("info", folder)


def make_story_file(folder):
    rng = np.random.default_rng(0)
    d, d_ff, layers, heads, kv, vocab, length = 8, 12, 2, 2, 1, 270, 8
    count = vocab * d + layers * (2 * d + 2 * d * d + 2 * d * 4 + 3 * d * d_ff) + d + length * 4
    (folder / "x.bin").write_bytes(struct.pack("<7i", d, d_ff, layers, heads, kv, vocab, length)
                                   + rng.normal(size=count).astype("<f4").tobytes())
    return [folder / "x.bin"]


def read_story_file(path):
    command("info", path)
    load_pretrained(path)


def make_story_tokenizer(folder):
    pieces = ["<unk>", "\n<s>\n", "\n</s>\n", *(f"<0x{byte:02X}>" for byte in range(256)), " ", "a", "b", "ab", " ab"]
    data = struct.pack("<I", 6) + b"".join(struct.pack("<fI", -float(n), len(piece.encode())) + piece.encode()
                                           for n, piece in enumerate(pieces))
    (folder / "tokenizer.bin").write_bytes(data)
    return [folder / "tokenizer.bin"]


def read_story_tokenizer(path):
    tokenizer = StoryTokenizer.read(path)
    tokenizer.decode(tokenizer.encode("ab ba é"))
    tokenizer_from_json(json.loads(json.dumps(tokenizer.to_json())))


def make_tokenizers(folder):
    """Our own tokenizers as JSON."""
    made = {"char": CharTokenizer(TEXT), "word": WordTokenizer.train(TEXT, 12), "bpe": BytePairTokenizer.train(TEXT, 5),
            "mixed": MixedTokenizer(["the ", *"abcdefghijklmnopqrstuvwxyz .\n"])}
    for name, tokenizer in made.items():
        (folder / f"{name}.json").write_text(json.dumps(tokenizer.to_json()))
    return [folder / f"{name}.json" for name in made]


def read_tokenizer(path):
    try:
        content = json.loads(path.read_text())
    except RecursionError:
        return                                  # a run holds this JSON inside of its own, whose reader is damaged elsewhere
    tokenizer = tokenizer_from_json(content)
    tokenizer.decode(tokenizer.encode("the film"))


def make_published_tokenizers(folder):
    """tokenizer.json of several families, as the library writes them."""
    from .published import TOKENIZERS

    for name, make in TOKENIZERS.items():
        (folder / f"{name}.json").write_text(make()[0].to_str(), encoding="utf-8")
    return [folder / f"{name}.json" for name in TOKENIZERS]


def read_published_tokenizer(path):
    tokenizer = PretrainedTokenizer.from_files({"tokenizer.json": path.read_text(encoding="utf-8")}, {"eos_token_id": 1})
    tokenizer.decode(tokenizer.encode("the cat sat"))
    tokenizer.name(0)
    tokenizer_from_json(json.loads(json.dumps(tokenizer.to_json())))


def make_scores(folder):
    rows = [row("kim", "01.1"), row("kim", "01.2", "fail", said=["y is wrong"], points=1.5), row("zoe", "01.1", "missing"),
            *(row(f"student {n}", "01.1", "fail", mistakes=[["SMB-1"]]) for n in range(8))]
    settings = {"seed": 1, "timeout": 10.0, "memory": 1024, "versions": {"numpy_transformer": "1"}, "shard": "1/1",
                "policy": {"due": ["2026-11-20"], "late": "10%/day", "grace": None, "attempts": "last", "free_late_days": 0,
                           "timezone": None}, "left_out": {"ann": {"canvas": "7"}}}
    report.write_json(report.document(rows, settings, {}, {"kim": ["all.zip: This is damaged."]}), folder / "scores.json")
    return [folder / "scores.json"]


def read_scores(path):
    """Does with a record what `grade merge` does before and while it writes."""
    record = shards.merge({"scores.csv": shards.read_record(path)})
    chosen = [choose(number) for number in sorted({row.number for row in record.rows})]
    people(record.rows, record.problems)
    summary = report.summary(record.rows, chosen)
    report.summary_lines(summary, 80)
    json.dumps(report.document(record.rows, record.settings, summary, record.problems))
    for one in record.rows:
        list(report.student_feedback(one))
    found = anonymous.results(record.rows, chosen)
    if found:
        anonymous.page(found)


def make_gradebooks(folder):
    from .gradebook_files import canvas_gradebook, github_roster, moodle_worksheet
    from .pupils import make_class

    pupils = make_class(6, seed=3)
    canvas_gradebook(pupils, folder / "canvas.csv", {"Quiz 1 (7001)": 6, "01.2 Softmax, backward (7003)": 2})
    moodle_worksheet(pupils, folder / "moodle.csv", 2)
    moodle_worksheet(pupils, folder / "moodle-de.csv", 2, "de")
    github_roster(pupils, folder / "roster.csv")
    return [folder / f"{name}.csv" for name in ("canvas", "moodle", "moodle-de", "roster")]


def read_gradebook(path):
    from numpy_transformer.grading.gradebooks.times import tell_times

    class_ = people([row("Anna Berg", "01.2"), row("x1", "01.2", ids={"moodle": "1001"})])
    if path.stem == "roster":
        add_roster(class_, path)
        return
    book = CanvasGradebook(path, [choose("01.2")], ()) if path.stem == "canvas" else MoodleWorksheet(path)
    for person, line in match(class_, book.lines(), book.order).pairs:
        line.tell(person)
    book.fill(class_, True)
    book.sheet.content()
    if path.stem != "canvas":
        from numpy_transformer.grading.arrival import Student
        tell_times([Student("Anna Berg")], path, "Europe/Berlin")


def make_labels(folder):
    files = {"table.csv": "text,label,split\n" + "".join(f'"a {n}, b",{"good" if n % 2 else "bad"},{part}\n' for n, part in
                                                         enumerate(["train"] * 8 + ["validation", "test"])),
             "table.tsv": "label\ttext\n" + "".join(f"{n % 3}\ta {n}\n" for n in range(30)),
             "reviews.pos": "good film\nnice\n", "words.conll": "Anna B-person\nran O\n\nin O\nRome B-place\n",
             "source.txt": "a b\nc d\n"}
    for name, text in files.items():
        (folder / name).write_text(text, encoding="utf-8")
    (folder / "reviews.neg").write_text("bad film\n")
    return [folder / name for name in files]


def read_labels(path):
    if path.suffix == ".conll":
        read_conll(path)
    elif path.suffix == ".pos":
        read_labeled([path, path.with_suffix(".neg")])
    elif path.suffix == ".txt":
        read_pairs(path, path)
    else:
        read_labeled(path)


def make_dates(folder):
    """Times, rates and lengths of time as teachers write them, and a file with the extensions of students."""
    (folder / "dates.txt").write_text("2026-11-20\n2026-11-20 23:59\n2026-11-20T23:59+01:00\n05=2026-11-20\n"
                                      "2026-11-20T22:59:59Z")
    (folder / "rates.txt").write_text("10%/day, at most 50%\n2 points/day\n5% of max/hour, nothing after 3 days\n20%\nnone")
    (folder / "lengths.txt").write_text("15min\n2 hours\n1 day\n1.5h")
    (folder / "extensions.csv").write_text("student,time,exercise\nkim,3 days,01.2\nzoe,2026-12-01 10:00,\n")
    return [folder / name for name in ("dates.txt", "rates.txt", "lengths.txt", "extensions.csv")]


def mutate_dates(data, rng):
    return mutations.mutate_table(data, rng) if data.startswith(b"student") else mutations.mutate_words(data, rng)


def read_dates(path):
    text = path.read_bytes().decode("utf-8", "surrogateescape") if path.suffix == ".txt" else ""
    text = text.split("\n")[0] if path.stem in ("dates", "rates", "lengths") else text
    given = {"dates": {"due": [text]}, "rates": {"due": ["2026-11-20"], "late": text},
             "lengths": {"due": ["2026-11-20"], "grace": text},
             "extensions": {"due": ["2026-11-20"], "late": "10%/day", "extensions": path}}[path.stem]
    rules = policy.Policy.from_options(**given, timezone="Europe/Berlin")
    for one in (row("kim", "01.2"), row("zoe", "05.1")):
        deadline = rules.deadline(one)
        for days in (-400, 0, 1, 400):
            submitted = datetime(2026, 11, 20, tzinfo=timezone.utc) + timedelta(days=days)
            if deadline is not None:
                late = deadline.days_late(submitted, rules.grace)
                deadline.describe(submitted)
                rules.rate.deduction(2, 2, deadline.units_late(submitted, rules.grace, rules.rate.unit), late)
    str(rules.rate)
    lateness.parse_zone("Europe/Berlin")


READERS = {
    "runs": Reader(make_runs, mutations.mutate_npz, read_run),
    "checkpoints": Reader(make_checkpoints, mutations.mutate_npz, read_trainer),
    "safetensors": Reader(make_tensors, mutations.mutate_safetensors, read_tensors),
    "weights of folders": Reader(make_folders("model.safetensors"), mutations.mutate_safetensors, read_folder),
    "config.json": Reader(make_folders("config.json"), mutations.mutate_json_text, read_folder),
    "small files": Reader(make_sentence_files, mutations.mutate_json_text, read_sentence_files),
    "story files": Reader(make_story_file, mutations.mutate_bytes, read_story_file),
    "story tokenizers": Reader(make_story_tokenizer, mutations.mutate_bytes, read_story_tokenizer),
    "tokenizers": Reader(make_tokenizers, mutations.mutate_json_text, read_tokenizer),
    "published tokenizers": Reader(make_published_tokenizers, mutations.mutate_json_text, read_published_tokenizer),
    "scores": Reader(make_scores, mutations.mutate_json_text, read_scores),
    "gradebooks": Reader(make_gradebooks, mutations.mutate_table, read_gradebook),
    "labels": Reader(make_labels, mutations.mutate_table, read_labels),
    "dates": Reader(make_dates, mutate_dates, read_dates),
}
