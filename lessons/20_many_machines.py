# %% [markdown]
# # 20 Training on several machines
#
# One machine computes the gradient of a batch. With n machines, each computes the gradient of a part of it, and they
# add up what they have. This lesson shows which sum is the right one, builds the ring all-reduce that computes it
# (in NumPy, with a thread for each machine), estimates what it costs on 2 to 1,024 machines, and shards the state of
# Adam so that each machine keeps only its share. The package does all but the last: `Trainer(workers=2)` uses the
# cores of one machine, and with `pip install "numpy-transformer[mpi]"`, `mpiexec -n 4 numpy-transformer train ...`
# trains with four processes, on one machine or several.
#
# Afterwards you can split a batch correctly, write a ring all-reduce and count its bytes, say when more machines stop
# helping, and explain what ZeRO-1 saves and why it gives the same weights. Lesson 19 has Adam, and computes the parts
# of a batch one after the other. About 15 minutes.

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
from numpy_transformer.classroom import claim, figure, lesson, predict, show

lesson.start(__name__)
rng = np.random.default_rng(20)
PAD, V, LENGTHS = 0, 11, np.array([10, 10, 9, 8, 6, 4, 3, 3])       # eight sequences, the long ones first


def batch():
    ids = rng.integers(1, V, (8, 10))
    ids[np.arange(10) >= LENGTHS[:, None]] = PAD
    return ids


def gradient(model, ids):
    """The gradient of the mean over the targets that count, as one vector; and how many these are."""
    criterion = nt.CrossEntropyLoss(ignore_id=PAD)
    model.zero_grad()
    criterion(model(ids[:, :-1]), ids[:, 1:])
    model.backward(criterion.backward())
    return flat(model, "grad"), criterion.count


def flat(model, name):                      # "data" or "grad"
    return np.concatenate([getattr(parameter, name).ravel() for parameter in model.parameters()])


def apart(a, b):                            # their distance, relative to the size of b
    return np.linalg.norm(a - np.asarray(b)) / np.linalg.norm(b)


model = nt.CausalLanguageModel(V, 12, 2, 1, max_len=9, rng=1).astype(np.float64)
ids = batch()
whole, N = gradient(model, ids)

# %% [markdown]
# ## 1. The gradient of a batch is a weighted sum
#
# The loss is a mean over the N targets that count; padding does not. Every target has a loss of its own, and the
# gradient of a sum is the sum of the gradients. So the order of adding is free, and the N terms can be grouped into
# parts. If part k has n_k targets that count, and g_k is the gradient of *its* mean, then n_k g_k is the sum of its
# terms, and
#
#     g = (n_1 g_1 + n_2 g_2 + ...) / N           N = n_1 + n_2 + ...
#
# Part k has the weight n_k / N. **A worked number.** Part A has three targets with the gradients 1, 2 and 3; part B has
# one target, with the gradient 10. The mean of all four is 16 / 4 = 4. The means of the parts are 2 and 10, and
# (3 · 2 + 1 · 10) / 4 = 4 as well. The plain mean of the means is (2 + 10) / 2 = 6: it gives the one target of part B
# the weight 1/2 instead of 1/4. With padding, plain means favor the targets of short sequences, without any warning.

# %% Four parts of two sequences
parts = [gradient(model, part) for part in np.array_split(ids, 4)]
counts = [count for _, count in parts]
show(counts=counts)
claim("the worked number: 4 with the weights 3/4 and 1/4", (3 * 2 + 1 * 10) / 4 == np.mean([1, 2, 3, 10]) == 4)
weighted = sum(count * g for g, count in parts) / N
claim("the weighted sum of four parts is the gradient of the whole batch, within 1e-12",
      sum(counts) == N and apart(weighted, whole) < 1e-12)
