# %% [markdown]
# # 20 Training on several machines
#
# When n machines train a model together, each of them computes the gradient of a part of the batch, and then they add
# these gradients. This lesson shows which sum is the right one. It builds the ring all-reduce that computes this sum
# (in NumPy, with one thread for each machine), and estimates what it costs on 2 to 1,024 machines. Finally, it shards
# the state of Adam, so that each machine keeps only its share. The package itself does all but the last:
# `Trainer(workers=2)` uses the cores of one machine. After `pip install "numpy-transformer[mpi]"`, the command
# `mpiexec -n 4 numpy-transformer train ...` trains with four processes on one or more machines.
#
# After this lesson you will be able to split a batch correctly, write a ring all-reduce and count its bytes, say when
# more machines stop helping, and explain what ZeRO-1 saves and why it gives the same weights. Lesson 19 explains Adam.
# About 15 minutes.

# %% Imports, a small model, and a batch with padding
import copy
import math
import queue
from concurrent.futures import ThreadPoolExecutor

import numpy as np
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

import numpy_transformer as nt
from numpy_transformer import views
from numpy_transformer.course import claim, figure, lesson, predict, show

lesson.start(__name__)
rng = np.random.default_rng(20)
PAD = 0
V = 11
LENGTHS = np.array([10, 10, 9, 8, 6, 4, 3, 3])              # eight sequences, the longest first


def batch():
    ids = rng.integers(1, V, (8, 10))
    ids[np.arange(10) >= LENGTHS[:, None]] = PAD
    return ids


def gradient(model, ids):
    """The gradient of the mean over the targets that count, as one vector, and the number of these targets."""
    criterion = nt.CrossEntropyLoss(ignore_id=PAD)
    model.zero_grad()
    criterion(model(ids[:, :-1]), ids[:, 1:])
    model.backward(criterion.backward())
    return flat(model, "grad"), criterion.count


def flat(model, name):
    """The "data" or the "grad" of all parameters, as one vector."""
    return np.concatenate([getattr(parameter, name).ravel() for parameter in model.parameters()])


def relative_difference(a, b):
    return np.linalg.norm(a - np.asarray(b)) / np.linalg.norm(b)


model = nt.CausalLanguageModel(V, 12, 2, 1, max_len=9, rng=1).astype(np.float64)
ids = batch()
whole, N = gradient(model, ids)

# %% [markdown]
# ## 1. The gradient of a batch is a weighted sum
#
# The loss is a mean over the N targets that count (padding tokens do not). Each target has its own loss, and the
# gradient of a sum is the sum of the gradients. So we may add the N terms in any order and group them into parts. If
# part k has n_k targets that count, and g_k is the gradient of the mean over *these* targets, then n_k g_k is the sum
# of their terms, and
#
#     g = (n_1 g_1 + n_2 g_2 + ...) / N,   N = n_1 + n_2 + ...
#
# Part k has the weight n_k / N. It does not matter whether the parts are computed one after another, as in lesson 19,
# or at the same time on several machines.
#
# **A worked number.** Part A has three targets with the gradients 1, 2 and 3. Part B has one target with the gradient
# 10. The mean of all four is 16 / 4 = 4. The means of the parts are 2 and 10, and the weighted sum is
# (3 · 2 + 1 · 10) / 4 = 4 as well. But the plain mean of the means is (2 + 10) / 2 = 6, because it gives the one target
# of part B the weight 1/2 instead of 1/4. With padding, plain means give more weight to the targets of short sequences,
# and nothing warns about it.

# %% Four parts of two sequences
parts = [gradient(model, part) for part in np.array_split(ids, 4)]
counts = [count for _, count in parts]
show(counts=counts)
claim("the worked number: with the weights 3/4 and 1/4, the result is 4",
      (3 * 2 + 1 * 10) / 4 == np.mean([1, 2, 3, 10]) == 4)
weighted = sum(count * g for g, count in parts) / N
claim("the weighted sum over four parts is the gradient of the whole batch, within 1e-12",
      sum(counts) == N and relative_difference(weighted, whole) < 1e-12)
plain_mean = sum(g for g, _ in parts) / 4
cosine = plain_mean @ whole / np.linalg.norm(plain_mean) / np.linalg.norm(whole)
claim("the plain mean of the four means is a different vector",
      relative_difference(plain_mean, whole) > 0.1 and cosine < 0.99,
      f"relative error {relative_difference(plain_mean, whole):.2f}, cosine {cosine:.2f}")
