# %% [markdown]
# # 20b Sharding, and when more machines stop helping
#
# In lesson 20, n machines split a batch, and a ring all-reduce gave each of them the sum of all gradients. This lesson
# asks two questions. How long does the all-reduce take, and up to how many machines does it pay? And why should each
# of n machines keep the same state of Adam, if each could keep a part of it?
#
# The drawing answers the second question. In its second row, each of four machines keeps a quarter of Adam's means m
# and v, which is called **sharding**. You will write a training step that does this, and see that the weights stay the
# same to the last bit.

# %% The two halves of the ring, from lesson 20
import copy
import math

import numpy as np

import numpy_transformer as nt
from numpy_transformer import views
from numpy_transformer.course import claim, drawing, figure, lesson, predict, show

lesson.start(__name__)
rng = np.random.default_rng(20)
drawing("sharding")
sent = []                                   # the bytes of each message


def message(buffers, r, chunk):             # what rank r sends to its right neighbor
    n = len(buffers)
    sent.append(buffers[r][chunk % n].nbytes)
    return buffers[r][chunk % n].copy()


def reduce_scatter(buffers):                # afterwards, rank r has the sum of chunk r
    n = len(buffers)
    for step in range(1, n):
        messages = [message(buffers, r, r - step) for r in range(n)]
        for r in range(n):
            buffers[r][(r - step - 1) % n] += messages[r - 1]


def all_gather(buffers):                    # afterwards, all ranks have chunk r of rank r
    n = len(buffers)
    for step in range(n - 1):
        messages = [message(buffers, r, r - step) for r in range(n)]
        for r in range(n):
            buffers[r][(r - step - 1) % n] = messages[r - 1]


# %% [markdown]
# ## 1. The time of an all-reduce
#
# The usual model of a message (Hockney 1994) has two numbers. The **latency** α is the time that an empty message
# takes, and the **bandwidth** β is the number of bytes per second. So a message of s bytes takes the time α + s/β. A
# ring all-reduce of s bytes has 2 (n - 1) rounds, with s/n bytes in each:
#
#     time(n, s) = 2 (n - 1) (α + s / (n β))
#                = 2 (n - 1) α  +  2 (n - 1)/n · s/β
#
# The second term, the bandwidth term, stays below 2 s/β for any number of machines. The first term, the latency term,
# grows in proportion to n - 1.
#
# The two tables in the next cell were **recorded**; the lesson itself measures no times. Two MPI processes ran on one
# otherwise idle machine with a two-core AMD EPYC processor. Each time is a median of many repetitions. The messages
# went through the shared memory of this machine, not through a network.

# %% The recorded times of two processes, and the model
PING_PONG = {8: 1.83, 2048: 1.98, 32768: 6.53, 131072: 13.5, 524288: 44.1, 2097152: 165, 8388608: 732,
             33554432: 2891, 43000000: 3643, 67108864: 6859}           # {bytes: microseconds} of one message
RING = {8: 6.3, 2048: 6.5, 131072: 40.6, 2097152: 222, 8388608: 949, 43000000: 7418, 67108864: 9661}
(ping_sizes, ping), (ring_sizes, ring_times) = (
    (np.array(list(table)), 1e-6 * np.array(list(table.values()))) for table in (PING_PONG, RING))


def time(n, s, alpha, beta):
    """Seconds of a ring all-reduce of s bytes on n machines."""
    return 2 * (n - 1) * (alpha + s / (n * beta))


equations = np.stack([1 / ping, ping_sizes / ping], 1)      # α and 1/β by least squares of the relative errors
alpha, slope = np.linalg.lstsq(equations, np.ones(len(ping)), rcond=None)[0]
beta = 1 / slope
print(f"  α = {alpha * 1e6:.1f} µs, β = {beta / 1e9:.1f} GB/s")
claim("α and β describe all ten times of one message to within a third",
      abs((alpha + ping_sizes / beta) / ping - 1) < 1 / 3)
ratios = ring_times / time(2, ring_sizes, alpha, beta)
claim("the recorded ring takes between 1 and 3 times as long as the model says", (ratios > 1) & (ratios < 3),
      ", ".join(f"{ratio:.1f}" for ratio in ratios))