plain_mean = sum(g for g, _ in parts) / 4
cosine = plain_mean @ whole / np.linalg.norm(plain_mean) / np.linalg.norm(whole)
claim("the plain mean of the four means is not", apart(plain_mean, whole) > 0.1 and cosine < 0.99,
      f"relative error {apart(plain_mean, whole):.2f}, cosine {cosine:.2f}")
predict(f"{counts} targets: in the plain mean, how many times as much do those of the last part weigh as the first?",
        counts[0] / counts[3])
full = rng.integers(1, V, (8, 10))          # without padding the counts are equal
halves = [gradient(model, part)[0] for part in np.array_split(full, 2)]
claim("with equal counts the plain mean is right, so tests need padding",
      apart(sum(halves) / 2, gradient(model, full)[0]) < 1e-12)

# %% [markdown]
# **What does not split like this.** The weighted sum is exact because the loss is a sum of one term for each target.
# Anything that is not such a sum needs care:
#
# - *Clipping* comes after the sum. The norm of a sum is not the sum of the norms, and a part that is clipped on its own
#   also gets another weight.
# - *Dropout* draws a random mask. Each machine draws the masks of its part, so the gradient is not that of one machine
#   with the same seed; it is another draw from the same distribution. The generators must differ: if all machines
#   start from the same seed, all drop the same places, and the masks are no longer independent.
# - *Batch statistics*: BatchNorm (lesson 08) subtracts the mean of the batch from each row. A part knows only its own
#   mean. LayerNorm and RMSNorm look at one token at a time, so a Transformer has no such trouble.
# - The *loss to be printed* is a mean like the gradient, and takes the same weights.

# %% Clipping, dropout, batch statistics
limit = 0.5 * np.linalg.norm(whole)


def clipped(g):
    parameter = nt.Parameter(np.zeros(g.shape))
    parameter.grad = g
    nt.clip_grad_norm([parameter], limit)
    return parameter.grad


right, wrong = clipped(weighted), sum(count * clipped(g) for g, count in parts) / N
claim("clipping after the sum gives the clipped gradient of the whole batch", apart(right, clipped(whole)) < 1e-12
      and math.isclose(np.linalg.norm(right), limit))
claim("clipping before the sum gives another gradient", apart(wrong, right) > 0.05,
      f"relative error {apart(wrong, right):.2f}")
kept = [nt.Dropout(0.5, rng=seed)(np.ones((100, 100))) > 0 for seed in (7, 7, [7, 0], [7, 1])]
claim("two machines with the same seed drop the same places", kept[0] == kept[1])
claim("with seeds of their own they agree in half of the places, as by chance",
      abs(np.mean(kept[2] == kept[3]) - 0.5) < 0.02, f"{np.mean(kept[2] == kept[3]):.3f}")
rows = np.array([1.0, 3.0, 11.0, 13.0])
centered = np.concatenate([part - part.mean() for part in np.split(rows, 2)])
claim("batch statistics: centered in two parts, rows 0 and 2 become equal; in one batch they do not",
      np.array_equal(centered, [-1, 1, -1, 1]) and np.array_equal(rows - rows.mean(), [-6, -4, 4, 6]))

# %% [markdown]
# ## 2. A ring all-reduce
#
# Every machine has a vector, and every machine needs the sum of all vectors. This operation is called **all-reduce**;
# a machine that takes part is called a **rank**. The obvious way is to send everything to rank 0, which adds and sends
# the sum back. Rank 0 then receives n - 1 vectors and sends n - 1: with 1,024 ranks it is busy while 1,023 wait.
#
# The ring (Patarasuk and Yuan 2009) shares the work. Rank r sends only to its right neighbor, r + 1, and rank n - 1
# sends to rank 0. The vector is cut into n chunks.
#
# - **Reduce-scatter**, n - 1 rounds: every rank sends one chunk to the right, and adds the chunk that comes from the
#   left to its own. A chunk travels once around the ring and collects all terms. Afterwards rank r has the
#   complete sum of chunk r, and of no other.
# - **All-gather**, n - 1 rounds: the complete chunks travel around the ring once more, and replace what is there.
#
# In each of the 2 (n - 1) rounds, a rank sends 1/n of the vector. That is 2 (n - 1) / n vectors in total, fewer than
# two, **however many ranks there are**.
#
# Below, every rank is a thread. It has nothing but its own buffer and the messages it receives. Which thread runs first
# does not matter, because each addition waits for one particular message: the result has the same bits every time.