predict(f"The parts have {counts} targets. In the plain mean, how many times as much does a target of the last part "
        "weigh as a target of the first?", counts[0] / counts[3],
        why="In a plain mean each part has the weight 1/4, and its targets share it: 1/18 of it for each in the first "
            "part, and 1/4 of it in the last. 18 / 4 = 4.5.")
full = rng.integers(1, V, (8, 10))          # without padding, the counts are equal
halves = [gradient(model, part)[0] for part in np.array_split(full, 2)]
claim("with equal counts the plain mean is right, so a test needs padding to find the mistake",
      relative_difference(sum(halves) / 2, gradient(model, full)[0]) < 1e-12)

# %% [markdown]
# **What cannot be split this way.** The weighted sum is exact because the loss is a sum with one term for each target.
# Anything that is not such a sum needs care:
#
# - *Clipping* has to come after the sum. The norm of a sum is not the sum of the norms, and if each part is clipped on
#   its own, the weights of the parts change as well.
# - *Dropout* draws a random mask. Each machine draws the masks of its part, so the gradient differs from the gradient
#   that one machine computes with the same seed. It is another sample from the same distribution. The machines need
#   different seeds: with the same seed, all of them drop the same positions, and the masks are not independent.
# - *Batch statistics*: BatchNorm (lesson 08) subtracts the mean of the batch from each row, but a part knows only its
#   own mean. LayerNorm and RMSNorm normalize each token by itself, so a Transformer does not have this problem.
# - The *printed loss* is a mean like the gradient, and needs the same weights.

# %% Clipping, dropout, batch statistics
limit = 0.5 * np.linalg.norm(whole)


def clipped(g):
    parameter = nt.Parameter(np.zeros(g.shape))
    parameter.grad = g
    nt.clip_grad_norm([parameter], limit)
    return parameter.grad


right = clipped(weighted)
wrong = sum(count * clipped(g) for g, count in parts) / N
claim("clipping after the sum gives the clipped gradient of the whole batch",
      relative_difference(right, clipped(whole)) < 1e-12 and math.isclose(np.linalg.norm(right), limit))
claim("clipping before the sum gives a different gradient", relative_difference(wrong, right) > 0.05,
      f"relative error {relative_difference(wrong, right):.2f}")
kept = [nt.Dropout(0.5, rng=seed)(np.ones((100, 100))) > 0 for seed in (7, 7, [7, 0], [7, 1])]
claim("two machines with the same seed drop the same positions", kept[0] == kept[1])
claim("with different seeds they agree at half of the positions, as expected by chance",
      abs(np.mean(kept[2] == kept[3]) - 0.5) < 0.02, f"{np.mean(kept[2] == kept[3]):.3f}")
rows = np.array([1.0, 3.0, 11.0, 13.0])
centered = np.concatenate([part - part.mean() for part in np.split(rows, 2)])
claim("batch statistics: if the rows are centered in two parts, rows 0 and 2 become equal; in one batch they do not",
      np.array_equal(centered, [-1, 1, -1, 1]) and np.array_equal(rows - rows.mean(), [-6, -4, 4, 6]))

# %% [markdown]
# ## 2. A ring all-reduce
#
# Each machine has a vector, and each machine needs the sum of all vectors. This operation is called **all-reduce**, and
# the machines that take part in it are called **ranks**. The obvious solution is to send all vectors to rank 0, which
# adds them and sends the sum back. Then rank 0 receives n - 1 vectors and sends n - 1 vectors. With 1,024 ranks, one
# rank is busy while 1,023 wait.
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
# In each of the 2 (n - 1) rounds, a rank sends 1/n of the vector. In total it sends 2 (n - 1) / n vectors, which is
# less than two vectors **for any number of ranks**.
#
# In the next cell, each rank is a thread. It can use only its own buffer and the messages that it receives. It does not
# matter which thread runs first, because each addition waits for one particular message. So the result has the same
# bits every time.

