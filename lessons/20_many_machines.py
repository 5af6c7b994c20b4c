# %% [markdown]
# # 20 Training on several machines
#
# When n machines train a model together, each of them computes the gradient of a part of the batch, and then they add
# these gradients. This lesson shows which sum is the right one, and what cannot be split in this way. Then it builds
# the ring all-reduce, which gives this sum to every machine, and counts the bytes that each machine sends.
#
# The package does both: `Trainer(workers=2)` uses the cores of one machine. After `pip install
# "numpy-transformer[mpi]"`, the command `mpiexec -n 4 numpy-transformer train ...` trains with four processes on one or
# more machines.
#
# The example is a small language model and a batch of eight sequences, the longest first, the shorter ones padded.

# %% A small model, and a batch with padding
import copy
import math

import numpy as np

import numpy_transformer as nt
from numpy_transformer import views
from numpy_transformer.course import claim, drawing, figure, lesson, predict, show, show_source
from numpy_transformer.training.data_parallel import DataParallel

lesson.start(__name__)
rng = np.random.default_rng(20)
PAD, V = 0, 11
LENGTHS = np.array([10, 10, 9, 8, 6, 4, 3, 3])
ids = rng.integers(1, V, (8, 10))
full = ids.copy()                           # the same without padding
ids[np.arange(10) >= LENGTHS[:, None]] = PAD
model = nt.CausalLanguageModel(V, 12, 2, 1, max_len=9, rng=1).astype(np.float64)


def gradients(model):
    """The gradients of all parameters as one vector."""
    return np.concatenate([parameter.grad.ravel() for parameter in model.parameters()])


def gradient(ids):
    """The gradient of the mean loss over the targets that count, and the number of these targets."""
    criterion = nt.CrossEntropyLoss(ignore_id=PAD)
    model.zero_grad()
    criterion(model(ids[:, :-1]), ids[:, 1:])
    model.backward(criterion.backward())
    return gradients(model), criterion.count


def relative_error(a, b):                   # the distance between a and b, divided by the norm of b
    return np.linalg.norm(a - np.asarray(b)) / np.linalg.norm(b)


whole, total = gradient(ids)

# %% [markdown]
# ## 1. The gradient of a batch is a weighted sum
#
# The loss is a mean over the targets that count (padding tokens do not). Each target has its own loss, and the
# gradient of a sum is the sum of the gradients. So we may add the terms in any order and group them into parts. If part
# k has n_k targets that count, and g_k is the gradient of the mean over *these* targets, then n_k g_k is the sum of
# their terms, and
#
#     g = (n_1 g_1 + n_2 g_2 + ...) / (n_1 + n_2 + ...)
#
# It does not matter whether the parts are computed one after another, as in the accumulation of lesson 19, or at the
# same time on several machines.
#
# **A worked number.** Part 1 has three targets with the gradients 1, 2 and 3. Part 2 has one target with the gradient
# 10. The mean of all four is 16 / 4 = 4. The means of the parts are 2 and 10, and the weighted sum is
# (3 · 2 + 1 · 10) / 4 = 4 as well. But the plain mean of the means is (2 + 10) / 2 = 6, because it gives the one target
# of part 2 the weight 1/2 instead of 1/4. With padding, plain means give more weight to the targets of short sequences,
# and nothing warns about it.

# %% Four parts of two sequences
claim("the worked number: with the weights 3/4 and 1/4, the result is 4",
      (3 * 2 + 1 * 10) / 4 == np.mean([1, 2, 3, 10]) == 4)
parts = [gradient(part) for part in np.array_split(ids, 4)]
counts = [count for _, count in parts]
weighted = sum(count * g for g, count in parts) / sum(counts)
show(counts=counts)
claim("the weighted sum over four parts is the gradient of the whole batch",
      sum(counts) == total and relative_error(weighted, whole) < 1e-12)
predict(f"The parts have {counts} targets. In the plain mean, how many times as much does a target of the last part "
        "weigh as a target of the first?", counts[0] / counts[3],
        why="In a plain mean each part has the weight 1/4, and its targets share it: 1/18 of it for each in the first "
            "part, and 1/4 of it in the last. 18 / 4 = 4.5.")
plain_mean = sum(g for g, _ in parts) / 4
claim("the plain mean of the four means is a different vector", relative_error(plain_mean, whole) > 0.1,
      f"relative error {relative_error(plain_mean, whole):.2f}")
halves = [gradient(part)[0] for part in np.array_split(full, 2)]
claim("without padding the counts are equal and the plain mean is right, so a test needs padding to find the mistake",
      relative_error(sum(halves) / 2, gradient(full)[0]) < 1e-12)

# %% [markdown]
# In the package, every worker computes the gradient of its **summed** loss, which is n_k g_k. `add_up` adds these sums
# over all workers and divides them by the number of all targets. (`mpi.sum_gradients` adds the gradients of several
# processes, if there are any.)