# %% Ranks, messages, and the two halves of the ring
class Rank:
    """One of n threads, with its buffer. It notes every message that it sends, and what its buffer was then."""

    def __init__(self, rank, buffer, mail):
        self.rank, self.n, self.buffer, self.mail = rank, len(mail), buffer.copy(), mail
        self.left, self.right = (rank - 1) % self.n, (rank + 1) % self.n
        self.sent, self.history = [], []

    def send(self, to, array):
        self.sent.append((to, array.nbytes))
        self.history.append(self.buffer.copy())
        self.mail[to][self.rank].put(array.copy())          # a copy, as if it went to another machine

    def receive(self, source):
        return self.mail[self.rank][source].get(timeout=20)


def reduce_scatter(r):
    """Afterwards chunk r.rank of the buffer is the sum over all ranks; returns a view of it."""
    chunks = np.array_split(r.buffer, r.n)
    for step in range(1, r.n):
        r.send(r.right, chunks[(r.rank - step) % r.n])
        chunks[(r.rank - step - 1) % r.n] += r.receive(r.left)
    return chunks[r.rank]


def all_gather(r):
    """Chunk r.rank of each rank replaces that of all others."""
    chunks = np.array_split(r.buffer, r.n)
    for step in range(r.n - 1):
        r.send(r.right, chunks[(r.rank - step) % r.n])
        chunks[(r.rank - step - 1) % r.n][:] = r.receive(r.left)


def ring(r):
    reduce_scatter(r)
    all_gather(r)
    return r.buffer


def by_rank_0(r):                           # the obvious way
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
    """Runs the program once for each buffer, in a thread each; the ranks, and what the program returned for each."""
    mail = [[queue.Queue() for _ in buffers] for _ in buffers]              # mail[to][source]
    ranks = [Rank(n, buffer, mail) for n, buffer in enumerate(buffers)]
    with ThreadPoolExecutor(len(buffers)) as pool:
        return ranks, list(pool.map(program, ranks))


# %% The sum, its bits, and its bytes
for n in (1, 2, 3, 5, 8):
    vectors = list(rng.standard_normal((n, 1000)))          # with n = 3 the chunks have 334, 333 and 333 entries
    ranks, sums = in_threads(ring, vectors)
    claim(f"n = {n}: every rank has the sum, and all have the same bits", apart(sums[0], np.sum(vectors, 0)) < 1e-14
          and all(np.array_equal(sums[0], other) for other in sums))
again = in_threads(ring, vectors)[1][0]
claim("a second run gives the same bits", np.array_equal(again, sums[0]))
claim("other bits than the sum in the order of the ranks, since each chunk starts at another rank",
      not np.array_equal(sums[0], sum(vectors)))
predict("8 ranks, vectors of 8,000 bytes: how many bytes does each rank send?", 14_000)
ranks, star_ranks = in_threads(ring, vectors)[0], in_threads(by_rank_0, vectors)[0]
bytes_sent, star_bytes = ([sum(size for _, size in r.sent) for r in group] for group in (ranks, star_ranks))
show(bytes_sent_in_the_ring=bytes_sent, bytes_sent_by_way_of_rank_0=star_bytes)
claim("ring: 2 (n - 1) messages, all to the right neighbor", all(
    len(r.sent) == 2 * (8 - 1) and {to for to, _ in r.sent} == {(r.rank + 1) % 8} for r in ranks))