# %% Ranks, messages, and the two halves of the ring
class Rank:
    """One of n threads and its buffer. It records every message that it sends, and its buffer at that moment."""

    def __init__(self, rank, buffer, mail):
        self.rank = rank
        self.n = len(mail)
        self.buffer = buffer.copy()
        self.mail = mail                    # mail[to][source] is a queue of messages
        self.left = (rank - 1) % self.n
        self.right = (rank + 1) % self.n
        self.sent = []                      # (receiver, bytes) of each message
        self.history = []                   # the buffer before each message

    def send(self, to, array):
        self.sent.append((to, array.nbytes))
        self.history.append(self.buffer.copy())
        self.mail[to][self.rank].put(array.copy())          # a copy, as if it went to another machine

    def receive(self, source):
        return self.mail[self.rank][source].get(timeout=20)


def reduce_scatter(r):
    """Makes chunk r.rank of the buffer the sum over all ranks, and returns a view of this chunk."""
    chunks = np.array_split(r.buffer, r.n)
    for step in range(1, r.n):
        r.send(r.right, chunks[(r.rank - step) % r.n])
        chunks[(r.rank - step - 1) % r.n] += r.receive(r.left)
    return chunks[r.rank]


def all_gather(r):
    """Replaces each chunk by the copy of the rank of the same number."""
    chunks = np.array_split(r.buffer, r.n)
    for step in range(r.n - 1):
        r.send(r.right, chunks[(r.rank - step) % r.n])
        chunks[(r.rank - step - 1) % r.n][:] = r.receive(r.left)


def ring(r):
    reduce_scatter(r)
    all_gather(r)
    return r.buffer


def through_rank_0(r):
    """The obvious solution: rank 0 adds all vectors and sends the sum back."""
    if r.rank == 0:
        for other in range(1, r.n):
            r.buffer += r.receive(other)
        for other in range(1, r.n):
            r.send(other, r.buffer)
    else:
        r.send(0, r.buffer)
        r.buffer[:] = r.receive(0)
    return r.buffer


def in_threads(program, buffers):
    """Runs the program in one thread for each buffer. Returns the ranks, and what the program returned for each."""
    mail = [[queue.Queue() for _ in buffers] for _ in buffers]
    ranks = [Rank(n, buffer, mail) for n, buffer in enumerate(buffers)]
    with ThreadPoolExecutor(len(buffers)) as pool:
        return ranks, list(pool.map(program, ranks))


# %% The sum, its bits, and the bytes that are sent
for n in (1, 2, 3, 5, 8):
    vectors = list(rng.standard_normal((n, 1000)))          # with n = 3 the chunks have 334, 333 and 333 entries
    ranks, sums = in_threads(ring, vectors)
    claim(f"n = {n}: every rank has the sum, with the same bits on all ranks",
          relative_difference(sums[0], np.sum(vectors, 0)) < 1e-14
          and all(np.array_equal(sums[0], other) for other in sums))
again = in_threads(ring, vectors)[1][0]
claim("a second run gives the same bits", np.array_equal(again, sums[0]))
claim("the bits differ from those of a sum in the order of the ranks, since each chunk starts at a different rank",
      not np.array_equal(sums[0], sum(vectors)))
predict("8 ranks have vectors of 8,000 bytes. How many bytes does each rank send?", 14_000,
        why="Each chunk has 1,000 bytes. A rank sends one chunk in each of the 2 (8 - 1) = 14 rounds.")
ring_ranks, _ = in_threads(ring, vectors)
star_ranks, _ = in_threads(through_rank_0, vectors)
ring_bytes, star_bytes = ([sum(size for _, size in r.sent) for r in ranks] for ranks in (ring_ranks, star_ranks))
show(bytes_sent_in_the_ring=ring_bytes, bytes_sent_through_rank_0=star_bytes)
claim("in the ring, each rank sends 2 (n - 1) messages, all to its right neighbor", all(
    len(r.sent) == 2 * (8 - 1) and {to for to, _ in r.sent} == {(r.rank + 1) % 8} for r in ring_ranks))
claim("in total, each rank of the ring sends 2 (n - 1) / n vectors", ring_bytes == [2 * 7 / 8 * 8000] * 8)
claim("through rank 0, the sum is the same, but rank 0 sends n - 1 vectors",
      all(relative_difference(r.buffer, sums[0]) < 1e-14 for r in star_ranks)
      and star_bytes == [7 * 8000] + [8000] * 7)
