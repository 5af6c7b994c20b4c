# === [ED-1] EncoderDecoder.backward keeps only the dmemory of the block that comes last in backward (the first
#     decoder block) instead of the sum over all decoder blocks: dx, dmemory = block.backward(dx).
class DecoderBlock(Module):
    def forward(self, x, memory, mask=None, memory_mask=None):
        h = self.norm1(x)
        x = x + self.attention(h, h, mask)
        x = x + self.cross_attention(self.norm2(x), memory, memory_mask)
        x = x + self.feed_forward(self.norm3(x))
        return x

    def backward(self, dy):
        dx = dy + self.norm3.backward(self.feed_forward.backward(dy))
        dh, dmemory = self.cross_attention.backward(dx)
        dx = dx + self.norm2.backward(dh)
        dqueries, dkeys = self.attention.backward(dx)
        dx = dx + self.norm1.backward(dqueries + dkeys)
        return dx, dmemory


class EncoderDecoder(Module):
    def encode(self, source):
        S = source.shape[1]
        mask = (source != self.pad_id).reshape(-1, 1, 1, S)
        x = self.embedding(source) + self.source_positions.data[:S]
        for block in self.encoder:
            x = block(x, mask)
        return self.encoder_norm(x), mask

    def decode(self, target, memory, memory_mask):
        T = target.shape[1]
        x = self.embedding(target) + self.target_positions.data[:T]
        for block in self.decoder:
            x = block(x, memory, causal_mask(T), memory_mask)
        return self.output(self.decoder_norm(x))

    def backward(self, dlogits):
        dx = self.decoder_norm.backward(self.output.backward(dlogits))
        for block in reversed(self.decoder):
            dx, dmemory = block.backward(dx)
        T = dx.shape[1]
        self.target_positions.grad[:T] += dx.sum(axis=0)
        self.embedding.backward(dx)
        dx = self.encoder_norm.backward(dmemory)
        for block in reversed(self.encoder):
            dx = block.backward(dx)
        S = dx.shape[1]
        self.source_positions.grad[:S] += dx.sum(axis=0)
        self.embedding.backward(dx)


def beam_search(model, source, bos, eos, max_len, beam=4, alpha=0.6):
    memory, memory_mask = model.encode(np.array(source)[None, :])
    alive = [(0.0, [bos])]
    done = []
    for length in range(1, max_len + 1):
        candidates = []
        for total, ids in alive:
            z = model.decode(np.array([ids]), memory, memory_mask)[0, -1]
            z = z - z.max()
            logp = z - np.log(np.exp(z).sum())
            candidates += [(total + float(lp), ids + [token]) for token, lp in enumerate(logp)]
        candidates.sort(key=lambda c: -c[0])
        for total, ids in candidates[:beam]:
            if ids[-1] == eos or length == max_len:
                done.append((total / ((5 + length) / 6) ** alpha, ids[1:]))
        if len(done) >= beam:
            break
        alive = [c for c in candidates if c[1][-1] != eos][:beam]
    model.forget()
    score, ids = max(done, key=lambda d: d[0])
    return ids, score


# === [ED-11] EncoderDecoder.backward calls embedding.backward for the source before that of the target, although the
#     target was embedded last; error if S and T differ, otherwise the rows of the wrong ids get the gradients; line
#     94: self.embedding.backward(dsource).
class DecoderBlock(Module):
    def forward(self, x, memory, mask=None, memory_mask=None):
        h = self.norm1(x)
        a = x + self.attention(h, h, mask)
        b = a + self.cross_attention(self.norm2(a), memory, memory_mask)
        return b + self.feed_forward(self.norm3(b))

    def backward(self, dy):
        db = self.norm3.backward(self.feed_forward.backward(dy)) + dy
        dquery, dmemory = self.cross_attention.backward(db)
        da = self.norm2.backward(dquery) + db
        dx = self.norm1.backward(sum(self.attention.backward(da))) + da
        return dx, dmemory