claim("ring: each rank sends 2 (n - 1) / n of a vector", bytes_sent == [2 * 7 / 8 * 8000] * 8)
claim("by way of rank 0: the same sum, but rank 0 sends n - 1 vectors",
      all(apart(r.buffer, sums[0]) < 1e-14 for r in star_ranks) and star_bytes == [7 * 8000] + [8000] * 7)
shares = [2 * (n - 1) / n for n in (2, 8, 64, 1024)]
claim("2 (n - 1) / n is below two vectors for every n", max(shares) < 2, ", ".join(f"{x:.3f}" for x in shares))

# %% A picture: four ranks, and whose terms each chunk contains after each round
ranks, _ = in_threads(ring, [np.full(4, 2.0 ** n) for n in range(4)])      # binary digit n of a sum: rank n is in it
rounds = np.array([[*r.history, r.buffer] for r in ranks]).astype(int).swapaxes(0, 1)      # (7, 4 ranks, 4 chunks)
terms = np.array([[[value.bit_count() for value in row] for row in now] for now in rounds.tolist()])
claim("after reduce-scatter rank r has all four terms of chunk r, and of no other chunk", (terms[3] == 4) == np.eye(4))
claim("after all-gather every rank has all terms of every chunk", terms[6] == 4)
picture = Figure(figsize=(14, 6), layout="constrained")
*panels, key = picture.subplots(2, 4).flat
titles = ["at first", *(f"{half}, round {n}" for half in ("reduce-scatter", "all-gather") for n in (1, 2, 3))]
for axes, now, before, count, title in zip(panels, rounds, [rounds[0], *rounds], terms, titles):
    axes.imshow(count, "Blues", vmin=0, vmax=5, aspect="auto")
    for rank, chunk in np.ndindex(4, 4):
        text = "+".join(str(n) for n in range(4) if now[rank, chunk] >> n & 1)
        axes.text(chunk, rank, "all" if text == "0+1+2+3" else text, ha="center", va="center", size=12,
                  color="white" if count[rank, chunk] > 3 else "black")
        if now[rank, chunk] != before[rank, chunk]:
            axes.add_patch(Rectangle((chunk - 0.45, rank - 0.44), 0.9, 0.88, fill=False, color="C1", linewidth=3))
    axes.set(title=title, xlabel="chunk", ylabel="rank", xticks=range(4), yticks=range(4))
key.axis("off")
key.text(0, 0.5, "0+3: the sum of the terms\nof ranks 0 and 3\n\nframe: changed in this round\n"
                 "by a message from the rank\nabove (for rank 0: rank 3)", va="center", size=13)
figure("ring", picture)

# %% [markdown]
# ## 3. What it costs
#
# The usual model of a message (Hockney 1994) has two numbers: the **latency** α is the time of an empty message, the
# **bandwidth** β is the number of bytes per second. A message of s bytes takes α + s/β. A ring all-reduce of s bytes
# has 2 (n - 1) rounds, with s/n bytes in each:
#
#     T(n, s) = 2 (n - 1) (α + s / (n β)) = 2 (n - 1) α  +  2 (n - 1)/n · s/β
#
# The second term tends to 2 s/β: more ranks do not make it longer. The first grows in proportion to n. In *recursive
# doubling*, rank r exchanges the whole vector with rank r XOR 1, then r XOR 2, r XOR 4 and so on: only log2(n) rounds,
# but with s bytes in each, so T = log2(n) (α + s/β). It is faster for short vectors, and slower for long ones.
#
# The tables below were **recorded**; the lesson does not measure anything. Two MPI processes (mpi4py 4, MPICH 5.0)
# ran on one machine with a two-core AMD EPYC (Zen 4) that was otherwise idle; each time is a median of 25 to 2,000
# repetitions. Messages went through the shared memory of that machine, not through a network.