vectors_sent = [2 * (n - 1) / n for n in (2, 8, 64, 1024)]
claim("2 (n - 1) / n is less than two vectors for every n", max(vectors_sent) < 2,
      ", ".join(f"{x:.3f}" for x in vectors_sent))

# %% Four ranks, and whose terms each chunk contains after each round
ranks, _ = in_threads(ring, [np.full(4, 2.0 ** n) for n in range(4)])      # bit n of a sum: does it contain rank n?
rounds = np.array([[*r.history, r.buffer] for r in ranks]).astype(int).swapaxes(0, 1)      # (7, 4 ranks, 4 chunks)
terms = np.array([[[value.bit_count() for value in row] for row in now] for now in rounds.tolist()])
claim("after reduce-scatter, rank r has all four terms of chunk r, and of no other chunk", (terms[3] == 4) == np.eye(4))
claim("after all-gather, every rank has all terms of every chunk", terms[6] == 4)
picture = Figure(figsize=(14, 6), layout="constrained")
*panels, legend = picture.subplots(2, 4).flat
titles = ["before round 1", *(f"{half}, round {n}" for half in ("reduce-scatter", "all-gather") for n in (1, 2, 3))]
for axes, now, before, count, title in zip(panels, rounds, [rounds[0], *rounds], terms, titles):
    axes.imshow(count, "Blues", vmin=0, vmax=5, aspect="auto")
    for rank, chunk in np.ndindex(4, 4):
        text = "+".join(str(n) for n in range(4) if now[rank, chunk] >> n & 1)
        axes.text(chunk, rank, "all" if text == "0+1+2+3" else text, ha="center", va="center", size=12,
                  color="white" if count[rank, chunk] > 3 else "black")
        if now[rank, chunk] != before[rank, chunk]:
            axes.add_patch(Rectangle((chunk - 0.45, rank - 0.44), 0.9, 0.88, fill=False, color="C1", linewidth=3))
    axes.set(title=title, xlabel="chunk", ylabel="rank", xticks=range(4), yticks=range(4))
legend.axis("off")
legend.text(0, 0.5, "0+3: the chunk is the sum of\nthe terms of ranks 0 and 3\n\nFrame: in this round, the chunk\n"
                    "was changed by a message\nfrom the rank above it\n(for rank 0, from rank 3)", va="center", size=13)
figure("ring", picture)

# %% [markdown]
# ## 3. What it costs
#
# The usual model of a message (Hockney 1994) has two numbers. The **latency** α is the time that an empty message
# takes, and the **bandwidth** β is the number of bytes per second. So a message of s bytes takes the time α + s/β. A
# ring all-reduce of s bytes has 2 (n - 1) rounds, with s/n bytes in each:
#
#     T(n, s) = 2 (n - 1) (α + s / (n β))
#             = 2 (n - 1) α  +  2 (n - 1)/n · s/β
#
# The second term, the bandwidth term, stays below 2 s/β for any number of ranks. The first term, the latency term,
# grows in proportion to n - 1. In *recursive doubling*, rank r exchanges the whole vector with rank r XOR 1, then with
# r XOR 2, r XOR 4 and so on. This takes only log2(n) rounds, but each of them sends s bytes, so T = log2(n) (α + s/β).
# Recursive doubling is faster for short vectors and slower for long ones.
#
# The tables in the next cell were **recorded**; the lesson itself measures no times. Two MPI processes (mpi4py 4, MPICH
# 5.0) ran on one otherwise idle machine with a two-core AMD EPYC (Zen 4). Each time is the median of 25 to 2,000
# repetitions. The messages went through the shared memory of this machine, not through a network.

# %% The recorded times of two processes, and the model
MICROSECONDS = {                            # {bytes: median time}
    "ping-pong, half a round trip": {8: 1.83, 2048: 1.98, 32768: 6.53, 131072: 13.5, 524288: 44.1, 2097152: 165,
                                     8388608: 732, 33554432: 2891, 43000000: 3643, 67108864: 6859},
    "ring all-reduce, written with Sendrecv": {8: 6.3, 2048: 6.5, 131072: 40.6, 2097152: 222, 8388608: 949,
                                               43000000: 7418, 67108864: 9661},
    "Allreduce of MPICH, in place": {8: 3.4, 2048: 4.2, 131072: 35.3, 2097152: 258, 8388608: 1068, 43000000: 19306,
                                     67108864: 29374}}