class EncoderDecoder(Module):
    def encode(self, source):
        mask = np.expand_dims(source != self.pad_id, (1, 2))
        memory = self.embedding(source) + self.source_positions.data[: source.shape[-1]]
        for layer in self.encoder:
            memory = layer(memory, mask)
        return self.encoder_norm(memory), mask

    def decode(self, target, memory, memory_mask):
        length = target.shape[-1]
        mask = causal_mask(length)
        x = self.embedding(target) + self.target_positions.data[:length]
        for layer in self.decoder:
            x = layer(x, memory, mask, memory_mask)
        return self.output(self.decoder_norm(x))

    def forward(self, source, target):
        memory, mask = self.encode(source)
        return self.decode(target, memory, mask)

    def backward(self, dlogits):
        dtarget = self.decoder_norm.backward(self.output.backward(dlogits))
        parts = []
        for layer in self.decoder[::-1]:
            dtarget, part = layer.backward(dtarget)
            parts.append(part)
        dsource = self.encoder_norm.backward(sum(parts))
        for layer in self.encoder[::-1]:
            dsource = layer.backward(dsource)
        self.source_positions.grad[:dsource.shape[1]] += dsource.sum(axis=0)
        self.target_positions.grad[:dtarget.shape[1]] += dtarget.sum(axis=0)
        self.embedding.backward(dsource)
        self.embedding.backward(dtarget)


def beam_search(model, source, bos, eos, max_len, beam=4, alpha=0.6):
    memory, mask = model.encode(np.asarray(source).reshape(1, -1))
    open_, closed = {(bos,): 0.0}, []
    for length in range(1, max_len + 1):
        sums = {}
        for ids, total in open_.items():
            z = model.decode(np.array(ids)[None], memory, mask)[0, -1]
            top = z.max()
            logp = z - top - np.log(np.exp(z - top).sum())
            for token in range(len(logp)):
                sums[ids + (token,)] = total + logp[token]
        ranked = sorted(sums, key=sums.get, reverse=True)
        for ids in ranked[:beam]:
            if ids[-1] == eos or length == max_len:
                closed.append((list(ids[1:]), float(sums[ids]) / ((5 + length) / 6) ** alpha))
        if len(closed) >= beam:
            break
        open_ = {ids: sums[ids] for ids in [i for i in ranked if i[-1] != eos][:beam]}
    model.forget()
    return max(closed, key=lambda pair: pair[1])


# === [BEAM-7] beam_search goes on only with those of the first beam candidates that do not end in eos, instead of
#     with the first beam of all candidates without eos, so the beam shrinks with every finished target; line 124:
#     alive = [(ids, total) for ids, total in best if ids[-1] != eos].
def log_softmax(z):
    z = z - z.max(axis=-1, keepdims=True)
    return z - np.log(np.exp(z).sum(axis=-1, keepdims=True))


class DecoderBlock(Module):
    def forward(self, x, memory, mask=None, memory_mask=None):
        h = self.norm1(x)
        x1 = x + self.attention(h, h, mask)
        x2 = x1 + self.cross_attention(self.norm2(x1), memory, memory_mask)
        return x2 + self.feed_forward(self.norm3(x2))

    def backward(self, dy):
        dx2 = dy + self.norm3.backward(self.feed_forward.backward(dy))
        dn2, dmemory = self.cross_attention.backward(dx2)
        dx1 = dx2 + self.norm2.backward(dn2)
        dq, dkv = self.attention.backward(dx1)
        return dx1 + self.norm1.backward(dq + dkv), dmemory


class EncoderDecoder(Module):
    def encode(self, source):
        visible = (source != self.pad_id)[:, np.newaxis, np.newaxis]
        x = self.embedding(source) + self.source_positions.data[:source.shape[1]]
        for block in self.encoder:
            x = block(x, visible)
        return self.encoder_norm(x), visible

    def decode(self, target, memory, memory_mask):
        T = target.shape[1]
        x = self.embedding(target) + self.target_positions.data[:T]
        for block in self.decoder:
            x = block(x, memory, causal_mask(T), memory_mask)
        return self.output(self.decoder_norm(x))

    def forward(self, source, target):
        memory, visible = self.encode(source)
        return self.decode(target, memory, visible)

    def backward(self, dlogits):
        dx = self.decoder_norm.backward(self.output.backward(dlogits))
        dmemory = None
        for block in reversed(self.decoder):
            dx, more = block.backward(dx)
            dmemory = more if dmemory is None else dmemory + more
        self.target_positions.grad[:dx.shape[1]] += dx.sum(0)
        self.embedding.backward(dx)
        dx = self.encoder_norm.backward(dmemory)
        for block in reversed(self.encoder):
            dx = block.backward(dx)
        self.source_positions.grad[:dx.shape[1]] += dx.sum(0)
        self.embedding.backward(dx)