# %% The package computes the same
show_source(DataParallel.add_up)
twin = copy.deepcopy(model)
trainer = nt.Trainer(twin, nt.CrossEntropyLoss(ignore_id=PAD), nt.SGD(twin.parameters(), lr=0.0), workers=2)
trainer.step([(ids[:, :-1], ids[:, 1:])])
claim("a Trainer with two workers gives this gradient", relative_error(gradients(twin), weighted) < 1e-12)

# %% [markdown]
# ## 2. What cannot be split this way
#
# The weighted sum is exact because the loss is a sum with one term for each target. Anything that is not such a sum
# needs care:
#
# - *Clipping* has to come after the sum. The norm of a sum is not the sum of the norms, and if each part is clipped on
#   its own, the weights of the parts change as well.
# - *Dropout* draws a random mask. Each machine draws the masks of its part, and needs a seed of its own. With the same
#   seed, all machines drop the same positions, and the masks are not independent.
# - *Batch statistics*: BatchNorm (lesson 08) subtracts the mean of the batch, but a part knows only its own mean.
#   LayerNorm and RMSNorm normalize each token by itself, so a Transformer does not have this problem.
# - The *printed loss* is a mean like the gradient, and needs the same weights.

# %% Clipping, dropout, batch statistics
limit = 0.5 * np.linalg.norm(whole)


def clipped(g):
    parameter = nt.Parameter(np.zeros(g.shape))
    parameter.grad = g
    nt.clip_grad_norm([parameter], limit)
    return parameter.grad


right = clipped(weighted)
wrong = sum(count * clipped(g) for g, count in parts) / total
claim("clipping after the sum gives the clipped gradient of the whole batch",
      relative_error(right, clipped(whole)) < 1e-12 and math.isclose(np.linalg.norm(right), limit))
claim("clipping before the sum gives a different gradient", relative_error(wrong, right) > 0.05,
      f"relative error {relative_error(wrong, right):.2f}")
kept = [nt.Dropout(0.5, rng=seed)(np.ones((100, 100))) > 0 for seed in (7, 7, 8)]
claim("two machines with the same seed drop the same positions", kept[0] == kept[1])
claim("with different seeds they agree at about half of the positions, as expected by chance",
      abs(np.mean(kept[0] == kept[2]) - 0.5) < 0.02)
rows = np.array([1.0, 3.0, 11.0, 13.0])
centered = np.concatenate([part - part.mean() for part in np.split(rows, 2)])
claim("batch statistics: centered in two parts, the rows 1 and 11 become equal, but not in one batch",
      [np.array_equal(centered, [-1, 1, -1, 1]), np.array_equal(rows - rows.mean(), [-6, -4, 4, 6])])

# %% [markdown]
# ## 3. A ring all-reduce
#
# Each machine has a vector, n_k g_k, and each machine needs the sum of all vectors. This operation is called
# **all-reduce**, and the machines that take part in it are called **ranks**. The obvious solution is to send all
# vectors to rank 0, which adds them and sends the sum back. Then rank 0 receives n - 1 vectors and sends n - 1 vectors.
# With 1,024 ranks, one rank is busy while 1,023 wait.
#
# The ring (Patarasuk and Yuan 2009) shares the work. Rank r sends only to its right neighbor, rank r + 1, and rank
# n - 1 sends to rank 0. The vector is cut into n chunks.
#
# - **Reduce-scatter** takes n - 1 rounds. In each round, every rank sends one chunk to the right, and adds the chunk
#   that arrives from the left to its own. Each chunk travels once around the ring and collects all terms. At the end,
#   rank r has the complete sum of chunk r, and of no other chunk.
# - **All-gather** takes another n - 1 rounds. The complete chunks travel around the ring once more and replace the
#   incomplete ones.
#
# The drawing counts how many terms each chunk contains. In the next cell, the entries of the four ranks' vectors are 1,
# 10, 100 and 1000, so the digits of a sum say whose terms it contains.

# %% The two halves of the ring, round by round
drawing("ring")
sent = []                                   # (sender, receiver, bytes) of each message


def message(buffers, r, chunk):
    """What rank r sends to its right neighbor: a copy of a chunk."""
    n = len(buffers)
    sent.append((r, (r + 1) % n, buffers[r][chunk % n].nbytes))
    return buffers[r][chunk % n].copy()


def reduce_scatter(buffers):                # buffers[r] is the list of the n chunks of rank r
    n = len(buffers)
    for step in range(1, n):
        messages = [message(buffers, r, r - step) for r in range(n)]
        for r in range(n):
            buffers[r][(r - step - 1) % n] += messages[r - 1]           # from the left neighbor
        yield                               # the end of a round