RECORDS = [(np.array(list(table)), np.array(list(table.values())) * 1e-6) for table in MICROSECONDS.values()]
(ping_sizes, ping), (ring_sizes, ring_times), (mpi_sizes, mpi_times) = RECORDS          # bytes, and seconds


def T(n, s, alpha, beta):
    """Seconds for a ring all-reduce of s bytes on n ranks."""
    return 2 * (n - 1) * (alpha + s / (n * beta))


def doubling(n, s, alpha, beta):
    """Seconds for an all-reduce by recursive doubling."""
    return np.log2(n) * (alpha + s / beta)


equations = np.stack([1 / ping, ping_sizes / ping], 1)      # α and 1/β by least squares of the relative errors
alpha, slope = np.linalg.lstsq(equations, np.ones(len(ping)), rcond=None)[0]
beta = 1 / slope
print(f"    α = {alpha * 1e6:.1f} µs, β = {beta / 1e9:.1f} GB/s")
claim("α and β describe all ten ping-pong times to within a third",
      abs((alpha + ping_sizes / beta) / ping - 1) < 1 / 3)
ratios = ring_times / T(2, ring_sizes, alpha, beta)
claim("the measured ring takes between 1 and 3 times as long as the model says", (ratios > 1) & (ratios < 3),
      ", ".join(f"{ratio:.1f}" for ratio in ratios))
mpi_ratios = mpi_times / T(2, mpi_sizes, alpha, beta)
claim("MPICH's Allreduce takes up to 3 times as long for 8 MB or less, but about 5 times for 43 MB and more",
      np.all(mpi_ratios[mpi_sizes < 1e7] < 3) and np.all(mpi_ratios[mpi_sizes > 1e7] > 4.5),
      ", ".join(f"{ratio:.1f}" for ratio in mpi_ratios))
rounds = [max(sizes) for sizes in zip(*([size for _, size in r.sent] for r in ring_ranks))]
claim("T(8, s) is the sum of the times of all rounds that the threads of section 2 took", math.isclose(
    sum(alpha + size / beta for size in rounds), T(8, 8000, alpha, beta)))
picture = views.step_sizes({
    "model, n = 2": (ping_sizes, 1e3 * T(2, ping_sizes, alpha, beta)),
    "recorded: ring written with Sendrecv": (ring_sizes, 1e3 * ring_times),
    "recorded: Allreduce of MPICH": (mpi_sizes, 1e3 * mpi_times)}, "size of the vector (bytes)", "time (ms)")
picture.axes[0].set_title("All-reduce between two processes on one machine")
figure("measured", picture)

# %% [markdown]
# The model is too optimistic, for three reasons. First, both ranks send at the same time through the same memory.
# Second, the additions take time, for which better models have a third term (Thakur, Rabenseifner and Gropp 2005).
# Third, the library has its own costs: when the C library was told to keep freed memory instead of returning it to the
# operating system, the Allreduce of 43 MB took 10 ms instead of 19 ms. A model tells what to expect, and only a
# measurement tells what happens.
#
# **Estimates for 2 to 1,024 machines.** The vectors are the float32 gradients of two models: this project's `mid` model
# with 10.7 million parameters (43 MB), and GPT-2 with 124 million parameters (496 MB). The two networks are
# *assumptions*, not measurements: they have the bandwidth that their names promise and a latency of the usual order.
# Real networks are slower.

# %% The time of an all-reduce on 2 to 1,024 machines
MID, GPT2 = 4 * 10.7e6, 4 * 124e6           # bytes of a gradient
ETHERNET = 50e-6, 1.25e9                    # α in seconds and β in bytes per second, assumed
INFINIBAND = 2e-6, 25e9
NETWORKS = {"10 Gbit/s Ethernet": ETHERNET, "200 Gbit/s InfiniBand": INFINIBAND}
n = 2 ** np.arange(1, 11)


def over_machines(curves, ylabel, **options):
    """A figure of curves {title: (machines, values)}."""
    picture = views.step_sizes(curves, "number of machines", ylabel)
    picture.axes[0].set(xticks=n, xticklabels=n, **options)
    picture.axes[0].minorticks_off()
    return picture