def beam_search(model, source, bos, eos, max_len, beam=4, alpha=0.6):
    memory, memory_mask = model.encode(np.asarray(source)[None])
    alive, finished = [([bos], 0.0)], []
    for length in range(1, max_len + 1):
        candidates = []
        for ids, total in alive:
            logp = log_softmax(model.decode(np.array([ids]), memory, memory_mask)[0, -1])
            for token, value in enumerate(logp):
                candidates.append((ids + [token], total + float(value)))
        best = sorted(candidates, key=lambda c: c[1], reverse=True)[:beam]
        for ids, total in best:
            if ids[-1] == eos or length == max_len:
                finished.append((ids[1:], total / ((5 + length) / 6) ** alpha))
        if len(finished) >= beam:
            break
        alive = [(ids, total) for ids, total in best if ids[-1] != eos]
    model.forget()
    return max(finished, key=lambda f: f[1])


# === [place] score, used by beam_search, does not count the eos in the length of the penalty: length = len([i for i
#     in ids if i != eos]).
def score(ids, total, eos, alpha):
    length = len([i for i in ids if i != eos])
    return total / ((5 + length) / 6) ** alpha


class DecoderBlock(Module):
    def forward(self, x, memory, mask=None, memory_mask=None):
        h = self.norm1(x)
        a = x + self.attention(h, h, mask)
        b = a + self.cross_attention(self.norm2(a), memory, memory_mask)
        y = b + self.feed_forward(self.norm3(b))
        return y

    def backward(self, dy):
        # y = b + feed_forward(norm3(b))
        db = dy + self.norm3.backward(self.feed_forward.backward(dy))
        # b = a + cross_attention(norm2(a), memory)
        dnorm2, dmemory = self.cross_attention.backward(db)
        da = db + self.norm2.backward(dnorm2)
        # a = x + attention(h, h), h = norm1(x)
        dh1, dh2 = self.attention.backward(da)
        dx = da + self.norm1.backward(dh1 + dh2)
        return dx, dmemory


class EncoderDecoder(Module):
    def encode(self, source):
        B, S = source.shape
        mask = np.not_equal(source, self.pad_id).reshape(B, 1, 1, S)
        x = self.embedding(source) + self.source_positions.data[np.arange(S)]
        for block in self.encoder:
            x = block(x, mask)
        return self.encoder_norm(x), mask

    def decode(self, target, memory, memory_mask):
        B, T = target.shape
        x = self.embedding(target) + self.target_positions.data[np.arange(T)]
        mask = causal_mask(T)
        for block in self.decoder:
            x = block(x, memory, mask, memory_mask)
        return self.output(self.decoder_norm(x))

    def forward(self, source, target):
        memory, memory_mask = self.encode(source)
        return self.decode(target, memory, memory_mask)

    def backward(self, dlogits):
        dx = self.decoder_norm.backward(self.output.backward(dlogits))
        dmemory = []
        for block in self.decoder[::-1]:
            dx, dm = block.backward(dx)
            dmemory.append(dm)
        self.embedding.backward(dx)
        for t in range(dx.shape[1]):
            self.target_positions.grad[t] += dx[:, t].sum(axis=0)
        dx = self.encoder_norm.backward(np.sum(dmemory, axis=0))
        for block in self.encoder[::-1]:
            dx = block.backward(dx)
        self.embedding.backward(dx)
        for s in range(dx.shape[1]):
            self.source_positions.grad[s] += dx[:, s].sum(axis=0)