# %% Two processes, as recorded, and the model
MICROSECONDS = {                            # {bytes: median}
    "ping-pong, half a round trip": {8: 1.83, 2048: 1.98, 32768: 6.53, 131072: 13.5, 524288: 44.1, 2097152: 165,
                                     8388608: 732, 33554432: 2891, 43000000: 3643, 67108864: 6859},
    "ring all-reduce, written with Sendrecv": {8: 6.3, 2048: 6.5, 131072: 40.6, 2097152: 222, 8388608: 949,
                                               43000000: 7418, 67108864: 9661},
    "Allreduce of MPICH, in place": {8: 3.4, 2048: 4.2, 131072: 35.3, 2097152: 258, 8388608: 1068, 43000000: 19306,
                                     67108864: 29374}}
RECORDS = [(np.array(list(table)), np.array(list(table.values())) * 1e-6) for table in MICROSECONDS.values()]
(ping_sizes, ping), (ring_sizes, ring_times), (mpi_sizes, mpi_times) = RECORDS          # bytes, and seconds


def T(n, s, alpha, beta):                   # a ring all-reduce of s bytes on n ranks
    return 2 * (n - 1) * (alpha + s / (n * beta))


def doubling(n, s, alpha, beta):            # recursive doubling
    return np.log2(n) * (alpha + s / beta)


equations = np.stack([1 / ping, ping_sizes / ping], 1)      # α and 1/β by least squares of the relative errors
alpha, slope = np.linalg.lstsq(equations, np.ones(len(ping)), rcond=None)[0]
beta = 1 / slope
print(f"    α = {alpha * 1e6:.1f} µs, β = {beta / 1e9:.1f} GB/s")
claim("α and β describe all ten ping-pong times to within a third",
      abs((alpha + ping_sizes / beta) / ping - 1) < 1 / 3)
ratios = ring_times / T(2, ring_sizes, alpha, beta)
claim("the measured ring takes between 1 and 3 times what the model says", (ratios > 1) & (ratios < 3),
      ", ".join(f"{ratio:.1f}" for ratio in ratios))
mpi_ratios = mpi_times / T(2, mpi_sizes, alpha, beta)
claim("MPICH's Allreduce takes up to 3 times that for 8 MB or less, but about 5 times for 43 MB and more",
      np.all(mpi_ratios[mpi_sizes < 1e7] < 3) and np.all(mpi_ratios[mpi_sizes > 1e7] > 4.5),
      ", ".join(f"{ratio:.1f}" for ratio in mpi_ratios))
rounds = [max(sizes) for sizes in zip(*([size for _, size in r.sent] for r in in_threads(ring, vectors)[0]))]
claim("T(8, s) is the sum over the rounds of the threads in section 2", math.isclose(
    sum(alpha + size / beta for size in rounds), T(8, 8000, alpha, beta)))
figure("measured", views.step_sizes({
    "the model, n = 2": (ping_sizes, 1e3 * T(2, ping_sizes, alpha, beta)),
    "a ring, written with Sendrecv": (ring_sizes, 1e3 * ring_times),
    "Allreduce of MPICH": (mpi_sizes, 1e3 * mpi_times)}, "bytes", "milliseconds for an all-reduce, recorded"))

# %% [markdown]
# The model is too optimistic, for three reasons. Both ranks send at the same time through the same memory. Adding is
# not free: better models have a third term for it (Thakur, Rabenseifner and Gropp 2005). And a library has costs of
# its own: when the C library was told to keep freed memory instead of returning it to the operating system, the
# Allreduce of 43 MB took 10 ms instead of 19. A model tells what to expect; only a measurement tells what happens.
#
# **On paper: 2 to 1,024 machines.** The vectors are the float32 gradients of two models: the `mid` of this project with
# 10.7 million parameters (43 MB), and GPT-2 with 124 million (496 MB). The two networks are *assumptions*, not
# measurements: the bandwidth that their names promise, and a latency of the usual order. Real networks do worse.