predict("Without latency, how many milliseconds does a ring of very many machines take for 50 MB at 1.25 GB/s?", 80,
        why="What remains is 2 (n - 1) / n · s / β, and (n - 1) / n tends to 1: 2 · 50 MB / 1.25 GB/s = 0.08 s.")
for name, (a, b) in NETWORKS.items():
    claim(f"{name}: the bandwidth term grows with n, but only to 2 s/β", np.all(np.diff(T(n, MID, 0, b)) > 0)
          and abs(T(1024, MID, 0, b) / (2 * MID / b) - 1) < 0.001, f"{2e3 * MID / b:.1f} ms for 43 MB")
    claim(f"{name}: the latency term of n machines is n - 1 times that of two", np.allclose(
        T(n, 0, a, b), (n - 1) * T(2, 0, a, b)), f"{1e3 * T(1024, 0, a, b):.1f} ms for 1,024 machines")
sizes = np.geomspace(1, 1e9, 100_001)
for machines in (8, 64, 1024):
    faster = sizes[doubling(machines, sizes, *ETHERNET) < T(machines, sizes, *ETHERNET)].max()
    L = math.log2(machines)
    limit = math.prod(ETHERNET) * (2 * (machines - 1) - L) / (L - 2 * (machines - 1) / machines)
    claim(f"{machines} machines: recursive doubling is faster up to αβ (2 (n-1) - log2 n) / (log2 n - 2 (n-1)/n) bytes",
          abs(faster / limit - 1) < 1e-3, f"{limit / 1e6:.1f} MB on Ethernet")
figure("on_paper", over_machines({
    f"{name}, {network}": (n, 1e3 * T(n, size, a, b)) for network, (a, b) in NETWORKS.items()
    for name, size in (("GPT-2, 496 MB", GPT2), ("mid, 43 MB", MID))}, "time (ms)",
    ylim=(0.1, 2000), title="Ring all-reduce on n machines, estimated"))

# %% [markdown]
# ## 4. When do more machines help?
#
# A training step takes about 6 operations per parameter and token, 2 in forward and 4 in backward. For P parameters and
# t tokens, a machine with F operations per second computes for C = 6 P t / F seconds. The **efficiency** C / (C + T) is
# the share of the time in which the machine computes.
#
# - **Weak scaling**: each machine has t tokens, and the batch grows with n. Then C stays the same, and T tends to 8 P/β
#   as long as the latency is small. P cancels, so the efficiency tends to 1 / (1 + 4 F / (3 t β)). Large models are not
#   harder to scale than small ones, but fast processors and small batches are.
# - **Strong scaling**: the whole batch has a fixed size. Then C/n falls with n, and T does not. The step is shortest
#   where the gain in C/n balances the growing latency term, at n = sqrt((C - 2 s/β) / (2 α)) machines. Beyond that,
#   more machines make the step *slower*.
#
# Why do we not let the batch grow forever? Beyond some size, a larger batch no longer reduces the number of steps
# (McCandlish et al. 2018). Real systems also hide part of T: they send the gradients of the last layers while backward
# is still computing those of the first layers.

# %% Weak and strong scaling of the mid model, estimated
P = MID / 4
FAST = 100e12                               # operations per second of an accelerator, assumed
SLOW = 120e9                                # and of two processor cores


def efficiency(n, tokens, F, network, P=P):
    """The efficiency of n machines that have this many tokens each."""
    C = 6 * P * tokens / F
    return C / (C + T(n, 4 * P, *network))


weak = {"two cores, Ethernet, 2,048 tokens": efficiency(n, 2048, SLOW, ETHERNET),
        "accelerator, InfiniBand, 131,072 tokens": efficiency(n, 131072, FAST, INFINIBAND),
        "accelerator, InfiniBand, 2,048 tokens": efficiency(n, 2048, FAST, INFINIBAND),
        "accelerator, Ethernet, 2,048 tokens": efficiency(n, 2048, FAST, ETHERNET)}
for title, values in weak.items():
    print(f"    {title}: {values[5]:.1%} on 64 machines, {values[9]:.1%} on 1,024")
a, b = ETHERNET
bound = 1 / (1 + 4 * SLOW / (3 * 2048 * b))
claim("without latency, the efficiency tends to 1 / (1 + 4 F / (3 t β)) for both mid and GPT-2", np.allclose(
    [efficiency(1e6, 2048, SLOW, (0, b), size / 4) for size in (MID, GPT2)], bound, rtol=1e-5), f"{bound:.2f}")