def beam_search(model, source, bos, eos, max_len, beam=4, alpha=0.6):
    memory, memory_mask = model.encode(np.asarray(source)[None, :])
    hypotheses, finished = [[bos]], []
    sums = [0.0]
    for step in range(1, max_len + 1):
        rows = []
        for ids, total in zip(hypotheses, sums):
            z = model.decode(np.array([ids]), memory, memory_mask)[0, -1]
            z = z - z.max()
            rows.append(total + z - np.log(np.exp(z).sum()))
        table = np.array(rows)
        V = table.shape[1]
        order = np.argsort(-table, axis=None, kind="stable")
        for flat in order[:beam]:
            ids = hypotheses[flat // V] + [int(flat % V)]
            if ids[-1] == eos or step == max_len:
                total = float(table.flat[flat])
                finished.append((ids[1:], score(ids, total, eos, alpha)))
        if len(finished) >= beam:
            break
        going = [flat for flat in order if flat % V != eos][:beam]
        sums = [float(table.flat[flat]) for flat in going]
        hypotheses = [hypotheses[flat // V] + [int(flat % V)] for flat in going]
    model.forget()
    return max(finished, key=lambda f: f[1])


# === [-] topk, line 93 (used in beam_search), calls np.argpartition(-scores, k - 1), which raises ValueError when
#     beam is larger than the number of candidates, such as beam > V at length 1.
class DecoderBlock(Module):
    def forward(self, x, memory, mask=None, memory_mask=None):
        def self_attention(h):
            return self.attention(h, h, mask)

        def read_memory(h):
            return self.cross_attention(h, memory, memory_mask)

        for norm, sublayer in ((self.norm1, self_attention), (self.norm2, read_memory), (self.norm3, self.feed_forward)):
            x = x + sublayer(norm(x))
        return x

    def backward(self, dy):
        dx = dy + self.norm3.backward(self.feed_forward.backward(dy))
        dh, dmemory = self.cross_attention.backward(dx)
        dx = dx + self.norm2.backward(dh)
        dh, dh2 = self.attention.backward(dx)
        dx = dx + self.norm1.backward(dh + dh2)
        return dx, dmemory


class EncoderDecoder(Module):
    def encode(self, source):
        x = self.embedding(source) + self.source_positions.data[np.arange(source.shape[1])]
        mask = (source != self.pad_id)[:, None, None]
        for block in self.encoder:
            x = block(x, mask)
        return self.encoder_norm(x), mask

    def decode(self, target, memory, memory_mask):
        x = self.embedding(target) + self.target_positions.data[np.arange(target.shape[1])]
        mask = causal_mask(target.shape[1])
        for block in self.decoder:
            x = block(x, memory, mask, memory_mask)
        return self.output(self.decoder_norm(x))

    def forward(self, source, target):
        memory, mask = self.encode(source)
        return self.decode(target, memory, mask)

    def backward(self, dlogits):
        dx = self.decoder_norm.backward(self.output.backward(dlogits))
        dmemory = None
        for block in reversed(self.decoder):
            dx, part = block.backward(dx)
            dmemory = part if dmemory is None else dmemory + part
        self.target_positions.grad[:dx.shape[1]] += np.sum(dx, axis=0)
        self.embedding.backward(dx)
        dx = self.encoder_norm.backward(dmemory)
        for block in reversed(self.encoder):
            dx = block.backward(dx)
        self.source_positions.grad[:dx.shape[1]] += np.sum(dx, axis=0)
        self.embedding.backward(dx)


def topk(scores, k):
    """The indices of the k largest numbers, the largest first."""
    best = np.argpartition(-scores, k - 1)[:k]
    return best[np.argsort(-scores[best])]


def beam_search(model, source, bos, eos, max_len, beam=4, alpha=0.6):
    memory, mask = model.encode(source[None])
    texts, sums, finished = np.array([[bos]]), np.zeros(1), []
    for length in range(1, max_len + 1):
        n = len(texts)
        logits = model.decode(texts, np.repeat(memory, n, axis=0), np.repeat(mask, n, axis=0))[:, -1]
        logits = logits - logits.max(-1, keepdims=True)
        logp = logits - np.log(np.exp(logits).sum(-1, keepdims=True))
        V = logp.shape[-1]
        total = (sums[:, None] + logp).reshape(-1)
        for c in topk(total, beam):
            row, token = divmod(int(c), V)
            if token == eos or length == max_len:
                ids = [int(i) for i in texts[row, 1:]] + [token]
                finished.append((ids, float(total[c]) / ((5 + length) / 6) ** alpha))
        if len(finished) >= beam:
            break
        # the best ones that go on
        total[eos::V] = -np.inf
        keep = topk(total, beam)
        keep = keep[np.isfinite(total[keep])]
        texts = np.concatenate([texts[keep // V], (keep % V)[:, None]], axis=1)
        sums = total[keep]
    model.forget()
    return max(finished, key=lambda item: item[1])


# === [BEAM-3c] beam_search's score uses len(ids), which still contains bos, as length, so the penalty is ((6 +
#     length) / 6)^alpha: wrong score, and sometimes a wrong best hypothesis, whenever alpha is not 0.
class DecoderBlock(Module):
    def forward(self, x, memory, mask=None, memory_mask=None):
        h = self.norm1(x)
        a = x + self.attention(h, h, mask)
        b = a + self.cross_attention(self.norm2(a), memory, memory_mask)
        return b + self.feed_forward(self.norm3(b))

    def backward(self, dy):
        db = dy + self.norm3.backward(self.feed_forward.backward(dy))
        dquery, dmemory = self.cross_attention.backward(db)
        da = db + self.norm2.backward(dquery)
        dquery, dkeys = self.attention.backward(da)
        return da + self.norm1.backward(dquery + dkeys), dmemory


class EncoderDecoder(Module):
    def encode(self, source):
        memory_mask = source[:, None, None, :] != self.pad_id
        x = self.embedding(source) + self.source_positions.data[:source.shape[-1]]
        for block in self.encoder:
            x = block(x, memory_mask)
        return self.encoder_norm(x), memory_mask

    def decode(self, target, memory, memory_mask):
        T = target.shape[-1]
        mask = causal_mask(T)
        x = self.embedding(target) + self.target_positions.data[:T]
        for block in self.decoder:
            x = block(x, memory, mask, memory_mask)
        return self.output(self.decoder_norm(x))

    def backward(self, dlogits):
        dx = self.decoder_norm.backward(self.output.backward(dlogits))
        dmemory = 0
        for block in reversed(self.decoder):
            dx, part = block.backward(dx)
            dmemory = dmemory + part
        self.target_positions.grad[:dx.shape[-2]] += dx.sum(axis=0)
        self.embedding.backward(dx)

        dx = self.encoder_norm.backward(dmemory)
        for block in reversed(self.encoder):
            dx = block.backward(dx)
        self.source_positions.grad[:dx.shape[-2]] += dx.sum(axis=0)
        self.embedding.backward(dx)


def beam_search(model, source, bos, eos, max_len, beam=4, alpha=0.6):
    def log_softmax(z):
        z = z - z.max()
        return z - np.log(np.exp(z).sum())

    def score(ids, total):
        return total / ((5 + len(ids)) / 6) ** alpha

    memory, memory_mask = model.encode(np.asarray(source)[None])
    open_ones = [([bos], 0.0)]
    finished = []
    for length in range(1, max_len + 1):
        candidates = []
        for ids, total in open_ones:
            logp = log_softmax(np.asarray(model.decode(np.array([ids]), memory, memory_mask))[0, -1])
            for token, value in enumerate(logp.tolist()):
                candidates.append((ids + [token], total + value))
        candidates = sorted(candidates, key=lambda c: c[1], reverse=True)
        for ids, total in candidates[:beam]:
            if ids[-1] == eos or length == max_len:
                finished.append((score(ids, total), ids[1:]))
        if len(finished) >= beam:
            break
        open_ones = [c for c in candidates if c[0][-1] != eos][:beam]
    model.forget()
    best, ids = max(finished)
    return ids, best


# === [-] EncoderDecoder.backward: encoder_norm.backward called for each decoder block instead of once with the sum;
#     pop from an empty list with num_layers>=2 (or values of another use on second use); right with one layer
class DecoderBlock(Module):
    def forward(self, x, memory, mask=None, memory_mask=None):
        h = self.norm1(x)
        a = x + self.attention(h, h, mask)
        b = a + self.cross_attention(self.norm2(a), memory, memory_mask)
        return b + self.feed_forward(self.norm3(b))

    def backward(self, dy):
        db = dy + self.norm3.backward(self.feed_forward.backward(dy))
        dn, dmemory = self.cross_attention.backward(db)
        da = db + self.norm2.backward(dn)
        dh1, dh2 = self.attention.backward(da)
        return da + self.norm1.backward(dh1 + dh2), dmemory


class EncoderDecoder(Module):
    def encode(self, source):
        S = source.shape[1]
        mask = (source != self.pad_id)[:, np.newaxis, np.newaxis, :]
        x = self.embedding(source) + self.source_positions.data[:S]
        for block in self.encoder:
            x = block(x, mask)
        return self.encoder_norm(x), mask

    def decode(self, target, memory, memory_mask):
        T = target.shape[1]
        x = self.embedding(target) + self.target_positions.data[:T]
        for block in self.decoder:
            x = block(x, memory, causal_mask(T), memory_mask)
        return self.output(self.decoder_norm(x))

    def backward(self, dlogits):
        d = self.decoder_norm.backward(self.output.backward(dlogits))
        e = 0                               # the gradient of what goes into encoder_norm
        for block in self.decoder[::-1]:
            d, dmemory = block.backward(d)
            e = e + self.encoder_norm.backward(dmemory)
        T, S = d.shape[1], e.shape[1]
        self.target_positions.grad[:T] += d.sum(axis=0)
        self.embedding.backward(d)
        for block in self.encoder[::-1]:
            e = block.backward(e)
        self.source_positions.grad[:S] += e.sum(axis=0)
        self.embedding.backward(e)


def beam_search(model, source, bos, eos, max_len, beam=4, alpha=0.6):
    memory, mask = model.encode(source[None])
    alive, finished = [([bos], 0.0)], []
    for length in range(1, max_len + 1):
        candidates = []
        for ids, total in alive:
            row = model.decode(np.array([ids]), memory, mask)[0, -1]
            row = row - row.max()
            logp = row - np.log(np.sum(np.exp(row)))
            candidates += [(ids + [v], total + float(logp[v])) for v in range(len(logp))]
        candidates.sort(key=lambda c: c[1], reverse=True)
        penalty = ((5 + length) / 6) ** alpha
        for ids, total in candidates[:beam]:
            if ids[-1] == eos or length == max_len:
                finished.append((ids[1:], total / penalty))
        if len(finished) >= beam:
            break
        alive = [c for c in candidates if c[0][-1] != eos][:beam]
    model.forget()
    return max(finished, key=lambda f: f[1])


# === [place] beam_search: eos is finished among the first 2*beam candidates instead of the first beam; other results
#     in about a third of random searches
class DecoderBlock(Module):
    def forward(self, x, memory, mask=None, memory_mask=None):
        h = self.norm1(x)
        a = x + self.attention(h, h, mask)
        b = a + self.cross_attention(self.norm2(a), memory, memory_mask)
        return b + self.feed_forward(self.norm3(b))

    def backward(self, dy):
        db = dy + self.norm3.backward(self.feed_forward.backward(dy))
        dn, dmemory = self.cross_attention.backward(db)
        da = db + self.norm2.backward(dn)
        dh1, dh2 = self.attention.backward(da)
        return da + self.norm1.backward(dh1 + dh2), dmemory


class EncoderDecoder(Module):
    def encode(self, source):
        S = source.shape[1]
        mask = (source != self.pad_id)[:, np.newaxis, np.newaxis, :]
        x = self.embedding(source) + self.source_positions.data[:S]
        for block in self.encoder:
            x = block(x, mask)
        return self.encoder_norm(x), mask

    def decode(self, target, memory, memory_mask):
        T = target.shape[1]
        x = self.embedding(target) + self.target_positions.data[:T]
        for block in self.decoder:
            x = block(x, memory, causal_mask(T), memory_mask)
        return self.output(self.decoder_norm(x))

    def backward(self, dlogits):
        dx = self.decoder_norm.backward(self.output.backward(dlogits))
        dmemory = 0
        for block in reversed(self.decoder):
            dx, part = block.backward(dx)
            dmemory = dmemory + part
        self.embedding.backward(dx)
        self.target_positions.grad[:dx.shape[1]] += dx.sum(axis=0)
        dx = self.encoder_norm.backward(dmemory)
        for block in reversed(self.encoder):
            dx = block.backward(dx)
        self.embedding.backward(dx)
        self.source_positions.grad[:dx.shape[1]] += dx.sum(axis=0)


def beam_search(model, source, bos, eos, max_len, beam=4, alpha=0.6):
    memory, mask = model.encode(np.array([source]))
    live, finished = [(0.0, [bos])], []
    for length in range(1, max_len + 1):
        candidates = []
        for total, ids in live:
            z = model.decode(np.array([ids]), memory, mask)[0, -1]
            log_p = z - z.max() - np.log(np.exp(z - z.max()).sum())
            candidates += [(total + float(l), ids + [token]) for token, l in enumerate(log_p)]
        candidates.sort(key=lambda pair: -pair[0])
        # twice as many, because up to half of them may be gone after eos
        best = candidates[:2 * beam]
        ended = [c for c in best if c[1][-1] == eos]
        live = [c for c in candidates if c[1][-1] != eos][:beam]
        if length == max_len:
            ended = candidates[:beam]
        for total, ids in ended:
            finished.append((total / ((5 + length) / 6) ** alpha, ids[1:]))
        if len(finished) >= beam:
            break
    model.forget()
    score, ids = max(finished, key=lambda pair: pair[0])
    return ids, score


# === [ED-1] EncoderDecoder.backward: dmemory is overwritten by each decoder block instead of summed: only the first
#     decoder block's gradient reaches the encoder (right for num_layers = 1).
class DecoderBlock(Module):
    def backward(self, dy):
        d = dy + self.norm3.backward(self.feed_forward.backward(dy))
        dh, dmemory = self.cross_attention.backward(d)
        d = d + self.norm2.backward(dh)
        d = d + self.norm1.backward(sum(self.attention.backward(d)))
        return d, dmemory


class EncoderDecoder(Module):
    def encode(self, source):
        visible = (source != self.pad_id)[:, None, None, :]
        x = self.embedding(source) + self.source_positions.data[:source.shape[1]]
        for block in self.encoder:
            x = block(x, visible)
        return self.encoder_norm(x), visible

    def decode(self, target, memory, memory_mask):
        T = target.shape[1]
        x = self.embedding(target) + self.target_positions.data[:T]
        for block in self.decoder:
            x = block(x, memory, causal_mask(T), memory_mask)
        return self.output(self.decoder_norm(x))

    def forward(self, source, target):
        memory, memory_mask = self.encode(source)
        return self.decode(target, memory, memory_mask)

    def backward(self, dlogits):
        dx = self.output.backward(dlogits)
        dx = self.decoder_norm.backward(dx)
        for block in reversed(self.decoder):
            dx, dmemory = block.backward(dx)
        self.target_positions.grad[:dx.shape[1]] += dx.sum(axis=0)
        self.embedding.backward(dx)

        dx = self.encoder_norm.backward(dmemory)
        for block in reversed(self.encoder):
            dx = block.backward(dx)
        self.source_positions.grad[:dx.shape[1]] += dx.sum(axis=0)
        self.embedding.backward(dx)


def beam_search(model, source, bos, eos, max_len, beam=4, alpha=0.6):
    memory, memory_mask = model.encode(np.asarray(source)[None, :])
    unfinished = [([bos], 0.0)]
    finished = []
    for length in range(1, max_len + 1):
        candidates = []
        for ids, total in unfinished:
            logits = model.decode(np.array([ids]), memory, memory_mask)[0, -1]
            shifted = logits - logits.max()
            log_p = shifted - np.log(np.exp(shifted).sum())
            candidates += [(total + float(log_p[v]), ids + [v]) for v in range(len(log_p))]
        candidates.sort(key=lambda candidate: candidate[0], reverse=True)
        for total, ids in candidates[:beam]:
            if ids[-1] == eos or length == max_len:
                finished.append((total / ((5 + length) / 6) ** alpha, ids[1:]))
        if len(finished) >= beam:
            break
        unfinished = [(ids, total) for total, ids in candidates if ids[-1] != eos][:beam]
    model.forget()
    score, ids = max(finished, key=lambda entry: entry[0])
    return ids, score


# === [BEAM-7] beam_search: only those of the first beam candidates that do not end in eos go on, so the beam shrinks
#     after each finished hypothesis, instead of the first beam of all candidates without eos: result differs only
#     sometimes (about 1 to 4 % of random tables with alpha 1 to 2, under 1 % with 0.6).
class DecoderBlock(Module):
    def forward(self, x, memory, mask=None, memory_mask=None):
        h = self.norm1(x)
        x = x + self.attention(h, h, mask)
        h = self.norm2(x)
        x = x + self.cross_attention(h, memory, memory_mask)
        h = self.norm3(x)
        return x + self.feed_forward(h)

    def backward(self, dy):
        dx = dy + self.norm3.backward(self.feed_forward.backward(dy))
        dh, dmemory = self.cross_attention.backward(dx)
        dx = dx + self.norm2.backward(dh)
        dq, dkv = self.attention.backward(dx)
        dx = dx + self.norm1.backward(dq + dkv)
        return dx, dmemory


class EncoderDecoder(Module):
    def encode(self, source):
        seen = source != self.pad_id
        seen = seen.reshape(seen.shape[0], 1, 1, seen.shape[1])
        x = self.embedding(source) + self.source_positions.data[:source.shape[1]]
        for block in self.encoder:
            x = block(x, seen)
        return self.encoder_norm(x), seen

    def decode(self, target, memory, memory_mask):
        T = target.shape[1]
        causal = causal_mask(T)
        x = self.embedding(target) + self.target_positions.data[:T]
        for block in self.decoder:
            x = block(x, memory, causal, memory_mask)
        x = self.decoder_norm(x)
        return self.output(x)

    def forward(self, source, target):
        memory, seen = self.encode(source)
        return self.decode(target, memory, seen)

    def backward(self, dlogits):
        d = self.decoder_norm.backward(self.output.backward(dlogits))
        dmemory = None
        for block in reversed(self.decoder):
            d, part = block.backward(d)
            dmemory = part if dmemory is None else dmemory + part
        T = d.shape[1]
        self.target_positions.grad[:T] += d.sum(axis=0)
        self.embedding.backward(d)
        d = self.encoder_norm.backward(dmemory)
        for block in reversed(self.encoder):
            d = block.backward(d)
        S = d.shape[1]
        self.source_positions.grad[:S] += d.sum(axis=0)
        self.embedding.backward(d)


def beam_search(model, source, bos, eos, max_len, beam=4, alpha=0.6):
    memory, seen = model.encode(np.array([source]))
    beams = [(0.0, [bos])]
    done = []
    for length in range(1, max_len + 1):
        options = []
        for total, ids in beams:
            z = model.decode(np.array([ids]), memory, seen)[0][-1]
            z = z - np.max(z)
            logs = z - np.log(np.sum(np.exp(z)))
            options += [(total + float(log), ids + [token]) for token, log in enumerate(logs)]
        options.sort(key=lambda option: -option[0])
        beams = []
        for total, ids in options[:beam]:
            if ids[-1] == eos or length == max_len:
                done.append((ids[1:], total / ((5 + length) / 6) ** alpha))
            else:
                beams.append((total, ids))
        if len(done) >= beam:
            break
    model.forget()
    return max(done, key=lambda entry: entry[1])


# === [place] beam_search's length_penalty, line 95: divides by length ** alpha (the convention of another library)
#     instead of ((5 + length) / 6) ** alpha.
class DecoderBlock(Module):
    def forward(self, x, memory, mask=None, memory_mask=None):
        h = self.norm1(x)
        a = x + self.attention(h, h, mask)
        b = a + self.cross_attention(self.norm2(a), memory, memory_mask)
        return b + self.feed_forward(self.norm3(b))

    def backward(self, dy):
        db = dy + self.norm3.backward(self.feed_forward.backward(dy))
        dn2, dmemory = self.cross_attention.backward(db)
        da = db + self.norm2.backward(dn2)
        dh1, dh2 = self.attention.backward(da)
        dx = da + self.norm1.backward(dh1 + dh2)
        return dx, dmemory


class EncoderDecoder(Module):
    def encode(self, source):
        src_mask = (source != self.pad_id)[:, np.newaxis, np.newaxis, :]
        S = source.shape[1]
        x = self.embedding(source) + self.source_positions.data[:S]
        for layer in self.encoder:
            x = layer(x, src_mask)
        return self.encoder_norm(x), src_mask

    def decode(self, target, memory, memory_mask):
        T = target.shape[1]
        tgt_mask = causal_mask(T)
        x = self.embedding(target) + self.target_positions.data[:T]
        for layer in self.decoder:
            x = layer(x, memory, tgt_mask, memory_mask)
        return self.output(self.decoder_norm(x))

    def forward(self, source, target):
        memory, src_mask = self.encode(source)
        return self.decode(target, memory, src_mask)

    def backward(self, dlogits):
        dx = self.output.backward(dlogits)
        dx = self.decoder_norm.backward(dx)
        dmemories = []
        for layer in self.decoder[::-1]:
            dx, dmem = layer.backward(dx)
            dmemories.append(dmem)
        self.target_positions.grad[:dx.shape[1]] += dx.sum(axis=0)
        self.embedding.backward(dx)

        dx = self.encoder_norm.backward(sum(dmemories))
        for layer in self.encoder[::-1]:
            dx = layer.backward(dx)
        self.source_positions.grad[:dx.shape[1]] += dx.sum(axis=0)
        self.embedding.backward(dx)


def log_softmax(z):
    z = z - z.max()
    return z - np.log(np.exp(z).sum())


def length_penalty(length, alpha):
    return length ** alpha


def beam_search(model, source, bos, eos, max_len, beam=4, alpha=0.6):
    memory, mask = model.encode(source[np.newaxis])
    alive = [([bos], 0.0)]
    done = []
    for length in range(1, max_len + 1):
        # 1. every hypothesis with every token
        candidates = []
        for tokens, logprob in alive:
            logits = model.decode(np.array([tokens]), memory, mask)[0, -1]
            for token, lp in enumerate(log_softmax(logits)):
                candidates.append((tokens + [token], logprob + float(lp)))
        candidates.sort(key=lambda c: c[1], reverse=True)

        # 2. and 3. finished ones
        for tokens, logprob in candidates[:beam]:
            if tokens[-1] == eos or length == max_len:
                done.append((tokens[1:], logprob / length_penalty(length, alpha)))
        # 4.
        if len(done) >= beam:
            break
        # 5.
        alive = [c for c in candidates if c[0][-1] != eos][:beam]
    model.forget()
    done.sort(key=lambda d: d[1], reverse=True)
    return done[0]