buffers = [np.array_split(rng.standard_normal(1000), 8) for _ in range(8)]
for half in (reduce_scatter, all_gather):
    half(buffers)
claim("time(8, s) is the time of the rounds of the ring above, in each of which all ranks send at the same time",
      math.isclose(sum(alpha + size / beta for size in sent[::8]), time(8, 8000, alpha, beta)))

# %% [markdown]
# The model is too optimistic: both processes send at the same time through the same memory, and the additions take time
# as well. It tells what to expect, and only a measurement tells what happens.
#
# **Estimates for 2 to 1,024 machines.** The vectors are the float32 gradients of two models: this project's `mid` model
# with 10.7 million parameters (43 MB), and GPT-2 with 124 million (496 MB). The two networks are *assumptions*: they
# have the bandwidth that their names promise and a latency of the usual order. Real networks are slower.

# %% The time of an all-reduce on 2 to 1,024 machines
MID, GPT2 = 4 * 10.7e6, 4 * 124e6           # bytes of a gradient
ETHERNET = 50e-6, 1.25e9                    # α in seconds and β in bytes per second, assumed
INFINIBAND = 2e-6, 25e9
NETWORKS = {"10 Gbit/s Ethernet": ETHERNET, "200 Gbit/s InfiniBand": INFINIBAND}
n = 2 ** np.arange(1, 11)


def over_machines(name, curves, ylabel, **options):
    """Saves a figure of curves {title: (machines, values)}."""
    picture = views.step_sizes(curves, "number of machines", ylabel)
    picture.axes[0].set(xticks=n, xticklabels=n, **options)
    picture.axes[0].minorticks_off()
    figure(name, picture)


predict("Without latency, how many milliseconds does a ring of very many machines take for 50 MB at 1.25 GB/s?", 80,
        why="What remains is 2 (n - 1) / n · s / β, and (n - 1) / n tends to 1: 2 · 50 MB / 1.25 GB/s = 0.08 s.")
for name, (a, b) in NETWORKS.items():
    claim(f"{name}: the bandwidth term tends to 2 s/β", abs(time(1024, MID, 0, b) / (2 * MID / b) - 1) < 0.001,
          f"{2e3 * MID / b:.1f} ms for 43 MB; the latency term is {1e3 * time(1024, 0, a, b):.1f} ms at n = 1,024")
over_machines("all_reduce", {
    f"{model}, {name}": (n, 1e3 * time(n, size, *network)) for name, network in NETWORKS.items()
    for model, size in (("GPT-2, 496 MB", GPT2), ("mid, 43 MB", MID))}, "time (ms)",
    ylim=(0.1, 2000), title="Ring all-reduce on n machines, estimated")

# %% [markdown]
# ## 2. When do more machines help?
#
# A training step takes about 6 operations per parameter and token, 2 in forward and 4 in backward. For w parameters and
# t tokens, a machine with f operations per second computes for c = 6 w t / f seconds. The **efficiency** c / (c + time)
# is the share of the time in which the machine computes.
#
# - **Weak scaling**: each machine has t tokens, and the batch grows with n. Then c stays the same, and the time of the
#   all-reduce tends to 2 · 4 w / β as long as the latency is small. w cancels, so the efficiency tends to
#   1 / (1 + 4 f / (3 t β)). Large models are not harder to scale than small ones, but fast processors and small batches
#   are.
# - **Strong scaling**: the whole batch has a fixed size. Then the share of one machine, c / n, falls with n, but the
#   time of the all-reduce does not. Beyond n = sqrt((c - 2 s/β) / (2 α)), more machines make the step *slower*.
#
# Why do we not let the batch grow forever? Beyond some size, a larger batch no longer reduces the number of steps
# (McCandlish et al. 2018).

# %% Weak and strong scaling of the mid model, estimated
FAST, SLOW = 100e12, 120e9                  # operations per second of an accelerator and of two cores, assumed


def efficiency(n, tokens, speed, network, parameters=MID / 4):
    compute = 6 * parameters * tokens / speed
    return compute / (compute + time(n, 4 * parameters, *network))