claim("with 64 times as many tokens on each machine, 1,024 accelerators become efficient",
      efficiency(1024, 2048, FAST, INFINIBAND) < 0.3 and efficiency(1024, 131072, FAST, INFINIBAND) > 0.9)
C = 6 * P * 131072 / SLOW                   # a whole batch of 1,024 sequences of 128 tokens
machines = np.arange(1, 1025)
step_times = C / machines + T(machines, MID, a, b)
best = math.sqrt((C - 2 * MID / b) / (2 * a))
claim("strong scaling: the step is shortest at sqrt((C - 2 s/β) / (2 α)) machines",
      abs(machines[step_times.argmin()] - best) < 1,
      f"{best:.0f} machines, {step_times.min():.2f} s instead of {C:.0f} s")
claim("1,024 machines are slower than this, and less than 1,024 / 3 times as fast as one machine",
      step_times[-1] > step_times.min() and C / step_times[-1] < 1024 / 3, f"{C / step_times[-1]:.0f} times as fast")
figure("weak_scaling", over_machines({title: (n, 100 * values) for title, values in weak.items()},
                                     "efficiency (%)", yscale="linear", ylim=(0, 105),
                                     title="Weak scaling: a fixed batch on each machine"))
strong = {"ideal: n times as fast": (n, n)}
for sequences in (1024, 64):
    C = 6 * P * 128 * sequences / SLOW
    machines = n[n <= sequences]            # each machine needs at least one sequence
    strong[f"a batch of {sequences:,} sequences, Ethernet"] = machines, C / (C / machines + T(machines, MID, a, b))
figure("strong_scaling", over_machines(strong, "speedup over one machine", yticks=n, yticklabels=n,
                                       title="Strong scaling: the whole batch has a fixed size"))

# %% [markdown]
# ## 5. Sharding the optimizer's state
#
# Adam keeps two numbers for each weight, m and v. In float32, each parameter takes 16 bytes on each rank, for its
# weight, gradient, m and v. All ranks compute the same step from the same sum, so the same work is done n times, and
# there are n copies of the same m and v. **ZeRO-1** (Rajbhandari et al. 2020) removes these copies. Adam works *entry
# by entry*: the new weight i depends on entry i of the weight, the gradient, m and v, and on nothing else. So rank r
# can update chunk r alone:
#
# 1. Reduce-scatter the gradient. Rank r now has the complete sum of chunk r, and needs no other chunk.
# 2. Rank r updates chunk r of the weights with *its* chunk of m and v. No other rank keeps this chunk.
# 3. All-gather the weights.
#
# These are the two halves of the ring from section 2 with Adam between them, so they send as many bytes as one
# all-reduce. The memory per parameter falls from 16 to 8 + 8/n bytes. The result is not an approximation: it has the
# same bits.
#
# An update that needs more than entry i requires one more message. Clipping by the global norm is an example: each rank
# knows only the squares of its own chunk, so their sums have to be added over all ranks before the update.

# %% Four ranks train, first with all of m and v on each rank, then with a quarter
batches = [batch() for _ in range(6)]
start = flat(model, "data")


def load(model, weights):
    """Puts the vector of all weights into the model; undoes flat(model, "data")."""
    for parameter in model.parameters():
        parameter.data = weights[:parameter.data.size].reshape(parameter.data.shape)
        weights = weights[parameter.data.size:]


def train(r, sharded):
    """Trains for six steps. Returns the weights, the bytes sent, and the bytes of m and v."""
    replica = copy.deepcopy(model)
    criterion = nt.CrossEntropyLoss(ignore_id=PAD)
    weights = nt.Parameter(np.array_split(start, r.n)[r.rank] if sharded else start)
    optimizer = nt.AdamW([weights], lr=0.01, weight_decay=0.1)
    for ids in batches:
        part = np.array_split(ids, r.n)[r.rank]
        replica.zero_grad()
        criterion(replica(part[:, :-1]), part[:, 1:])
        r.buffer = np.array([float(criterion.count)])
        N = ring(r)[0]                                      # the sum of the counts of all ranks
        replica.backward(criterion.backward(criterion.count / N))
        r.buffer = flat(replica, "grad")                    # n_k g_k / N, so a plain sum remains
        weights.grad = reduce_scatter(r) if sharded else ring(r)
        optimizer.step()
        if sharded:
            np.array_split(r.buffer, r.n)[r.rank][:] = weights.data
            all_gather(r)
        load(replica, r.buffer if sharded else weights.data)
    return flat(replica, "data"), sum(size for _, size in r.sent), optimizer.m[0].nbytes + optimizer.v[0].nbytes