# %% The curves from 2 to 1,024 machines
MID, GPT2 = 4 * 10.7e6, 4 * 124e6           # bytes of a gradient
ETHERNET, INFINIBAND = (50e-6, 1.25e9), (2e-6, 25e9)        # α and β, assumed
NETWORKS = {"10 Gbit/s Ethernet": ETHERNET, "200 Gbit/s InfiniBand": INFINIBAND}
n = 2 ** np.arange(1, 11)


def over_machines(curves, ylabel, **options):
    picture = views.step_sizes(curves, "machines", ylabel)
    picture.axes[0].set(xticks=n, xticklabels=n, **options)
    picture.axes[0].minorticks_off()
    return picture


predict("50 MB at 1.25 GB/s on very many machines, without the latency: how many milliseconds?", 80)
for name, (a, b) in NETWORKS.items():
    claim(f"{name}: the bandwidth term grows, but only to 2 s/β", np.all(np.diff(T(n, MID, 0, b)) > 0)
          and abs(T(1024, MID, 0, b) / (2 * MID / b) - 1) < 0.001, f"{2e3 * MID / b:.1f} ms for 43 MB")
    claim(f"{name}: the latency term is n - 1 times that of two machines", np.allclose(
        T(n, 0, a, b), (n - 1) * T(2, 0, a, b)), f"{1e3 * T(1024, 0, a, b):.1f} ms for 1,024 machines")
sizes = np.geomspace(1, 1e9, 100_001)
for machines in (8, 64, 1024):
    faster = sizes[doubling(machines, sizes, *ETHERNET) < T(machines, sizes, *ETHERNET)].max()
    L = math.log2(machines)
    border = math.prod(ETHERNET) * (2 * (machines - 1) - L) / (L - 2 * (machines - 1) / machines)
    claim(f"{machines} machines: recursive doubling is faster up to αβ (2 (n-1) - log2 n) / (log2 n - 2 (n-1)/n) bytes",
          abs(faster / border - 1) < 1e-3, f"{border / 1e6:.1f} MB on Ethernet")
figure("on_paper", over_machines({
    f"{name}, {network}": (n, 1e3 * T(n, size, a, b)) for network, (a, b) in NETWORKS.items()
    for name, size in (("GPT-2, 496 MB", GPT2), ("mid, 43 MB", MID))}, "milliseconds for a ring all-reduce",
    ylim=(0.1, 2000)))

# %% [markdown]
# ## 4. When do more machines help?
#
# A training step takes about 6 operations per parameter and token: 2 forward, 4 backward. With P parameters, t tokens
# and a machine that does F operations per second, it computes for C = 6 P t / F seconds. The **efficiency** is
# C / (C + T), the share of the time in which the machine computes.
#
# - **Weak scaling**: every machine has t tokens; the batch grows with n. C stays the same, T tends to 8 P/β. P cancels:
#   the efficiency tends to 1 / (1 + 4 F / (3 t β)) while latency is small. Large models are not harder to scale than
#   small ones; fast processors are, and small batches.
# - **Strong scaling**: the whole batch is fixed. C/n falls, T does not. The step is shortest where C/n and the latency
#   term balance, at n = sqrt((C - 2 s/β) / (2 α)) machines. Beyond that, more machines make it *slower*.
#
# Why not let the batch grow for ever? Beyond some size, a larger batch no longer needs fewer steps (McCandlish et al.
# 2018). Real systems also hide T: they send the gradients of the last layers while backward is still at the first ones.

# %% Weak and strong scaling of mid, on paper
P = MID / 4
FAST, SLOW = 100e12, 120e9                  # operations per second, assumed: an accelerator, two processor cores


def efficiency(n, tokens, F, network, P=P):
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
claim("without latency the efficiency tends to 1 / (1 + 4 F / (3 t β)), for mid and for GPT-2 alike", np.allclose(
    [efficiency(1e6, 2048, SLOW, (0, b), size / 4) for size in (MID, GPT2)], bound, rtol=1e-5), f"{bound:.2f}")