weak = {"two cores, Ethernet, 2,048 tokens": efficiency(n, 2048, SLOW, ETHERNET),
        "accelerator, InfiniBand, 131,072 tokens": efficiency(n, 131072, FAST, INFINIBAND),
        "accelerator, InfiniBand, 2,048 tokens": efficiency(n, 2048, FAST, INFINIBAND),
        "accelerator, Ethernet, 2,048 tokens": efficiency(n, 2048, FAST, ETHERNET)}
a, b = ETHERNET
bound = 1 / (1 + 4 * SLOW / (3 * 2048 * b))
claim("without latency, the efficiency tends to 1 / (1 + 4 f / (3 t β)) for both mid and GPT-2", np.allclose(
    [efficiency(1e6, 2048, SLOW, (0, b), size / 4) for size in (MID, GPT2)], bound, rtol=1e-5), f"{bound:.2f}")
claim("with 64 times as many tokens on each machine, 1,024 accelerators become efficient",
      efficiency(1024, 2048, FAST, INFINIBAND) < 0.3 and efficiency(1024, 131072, FAST, INFINIBAND) > 0.9)
over_machines("weak_scaling", {title: (n, 100 * values) for title, values in weak.items()}, "efficiency (%)",
              yscale="linear", ylim=(0, 105),
              title="Weak scaling of the mid model, estimated: one fixed batch per machine")
machines = np.arange(1, 1025)
strong = {"ideal: n times as fast": (n, n)}
for sequences in (1024, 64):                # of 128 tokens, on two cores and Ethernet
    compute = 6 * MID / 4 * 128 * sequences / SLOW
    step_times = compute / machines + time(machines, MID, a, b)
    best = math.sqrt((compute - 2 * MID / b) / (2 * a))
    if sequences == 1024:
        claim("strong scaling: the step is shortest at sqrt((c - 2 s/β) / (2 α)) machines",
              abs(machines[step_times.argmin()] - best) < 1,
              f"{best:.0f} machines, {step_times.min():.2f} s instead of {compute:.0f} s")
        claim("1,024 machines are slower than this", step_times[-1] > step_times.min(),
              f"{compute / step_times[-1]:.0f} times as fast as one machine")
    at = np.unique([*n, round(best)])
    at = at[at <= sequences]                # each machine needs at least one sequence
    strong[f"a batch of {sequences:,} sequences, Ethernet"] = at, compute / step_times[at - 1]
over_machines("strong_scaling", strong, "speedup over one machine", yticks=n, yticklabels=n,
              title="Strong scaling of the mid model, estimated: one fixed batch")

# %% [markdown]
# ## 3. Sharding the optimizer's state
#
# Adam keeps two numbers for each weight, m and v. In float32, each parameter takes 16 bytes on each machine, for its
# weight, gradient, m and v. All machines compute the same step from the same sum, so the same work is done n times, and
# there are n copies of the same m and v. **ZeRO-1** (Rajbhandari et al. 2020) removes these copies. Adam works *entry
# by entry*: the new weight i depends on entry i of the weight, the gradient, m and v, and on nothing else. So rank r
# can update chunk r alone:
#
# 1. Reduce-scatter the gradient. Rank r now has the complete sum of chunk r, and needs no other chunk.
# 2. Rank r updates chunk r of the weights with *its* chunk of m and v. No other rank keeps this chunk.
# 3. All-gather the weights.
#
# These are the two halves of the ring with Adam between them, so they send as many bytes as one all-reduce. The memory
# per parameter falls from 16 to 8 + 8/n bytes. The result is not an approximation: it has the same bits.
#
# An update that needs more than entry i requires one more message. Clipping by the global norm is an example: the sums
# of squares of all chunks have to be added over the ranks before the update.

# %% Four ranks train, first with all of m and v on each rank, then with a quarter
V, RANKS = 11, 4
model = nt.CausalLanguageModel(V, 12, 2, 1, max_len=9, rng=1).astype(np.float64)
batches = rng.integers(1, V, (6, 8, 10))    # six batches of eight sequences, without padding


def flat(model, name):                      # the "data" or the "grad" of all parameters, as one vector
    return np.concatenate([getattr(parameter, name).ravel() for parameter in model.parameters()])