def all_gather(buffers):
    n = len(buffers)
    for step in range(n - 1):
        messages = [message(buffers, r, r - step) for r in range(n)]
        for r in range(n):
            buffers[r][(r - step - 1) % n] = messages[r - 1]
        yield


buffers = [np.array_split(np.full(4, 10 ** r), 4) for r in range(4)]
for half in (reduce_scatter, all_gather):
    for n, _ in enumerate(half(buffers), 1):
        print(f"  {half.__name__}, round {n}")
        for r in range(4):
            print(f"    rank {r}: " + "  ".join(f"{chunk.item():04}" for chunk in buffers[r]))
    complete = np.concatenate(buffers, axis=1) == 1111
    if half is reduce_scatter:
        claim("after reduce-scatter, rank r has all terms of chunk r, and of no other chunk", complete == np.eye(4))
claim("after all-gather, every rank has all terms of every chunk", complete)

# %% [markdown]
# ## 4. The bytes
#
# In each of the 2 (n - 1) rounds, a rank sends 1/n of the vector. In total it sends 2 (n - 1) / n vectors, which is
# less than two vectors **for any number of ranks**.
#
# Each chunk is added up in a fixed order, so the result has the same bits every time and on all ranks. But the order
# differs from chunk to chunk, because each chunk starts at a different rank. The bits therefore differ from those of a
# sum in the order of the ranks.

# %% The sum, its bits, and the bytes that are sent
def ring(vectors):
    buffers = [np.array_split(vector.copy(), len(vectors)) for vector in vectors]
    sent.clear()
    for half in (reduce_scatter, all_gather):
        for _ in half(buffers):
            pass
    return [np.concatenate(chunks) for chunks in buffers]


for n in (1, 2, 3, 5, 8):
    vectors = list(rng.standard_normal((n, 1000)))          # with n = 3 the chunks have 334, 333 and 333 entries
    sums = ring(vectors)
    claim(f"n = {n}: every rank has the sum, with the same bits on all ranks",
          [relative_error(sums[0], np.sum(vectors, 0)) < 1e-14, *(np.array_equal(sums[0], other) for other in sums)])
claim("the bits differ from those of a sum in the order of the ranks", not np.array_equal(sums[0], sum(vectors)))
predict("8 ranks have vectors of 8,000 bytes. How many bytes does each rank send?", 14_000,
        why="Each chunk has 1,000 bytes. A rank sends one chunk in each of the 2 (8 - 1) = 14 rounds.")
of_rank = [[size for sender, _, size in sent if sender == r] for r in range(8)]
claim("each rank sends 2 (n - 1) messages, and 2 (n - 1) / n vectors in total",
      [len(sizes) == 14 and sum(sizes) == 2 * 7 / 8 * 8000 for sizes in of_rank])
claim("all of them go to the right neighbor", [receiver == (sender + 1) % 8 for sender, receiver, _ in sent])
g_ring = ring([count * g for g, count in parts])[0] / total
claim("the ring gives the gradient of the whole batch from the four parts of section 1",
      relative_error(g_ring, whole) < 1e-12)
ranks = 2 ** np.arange(1, 11)
ring_vectors = 2 * (ranks - 1) / ranks
claim("2 (n - 1) / n is less than two vectors up to 1,024 ranks", ring_vectors < 2, f"{ring_vectors[-1]:.3f}")
picture = views.step_sizes({"through rank 0: rank 0": (ranks, ranks - 1), "ring: every rank": (ranks, ring_vectors)},
                           "number of ranks n", "vectors that a rank sends")
picture.axes[0].set(title="What an all-reduce sends", xticks=ranks, xticklabels=ranks)
picture.axes[0].minorticks_off()
figure("bytes", picture)

# %% [markdown]
# ## Exercises
#
# 1. Three parts have 10, 20 and 70 targets that count, and the mean gradients 1, 2 and 3. What is the gradient of the
#    batch, and what does the plain mean give? For which loss would the plain mean be right?
# 2. On real machines, let each rank of `reduce_scatter` wait for its message before it sends. What happens, and why?
#    How many ranks must send first so that it works again, and what does the reduce-scatter cost then?
# 3. In *recursive doubling*, rank r exchanges its whole vector with rank r XOR 1, then with r XOR 2, r XOR 4 and so on,
#    and adds what it receives. Write it for 8 ranks, and compare its messages and bytes with those of the ring. Do all
#    ranks get the same bits?
# 4. Leave out the copy in `message`. Why is the sum still right?
# 5. With float16 instead of float32, half as many bytes are sent. Sum 1,024 gradients around 1e-4 in float16. What is
#    lost, and where?
#
# With a checker (`numpy-transformer exercise start my-exercises 20`): 20.1, 20.2.
# (20.1 divides the state of Adam among the ranks. Lesson 20b explains how.)