claim("64 times as many tokens on each machine make 1,024 accelerators efficient",
      efficiency(1024, 2048, FAST, INFINIBAND) < 0.3 and efficiency(1024, 131072, FAST, INFINIBAND) > 0.9)
C = 6 * P * 131072 / SLOW                   # a whole batch of 1,024 sequences of 128 tokens
every = np.arange(1, 1025)
steps = C / every + T(every, MID, a, b)
best = math.sqrt((C - 2 * MID / b) / (2 * a))
claim("strong scaling: the step is shortest at sqrt((C - 2 s/β) / (2 α)) machines",
      abs(every[steps.argmin()] - best) < 1, f"{best:.0f} machines, {steps.min():.2f} s instead of {C:.0f} s")
claim("1,024 machines are slower than that, and less than 1,024 / 3 times as fast as one", steps[-1] > steps.min()
      and C / steps[-1] < 1024 / 3, f"{C / steps[-1]:.0f} times")
figure("weak_scaling", over_machines({title: (n, 100 * values) for title, values in weak.items()},
                                     "efficiency (%), a fixed batch on each", yscale="linear", ylim=(0, 105)))
strong = {"n machines, n times as fast": (n, n)}
for sequences in (1024, 64):
    C = 6 * P * 128 * sequences / SLOW
    machines = n[n <= sequences]            # each needs at least one sequence
    strong[f"a batch of {sequences:,} sequences, Ethernet"] = machines, C / (C / machines + T(machines, MID, a, b))
figure("strong_scaling", over_machines(strong, "times as fast as one machine", yticks=n, yticklabels=n))

# %% [markdown]
# ## 5. Sharding the optimizer's state
#
# Adam keeps two numbers for each weight, m and v. With float32, a parameter takes 16 bytes on each rank: weight,
# gradient, m and v. All ranks compute the same step from the same sum: n times the same work, n copies of the same m
# and v. **ZeRO-1** (Rajbhandari et al. 2020) removes these copies. Adam acts *entry by entry*: the new weight i
# depends on entry i of weight, gradient, m and v, and on nothing else. So rank r can update chunk r alone:
#
# 1. reduce-scatter the gradient: rank r has the complete sum of chunk r, and that is all it needs;
# 2. rank r updates chunk r of the weights with *its* chunk of m and v. No other rank keeps that chunk;
# 3. all-gather the weights.
#
# These are the two halves of section 2 with Adam between them, and as many bytes as one all-reduce. Memory per
# parameter falls from 16 to 8 + 8/n bytes. The result is not an approximation: it has the same bits.
#
# An update that needs more than entry i takes one more message. Clipping by the global norm is an example: each rank
# knows the squares of its chunk only, so one number has to be summed over the ranks before the update.

# %% Four ranks train: with m and v on each of them, and with a quarter of m and v on each
batches = [batch() for _ in range(6)]
start = flat(model, "data")


def load(model, weights):                   # the other way round from flat(model, "data")
    for parameter in model.parameters():
        parameter.data = weights[:parameter.data.size].reshape(parameter.data.shape)
        weights = weights[parameter.data.size:]


def train(r, sharded):
    """Six steps; the weights, the bytes sent for them, and the bytes of m and v."""
    replica, criterion = copy.deepcopy(model), nt.CrossEntropyLoss(ignore_id=PAD)
    weights = nt.Parameter(np.array_split(start, r.n)[r.rank] if sharded else start)
    optimizer = nt.AdamW([weights], lr=0.01, weight_decay=0.1)
    for ids in batches:
        part = np.array_split(ids, r.n)[r.rank]
        replica.zero_grad()
        criterion(replica(part[:, :-1]), part[:, 1:])
        r.buffer = np.array([float(criterion.count)])
        N = ring(r)[0]                                      # the counts of all ranks, added
        replica.backward(criterion.backward(criterion.count / N))
        r.buffer = flat(replica, "grad")                    # n_k g_k / N, so what remains is a plain sum
        weights.grad = reduce_scatter(r) if sharded else ring(r)
        optimizer.step()
        if sharded:
            np.array_split(r.buffer, r.n)[r.rank][:] = weights.data
            all_gather(r)
        load(replica, r.buffer if sharded else weights.data)
    return flat(replica, "data"), sum(size for _, size in r.sent), optimizer.m[0].nbytes + optimizer.v[0].nbytes


