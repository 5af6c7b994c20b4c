"""The configuration note-001 of the classifier: the settings, sizes and batches of study note 001."""

import numpy as np

import numpy_transformer as nt
from numpy_transformer.tasks import ClassifierTask


def test_the_settings_of_note_001(runs):
    s = ClassifierTask.default_settings("note-001")
    expected = dict(vocab_size=10_000, max_len=200, d_model=64, num_heads=4, d_ff=256, num_layers=2, dropout=0.1,
                    batch_size=64, lr=1e-4, eps=1e-7, epochs=5, patience=2, hidden=64, norm="post", activation="relu",
                    positions="sinusoidal", schedule="constant", warmup=0, beta1=0.9, beta2=0.999,
                    weight_decay=0.0, clip=0.0, accumulate=1, label_smoothing=0.0, tokenizer="word", reading="keras",
                    mask_padding=False, ff_dropout=0.0, init="keras", watch="loss")
    assert {name: s[name] for name in expected} == expected
    task = ClassifierTask(s | {"data": [str(runs / "reviews.csv")], "vocab_size": 300})
    model = task.make_model()
    trainer = task.make_trainer(model)
    optimizer = trainer.optimizer
    assert (optimizer.lr, optimizer.betas, optimizer.eps, optimizer.weight_decay) == (1e-4, (0.9, 0.999), 1e-7, 0)
    assert trainer.clip is None and isinstance(trainer.criterion, nt.BinaryCrossEntropyLoss)
    trainer.schedule.step()
    assert optimizer.lr == 1e-4
    assert {module.eps for _, module in model.named_modules() if isinstance(module, nt.LayerNorm)} == {1e-6}
    dropouts = {name: module.p for name, module in model.named_modules() if isinstance(module, nt.Dropout)}
    inside = {name for name in dropouts if name.endswith("feed_forward.dropout")}         # the note has none there
    assert {dropouts.pop(name) for name in inside} == {0.0} and len(inside) == 2
    assert {p for name, p in dropouts.items() if "positions" not in name} == {0.1} and "dropout" in dropouts
    bound = (6 / (64 * (4 + 16))) ** 0.5        # Keras's kernel (64, 4, 16)
    query = np.abs(model.encoder.blocks[1].attention.query.weight.data)
    assert 0.98 * bound < query.max() <= bound and np.abs(model.embedding.weight.data).max() <= 0.05
    assert not model.mask_padding and task.reader.end == ()


def test_note_001_draws_its_batches_from_all_lengths(tmp_path):
    """Every text occurs once per epoch, only one batch is smaller, and batches are not grouped by length."""
    rng = np.random.default_rng(0)
    lengths = rng.integers(1, 150, 640)
    texts = [" ".join(f"w{word}" for word in rng.integers(0, 50, length)) for length in lengths]
    (tmp_path / "r.csv").write_text("text,label\n" + "".join(f"{text},{n % 2}\n" for n, text in enumerate(texts)))
    task = ClassifierTask(ClassifierTask.default_settings("note-001", data=[str(tmp_path / "r.csv")]))
    batches = [task.batches(step)[0][0] for step in range(len(task.batches))]
    sizes = [len(batch) for batch in batches]
    assert sum(sizes) == len(task.training[0]) and sum(size < 64 for size in sizes) == 1
    whole = [(batch != 0).sum(1) for batch in batches if len(batch) == 64]
    assert min(lengths.std() for lengths in whole) > 30         # uniform from 1 to 149: 43; sorted by length: about 5


def test_the_parameters_of_note_001(tmp_path):
    words = np.random.default_rng(0).permutation(15_000)
    texts = [" ".join(f"w{word}" for word in words[start:start + 300]) for start in range(0, 15_000, 300)]
    (tmp_path / "r.csv").write_text("text,label\n" + "".join(f"{text},{n % 2}\n" for n, text in enumerate(texts)))
    task = ClassifierTask(ClassifierTask.default_settings("note-001", data=[str(tmp_path / "r.csv")]))
    model = task.make_model()
    d, d_ff = 64, 256
    block = 4 * (d * d + d) + d * d_ff + d_ff + d_ff * d + d + 2 * 2 * d
    assert model.embedding.weight.data.shape == (10_001, d)
    assert model.num_parameters() == 10_001 * d + 2 * block + d * 64 + 64 + 64 + 1
    rows, labels = task.batches(0)
    assert rows[0].shape[1] == 200 and rows[0].max() <= 10_000 and task.settings["steps"] == 5