empty = [np.zeros(0)] * 4                   # the ranks make their own buffers
_, replicated = in_threads(lambda r: train(r, sharded=False), empty)
_, sharded = in_threads(lambda r: train(r, sharded=True), empty)
alone = copy.deepcopy(model)
optimizer = nt.AdamW(alone.parameters(), lr=0.01, weight_decay=0.1)
for ids in batches:
    gradient(alone, ids)
    optimizer.step()
weights, bytes_sent, state_bytes = replicated[0]
claim("after six steps of AdamW, all ranks have the same weights, bit for bit",
      all(np.array_equal(w, weights) for w, _, _ in replicated))
claim("with a quarter of m and v on each rank, they have the same weights again, bit for bit",
      all(np.array_equal(w, weights) for w, _, _ in sharded))
moved = flat(alone, "data") - start
claim("one process with the whole batch gets the same weights up to rounding",
      relative_difference(weights - start, moved) < 1e-9 and np.linalg.norm(moved) > 0.1)
claim("sharding sends the same number of bytes",
      [sent for _, sent, _ in sharded] == [sent for _, sent, _ in replicated])
shard_bytes = [state for _, _, state in sharded]
claim("all ranks together now keep one copy of m and v", sum(shard_bytes) == state_bytes
      and max(shard_bytes) - min(shard_bytes) <= 16,
      f"{state_bytes:,} bytes on each rank before, now {', '.join(f'{size:,}' for size in shard_bytes)}")
chunks = np.array_split(whole, 4)
claim("one number from each rank is enough to compute the norm of the gradient", math.isclose(
    math.sqrt(sum(chunk @ chunk for chunk in chunks)), np.linalg.norm(whole)))
predict("GPT-2 has 124 million parameters of 16 bytes each, 1,984 MB. How many MB does each of 8 ranks need with "
        "ZeRO-1?", 1116,
        why="Weights and gradients stay whole, 8 bytes for each parameter. m and v are split among the 8 ranks, 8 / 8 "
            "= 1 byte: 124 million · 9 bytes.")
claim("8 + 8/n bytes per parameter is always more than half of 16", [124 * (8 + 8 / n) for n in (1, 8)] == [1984, 1116]
      and all(8 + 8 / n > 16 / 2 for n in (2, 1024, 10 ** 6)))

# %% [markdown]
# ZeRO-2 also keeps only chunk r of the gradient once it is summed, which leaves 4 + 12/n bytes per parameter. ZeRO-3,
# also known as fully sharded data parallel (FSDP), shards the weights as well, which leaves 16/n bytes. It gathers the
# weights of each layer when they are needed, once in forward and once in backward, so it sends half as many bytes
# again.
#
# ## Exercises
#
# 1. Three parts have 10, 20 and 70 targets that count, and the mean gradients 1, 2 and 3. What is the gradient of the
#    batch, and what does the plain mean give? For which loss would the plain mean be right?
# 2. In `reduce_scatter`, let each rank receive before it sends. What happens, and why? How many ranks must send first
#    so that it works again, and what does the reduce-scatter cost then?
# 3. Write recursive doubling with `Rank` for 8 ranks, and compare its messages and bytes with section 3. Do all ranks
#    get the same bits? (Is a + b the same as b + a? Is (a + b) + c the same as a + (b + c)?)
# 4. Leave out the copy in `Rank.send`. Ranks then read each other's buffers, and still no claim fails. Why does a rank
#    of the ring never write into a chunk that its neighbor has not read yet?
# 5. With float16 instead of float32, half as many bytes are sent. Sum 1,024 gradients around 1e-4 in float16. What is
#    lost, and where?
# 6. LAMB scales the step of each weight matrix by the norm of this matrix. Which steps of section 5 still hold, and
#    which do not?
#
# With a checker (`numpy-transformer exercise check 20.1` and so on): 20.1, 20.2.