nothing = [np.zeros(0)] * 4                 # the ranks make their own buffers
_, plain = in_threads(lambda r: train(r, sharded=False), nothing)
_, sharded = in_threads(lambda r: train(r, sharded=True), nothing)
alone = copy.deepcopy(model)
optimizer = nt.AdamW(alone.parameters(), lr=0.01, weight_decay=0.1)
for ids in batches:
    gradient(alone, ids)
    optimizer.step()
claim("six steps of AdamW: all ranks have the same weights, bit for bit", all(
    np.array_equal(w, plain[0][0]) for w, _, _ in plain))
claim("a quarter of m and v on each rank: the same weights again, bit for bit", all(
    np.array_equal(w, plain[0][0]) for w, _, _ in sharded))
moved = flat(alone, "data") - start
claim("one process with the whole batch: the same but for rounding", apart(plain[0][0] - start, moved) < 1e-9
      and np.linalg.norm(moved) > 0.1)
claim("as many bytes are sent", [sent for _, sent, _ in sharded] == [sent for _, sent, _ in plain])
kept = [state for _, _, state in sharded]
claim("m and v: all ranks together keep as much as each one did before", sum(kept) == plain[0][2]
      and max(kept) - min(kept) <= 16, f"{plain[0][2]:,} bytes before, now {', '.join(f'{size:,}' for size in kept)}")
chunks = np.array_split(whole, 4)
claim("the norm of the gradient, from one number of each rank", math.isclose(
    math.sqrt(sum(chunk @ chunk for chunk in chunks)), np.linalg.norm(whole)))
predict("GPT-2 has 124 million parameters, 16 bytes each: 1,984 MB. How many MB on each of 8 ranks with ZeRO-1?", 1116)
claim("8 + 8/n bytes per parameter: never less than half", [124 * (8 + 8 / n) for n in (1, 8)] == [1984, 1116]
      and all(8 + 8 / n > 16 / 2 for n in (2, 1024, 10 ** 6)))

# %% [markdown]
# ZeRO-2 keeps only chunk r of the gradient too, once it is summed: 4 + 12/n bytes. ZeRO-3, also known as fully sharded
# data parallel (FSDP), shards the weights as well, 16/n bytes, and gathers each layer's weights when it is needed,
# forward and backward: half as many bytes again travel.
#
# ## Exercises
#
# 1. Three parts have 10, 20 and 70 targets that count and the mean gradients 1, 2 and 3. What is the gradient of the
#    batch, and what does the plain mean give? For which loss would the plain mean be right?
# 2. In `reduce_scatter`, let each rank receive before it sends. What happens, and why? How many ranks must send first
#    for it to work again, and what does the reduce-scatter then cost?
# 3. Write recursive doubling with `Rank` for 8 ranks, and compare messages and bytes with section 3. Does every
#    rank get the same bits? (Is a + b the same as b + a? Is (a + b) + c the same as a + (b + c)?)
# 4. Leave out the copy in `Rank.send`: ranks then read each other's buffers, and still no claim fails. Why does a rank
#    of the ring never write into a chunk that its neighbor has yet to read?
# 5. Send float16 instead of float32: T is halved. Sum 1,024 gradients around 1e-4 in float16. What is lost, and where?
# 6. LAMB scales the step of each weight matrix by the norm of that matrix. Which of the steps in section 5 still hold?
#
# With a checker (`numpy-transformer exercise check NN`): 20.1, 20.2.