def load(model, weights):                   # undoes flat(model, "data")
    for parameter in model.parameters():
        parameter.data = weights[:parameter.data.size].reshape(parameter.data.shape)
        weights = weights[parameter.data.size:]


def train(n, sharded):
    """Six steps on n ranks. Returns the weights of each rank, and the bytes of m and v on each rank."""
    replicas = [copy.deepcopy(model) for _ in range(n)]
    start = flat(model, "data")
    held = [nt.Parameter(np.array_split(start, n)[r] if sharded else start) for r in range(n)]
    optimizers = [nt.AdamW([parameter], lr=0.01, weight_decay=0.1) for parameter in held]
    sent.clear()
    for ids in batches:
        for replica, part in zip(replicas, np.split(ids, n)):
            criterion = nt.CrossEntropyLoss()
            replica.zero_grad()
            criterion(replica(part[:, :-1]), part[:, 1:])
            replica.backward(criterion.backward(1 / n))     # equal counts: each part has the weight 1/n
        buffers = [np.array_split(flat(replica, "grad"), n) for replica in replicas]
        reduce_scatter(buffers)
        if not sharded:
            all_gather(buffers)
        for r in range(n):
            held[r].grad = buffers[r][r] if sharded else np.concatenate(buffers[r])
            optimizers[r].step()
        if sharded:
            for r in range(n):
                buffers[r][r] = held[r].data.copy()
            all_gather(buffers)
        for r in range(n):
            load(replicas[r], np.concatenate(buffers[r]) if sharded else held[r].data)
    return [flat(replica, "data") for replica in replicas], [o.m[0].nbytes + o.v[0].nbytes for o in optimizers]


(alone,), state = train(1, sharded=False)
replicated, replicated_state = train(RANKS, sharded=False)
bytes_replicated = sum(sent)
sharded, sharded_state = train(RANKS, sharded=True)
claim("after six steps of AdamW, all ranks have the same weights, bit for bit",
      [np.array_equal(w, replicated[0]) for w in replicated])
claim("with a quarter of m and v on each rank, they have the same weights again, bit for bit",
      [np.array_equal(w, replicated[0]) for w in sharded])
moved = alone - flat(model, "data")
claim("one machine with the whole batch gets the same weights up to rounding",
      np.linalg.norm(replicated[0] - alone) < 1e-9 * np.linalg.norm(moved) and np.linalg.norm(moved) > 0.1)
claim("sharding sends the same number of bytes", sum(sent) == bytes_replicated)
show(replicated_state=replicated_state, sharded_state=sharded_state)
claim("all ranks together now keep one copy of m and v", [sum(sharded_state) == state[0],
                                                          max(sharded_state) - min(sharded_state) <= 16])
predict("GPT-2 has 124 million parameters of 16 bytes each, 1,984 MB. How many MB does each of 8 ranks need with "
        "ZeRO-1?", 1116, why="Weights and gradients stay whole, 8 bytes for each parameter. m and v are split among "
                             "the 8 ranks, 8 / 8 = 1 byte: 124 million · 9 bytes.")

# %% [markdown]
# ## 4. Sharding gradients and weights
#
# ZeRO-2 also keeps only chunk r of the gradient once it is summed, which leaves 4 + 12/n bytes per parameter (the third
# row of the drawing). ZeRO-3, also known as fully sharded data parallel (FSDP), shards the weights as well, which
# leaves 16/n bytes. It gathers the weights of each layer when they are needed, once in forward and once in backward, so
# it sends half as many bytes again.
#
# ## Exercises
#
# 1. For n = 4, compute the bytes per parameter in each row of the drawing. Which of them tend to 0 as n grows?
# 2. Recursive doubling (lesson 20, question 3) takes log2(n) rounds with s bytes in each. Write its time with α and β.
#    For 64 machines on Ethernet, up to which size is it faster than the ring?
# 3. You double the speed f of all machines. By what factor must t grow so that the efficiency of weak scaling stays the
#    same?
# 4. LAMB scales the step of each weight matrix by the norm of this matrix. Which steps of section 3 still hold, and
#    which do not?
# 5. Why does sharding m and v need no approximation, although each rank sees only its chunk?
#
# Exercise 20.1 (`numpy-transformer exercise check 20.1`) asks you to write a step of Adam with sharded state.
