# === [-] next_probabilities indexes the sorted logits at -top_k, which raises an IndexError when top_k is larger than
#     V instead of keeping all tokens: kth = np.sort(logits)[-top_k].
def next_probabilities(logits, temperature=1.0, top_k=None):
    if temperature == 0:
        return np.eye(len(logits), dtype=logits.dtype)[np.argmax(logits)]
    z = logits - logits.max()
    if top_k is not None:
        kth = np.sort(logits)[-top_k]
        z = np.where(logits >= kth, z, -np.inf)
    return softmax(z / temperature)


def cached_attention(attention, x, cache, i):
    split = lambda a: split_heads(a, attention.num_heads)
    q, k, v = split(attention.query(x)), split(attention.key(x)), split(attention.value(x))
    if cache.pairs[i] is not None:
        k = np.concatenate((cache.pairs[i][0], k), axis=-2)
        v = np.concatenate((cache.pairs[i][1], v), axis=-2)
    cache.pairs[i] = k, v
    T, S = q.shape[-2], k.shape[-2]
    mask = np.tril(np.ones((T, S), dtype=bool), k=S - T)
    return attention.output(merge_heads(attention.attention(q, k, v, mask)))


def cached_forward(model, ids, cache):
    T = ids.shape[-1]
    x = model.embedding(ids) + model.positions.data[cache.length:cache.length + T]
    for i, block in enumerate(model.blocks):
        x = x + cached_attention(block.attention, block.norm1(x), cache, i)
        x = x + block.feed_forward(block.norm2(x))
    logits = model.norm(x) @ model.embedding.weight.data.T
    cache.length += T
    model.forget()
    return logits


def generate(model, ids, count, temperature=1.0, top_k=None, rng=None):
    cache = KeyValueCache(len(model.blocks))
    text, new = list(ids), list(ids)
    for _ in range(count):
        p = next_probabilities(cached_forward(model, np.array(new), cache)[-1], temperature, top_k)
        if temperature == 0:
            token = int(p.argmax())
        else:
            p = p.astype(float)
            token = int(rng.choice(len(p), p=p / p.sum()))
        text.append(token)
        new = [token]
    return text


# === [KV-9] cached_attention masks only when the cache is empty, so several new tokens after earlier ones see each
#     other's later tokens: mask = causal_mask(x.shape[-2]) if cache.pairs[i] is None else None.
from stage05_attention import causal_mask


def next_probabilities(logits, temperature=1.0, top_k=None):
    if temperature == 0:
        best = np.zeros_like(logits)
        best[logits.argmax()] = 1
        return best
    p = softmax((logits - logits.max()) / temperature)
    if top_k is None or top_k >= len(p):
        return p
    order = np.argsort(p)[::-1]
    out = p.copy()
    out[order[top_k:]] = 0
    return out / out.sum()


def cached_attention(attention, x, cache, i):
    H = attention.num_heads
    q = split_heads(attention.query(x), H)
    k = split_heads(attention.key(x), H)
    v = split_heads(attention.value(x), H)
    # earlier tokens may all be seen, so only a prompt needs a mask
    mask = causal_mask(x.shape[-2]) if cache.pairs[i] is None else None
    if cache.pairs[i] is not None:
        old_k, old_v = cache.pairs[i]
        k, v = np.concatenate([old_k, k], -2), np.concatenate([old_v, v], -2)
    cache.pairs[i] = (k, v)
    return attention.output(merge_heads(attention.attention(q, k, v, mask)))


def cached_forward(model, ids, cache):
    start = cache.length
    end = start + ids.shape[-1]
    x = model.embedding(ids) + model.positions.data[start:end]
    for i, block in enumerate(model.blocks):
        a = x + cached_attention(block.attention, block.norm1(x), cache, i)
        x = a + block.feed_forward(block.norm2(a))
    z = model.norm(x) @ model.embedding.weight.data.T
    cache.length = end
    model.forget()
    return z


def generate(model, ids, count, temperature=1.0, top_k=None, rng=None):
    cache = KeyValueCache(len(model.blocks))
    result = [int(i) for i in ids]
    step = np.array(result)
    while len(result) < len(ids) + count:
        z = cached_forward(model, step, cache)[-1]
        if temperature == 0:
            token = int(np.argmax(z))
        else:
            p = next_probabilities(z, temperature, top_k).astype(np.float64)
            token = int(rng.choice(len(p), p=p / p.sum()))
        result.append(token)
        step = np.array([token])
    return result


# === [SAM-7] next_probabilities applies the temperature as p ** (1 / temperature) after the softmax, which underflows
#     to 0 / 0 = nan for float32 logits that are nearly equal at a low temperature (such as three equal logits at
#     0.01): p = p ** (1 / temperature).
def next_probabilities(logits, temperature=1.0, top_k=None):
    if temperature == 0:
        p = np.zeros_like(logits)
        p[np.argmax(logits)] = 1
        return p
    p = softmax(logits)
    p = p ** (1 / temperature)
    if top_k is not None and top_k < p.size:
        drop = np.argsort(-p, kind="stable")[top_k:]
        p[drop] = 0
    return p / p.sum()


def cached_attention(attention, x, cache, i):
    n = attention.num_heads
    q = split_heads(attention.query(x), n)
    pair = [split_heads(attention.key(x), n), split_heads(attention.value(x), n)]
    if cache.pairs[i] is not None:
        pair = [np.concatenate([old, new], axis=-2) for old, new in zip(cache.pairs[i], pair)]
    cache.pairs[i] = tuple(pair)
    T, S = x.shape[-2], pair[0].shape[-2]
    mask = np.arange(S)[None, :] <= np.arange(S - T, S)[:, None]
    return attention.output(merge_heads(attention.attention(q, *pair, mask)))


def cached_forward(model, ids, cache):
    T = np.shape(ids)[-1]
    places = np.arange(cache.length, cache.length + T)
    x = model.embedding(ids) + model.positions.data[places]
    for i, block in enumerate(model.blocks):
        x = x + cached_attention(block.attention, block.norm1(x), cache, i)
        x = x + block.feed_forward(block.norm2(x))
    cache.length += T
    x = model.norm(x)
    model.forget()
    return x @ model.embedding.weight.data.T


def generate(model, ids, count, temperature=1.0, top_k=None, rng=None):
    cache = KeyValueCache(len(model.blocks))
    out = [int(t) for t in ids]
    feed = out[:]
    for _ in range(count):
        p = next_probabilities(cached_forward(model, np.array(feed), cache)[-1], temperature, top_k)
        if temperature == 0:
            feed = [int(np.argmax(p))]
        else:
            p = p.astype(np.float64)
            feed = [int(rng.choice(p.size, p=p / p.sum()))]
        out += feed
    return out


# === [-] generate appends the new ids to the caller's list instead of to a copy (text is the same list as ids), so
#     the argument changes: text = ids.
def next_probabilities(logits, temperature=1.0, top_k=None):
    if temperature == 0:
        return (np.arange(logits.shape[0]) == np.argmax(logits)).astype(logits.dtype)
    p = softmax((logits - np.max(logits)) / temperature)
    if top_k is not None and top_k < logits.shape[0]:
        kept = np.argpartition(p, -top_k)[-top_k:]
        q = np.zeros_like(p)
        q[kept] = p[kept]
        p = q / q.sum()
    return p


def cached_attention(attention, x, cache, i):
    q, k, v = [split_heads(part(x), attention.num_heads) for part in (attention.query, attention.key, attention.value)]
    C = 0
    if cache.pairs[i]:
        C = cache.pairs[i][0].shape[-2]
        k = np.concatenate([cache.pairs[i][0], k], axis=-2)
        v = np.concatenate([cache.pairs[i][1], v], axis=-2)
    cache.pairs[i] = (k, v)
    mask = np.tri(x.shape[-2], k.shape[-2], C, dtype=bool)
    return attention.output(merge_heads(attention.attention(q, k, v, mask)))


def cached_forward(model, ids, cache):
    C, T = cache.length, ids.shape[-1]
    x = model.embedding(ids) + model.positions.data[C:C + T]
    for i, block in enumerate(model.blocks):
        x = x + cached_attention(block.attention, block.norm1(x), cache, i)
        x = x + block.feed_forward(block.norm2(x))
    h = model.norm(x)
    model.forget()
    cache.length = C + T
    return h @ model.embedding.weight.data.T


def generate(model, ids, count, temperature=1.0, top_k=None, rng=None):
    text = ids
    cache = KeyValueCache(len(model.blocks))
    new = np.array(text)
    for _ in range(count):
        logits = cached_forward(model, new, cache)[-1]
        p = next_probabilities(logits, temperature, top_k)
        if temperature == 0:
            token = int(np.argmax(p))
        else:
            token = int(rng.choice(len(p), p=p.astype(float) / p.astype(float).sum()))
        text.append(token)
        new = np.array([token])
    return text


# === [place] cached_forward: adds len(ids), the number of texts, instead of T = ids.shape[-1]: cache.length and later
#     positions wrong for ids (B, T) with B != T; right for (T,).
def next_probabilities(logits, temperature=1.0, top_k=None):
    z = logits - np.max(logits)
    if temperature == 0:
        best = np.zeros_like(z)
        best[z.argmax()] = 1
        return best
    z = z / temperature
    if top_k is not None and top_k < z.shape[0]:
        keep = np.argpartition(z, -top_k)[-top_k:]
        hidden = np.full_like(z, -np.inf)
        hidden[keep] = z[keep]
        z = hidden
    return softmax(z)


def cached_attention(attention, x, cache, i):
    n = attention.num_heads
    q, k, v = (split_heads(part(x), n) for part in (attention.query, attention.key, attention.value))
    earlier = 0
    if cache.pairs[i]:
        old_k, old_v = cache.pairs[i]
        earlier = old_k.shape[-2]
        k, v = np.concatenate([old_k, k], -2), np.concatenate([old_v, v], -2)
    cache.pairs[i] = k, v
    T = x.shape[-2]
    mask = np.concatenate([np.ones((T, earlier), bool), np.tril(np.ones((T, T), bool))], axis=1)
    return attention.output(merge_heads(attention.attention(q, k, v, mask)))


def cached_forward(model, ids, cache):
    C = cache.length
    x = model.embedding(ids)
    x = x + model.positions.data[C:C + x.shape[-2]]
    for i, block in enumerate(model.blocks):
        x = x + cached_attention(block.attention, block.norm1(x), cache, i)
        x = x + block.feed_forward(block.norm2(x))
    x = model.norm(x)
    cache.length = C + len(ids)
    model.forget()
    return x @ model.embedding.weight.data.T


def generate(model, ids, count, temperature=1.0, top_k=None, rng=None):
    cache = KeyValueCache(len(model.blocks))
    out = [int(token) for token in ids]
    todo = list(out)
    while len(out) < len(ids) + count:
        last = cached_forward(model, np.array(todo), cache)[-1]
        p = next_probabilities(last, temperature, top_k)
        if temperature == 0:
            choice = np.argmax(p)
        else:
            p = p.astype("f8")
            choice = rng.choice(p.size, p=p / p.sum())
        todo = [int(choice)]
        out += todo
    return out


# === [-] generate appends the new ids to the caller's list (text is ids, and += works in place) and returns that
#     list; the numbers are right, but the argument is changed (text = ids)
def next_probabilities(logits, temperature=1.0, top_k=None):
    p = np.zeros_like(logits)
    if temperature == 0:
        p[np.argmax(logits)] = 1
        return p
    scaled = logits / temperature
    keep = np.argsort(-logits, kind="stable")[:top_k]       # [:None] keeps all
    p[keep] = softmax(scaled[keep])
    return p


def cached_attention(attention, x, cache, i):
    H = attention.num_heads
    q = split_heads(attention.query(x), H)
    k = split_heads(attention.key(x), H)
    v = split_heads(attention.value(x), H)
    if cache.pairs[i] is not None:
        old_k, old_v = cache.pairs[i]
        k = np.concatenate((old_k, k), axis=-2)
        v = np.concatenate((old_v, v), axis=-2)
    cache.pairs[i] = (k, v)
    T, S = q.shape[-2], k.shape[-2]
    mask = np.tri(T, S, S - T, dtype=bool)
    return attention.output(merge_heads(attention.attention(q, k, v, mask)))


def cached_forward(model, ids, cache):
    start, T = cache.length, ids.shape[-1]
    x = model.embedding(ids) + model.positions.data[start:start + T]
    for i, block in enumerate(model.blocks):
        a = x + cached_attention(block.attention, block.norm1(x), cache, i)
        x = a + block.feed_forward(block.norm2(a))
    logits = model.norm(x) @ model.embedding.weight.data.T
    cache.length = start + T
    model.forget()
    return logits


def generate(model, ids, count, temperature=1.0, top_k=None, rng=None):
    text = ids
    cache = KeyValueCache(len(model.blocks))
    logits = cached_forward(model, np.array(text), cache) if count > 0 else None
    for step in range(count):
        p = next_probabilities(logits[-1], temperature, top_k)
        if temperature == 0:
            token = int(np.argmax(p))
        else:
            p = np.asarray(p, dtype=float)
            token = int(rng.choice(len(p), p=p / p.sum()))
        text += [token]
        if step < count - 1:
            logits = cached_forward(model, np.array([token]), cache)
    return text


# === [KV-10] KeyValueCache.update, lines 32-33, called by cached_attention, increases cache.length in layer 0 (as
#     DynamicCache does), so cached_attention changes cache.length, calls for other layers only do not count, and a
#     model without blocks keeps length 0 and gives every token position 0 (shows in the page example).
def next_probabilities(logits, temperature=1.0, top_k=None):
    V = logits.shape[0]
    if temperature == 0:
        return (np.arange(V) == np.argmax(logits)).astype(logits.dtype)
    scores = (logits - logits.max()) / temperature
    if top_k is not None and top_k < V:
        rank = np.empty(V, dtype=int)
        rank[np.argsort(-scores, kind="stable")] = np.arange(V)
        scores = np.where(rank < top_k, scores, -np.inf)
    return softmax(scores)


class KeyValueCache:
    def update(self, keys, values, layer):
        """Appends to the pair of a layer, and returns all keys and values."""
        if layer == 0:
            self.length += keys.shape[-2]       # the tokens are the same in every layer: count them once
        if self.pairs[layer] is not None:
            keys = np.concatenate([self.pairs[layer][0], keys], axis=-2)
            values = np.concatenate([self.pairs[layer][1], values], axis=-2)
        self.pairs[layer] = (keys, values)
        return keys, values


def cached_attention(attention, x, cache, i):
    n = attention.num_heads
    q = split_heads(attention.query(x), n)
    k, v = cache.update(split_heads(attention.key(x), n), split_heads(attention.value(x), n), i)
    T, S = x.shape[-2], k.shape[-2]
    query_at = np.arange(S - T, S)[:, None]
    key_at = np.arange(S)[None, :]
    z = attention.attention(q, k, v, key_at <= query_at)
    return attention.output(merge_heads(z))


def cached_forward(model, ids, cache):
    T = ids.shape[-1]
    past = cache.length
    x = model.embedding(ids) + model.positions.data[past:past + T]
    for i, block in enumerate(model.blocks):
        x = x + cached_attention(block.attention, block.norm1(x), cache, i)
        x = x + block.feed_forward(block.norm2(x))
    x = model.norm(x)
    logits = np.matmul(x, model.embedding.weight.data.T)
    model.forget()
    return logits


def generate(model, ids, count, temperature=1.0, top_k=None, rng=None):
    out = [int(i) for i in ids]
    cache = KeyValueCache(len(model.blocks))
    new = out[:]
    while len(out) < len(ids) + count:
        p = next_probabilities(cached_forward(model, np.array(new), cache)[-1], temperature, top_k)
        if temperature > 0:
            new = [int(rng.choice(np.arange(len(p)), p=p))]
        else:
            new = [int(np.argmax(p))]
        out += new
    return out


# === [-] generate sets text = ids without a copy and appends to it, so the caller's prompt list is changed (and
#     returned).
def next_probabilities(logits, temperature=1.0, top_k=None):
    if temperature == 0:
        return (np.arange(len(logits)) == np.argmax(logits)).astype(logits.dtype)
    z = (logits - np.max(logits)) / temperature
    if top_k is not None and top_k < len(z):
        lowest = np.argsort(z)[:len(z) - top_k]
        z[lowest] = -np.inf
    return softmax(z)


def cached_attention(attention, x, cache, i):
    H = attention.num_heads
    q, new_k, new_v = [split_heads(layer(x), H) for layer in (attention.query, attention.key, attention.value)]
    if cache.pairs[i] is None:
        keys, values = new_k, new_v
    else:
        keys = np.concatenate([cache.pairs[i][0], new_k], axis=-2)
        values = np.concatenate([cache.pairs[i][1], new_v], axis=-2)
    cache.pairs[i] = (keys, values)
    T, S = x.shape[-2], keys.shape[-2]
    t, s = np.indices((T, S))
    y = attention.attention(q, keys, values, s <= t + (S - T))
    return attention.output(merge_heads(y))


def cached_forward(model, ids, cache):
    T = ids.shape[-1]
    positions = np.arange(cache.length, cache.length + T)
    x = model.embedding(ids) + model.positions.data[positions]
    for i in range(len(model.blocks)):
        block = model.blocks[i]
        a = x + cached_attention(block.attention, block.norm1(x), cache, i)
        x = a + block.feed_forward(block.norm2(a))
    z = model.norm(x) @ model.embedding.weight.data.T
    model.forget()
    cache.length += T
    return z


def generate(model, ids, count, temperature=1.0, top_k=None, rng=None):
    cache = KeyValueCache(len(model.blocks))
    text = ids
    logits = None
    while count > 0:
        new = np.array(text if logits is None else text[-1:])
        logits = cached_forward(model, new, cache)
        p = next_probabilities(logits[-1], temperature, top_k)
        if temperature == 0:
            text.append(int(p.argmax()))
        else:
            text.append(int(rng.choice(len(p), p=p)))
        count -= 1
    return text


# === [-] cached_attention joins the cache along axis=1 instead of axis=-2, which is the axis of tokens only without
#     leading axes (H, C, d); with a batch it is the axis of heads (error, or wrong numbers if C = T).
def next_probabilities(logits, temperature=1.0, top_k=None):
    if temperature == 0:
        best = int(np.argmax(logits))
        p = np.zeros(len(logits), dtype=logits.dtype)
        p[best] = 1
        return p
    p = softmax((logits - logits.max()) / temperature)
    if top_k is None:
        return p
    keep = np.argsort(p)[-top_k:]
    q = np.zeros_like(p)
    q[keep] = p[keep]
    return q / q.sum()


def cached_attention(attention, x, cache, i):
    def heads(layer):
        return split_heads(layer(x), attention.num_heads)

    q, k, v = heads(attention.query), heads(attention.key), heads(attention.value)
    pair = cache.pairs[i]
    if pair is not None:
        k = np.concatenate((pair[0], k), axis=1)        # along the tokens
        v = np.concatenate((pair[1], v), axis=1)
    cache.pairs[i] = (k, v)
    T, S = q.shape[-2], k.shape[-2]
    mask = np.tril(np.ones((S, S), dtype=bool))[S - T:]
    y = attention.attention(q, k, v, mask)
    return attention.output(merge_heads(y))


def cached_forward(model, ids, cache):
    C = cache.length
    T = ids.shape[-1]
    x = model.embedding(ids) + model.positions.data[C:C + T]
    for i, block in enumerate(model.blocks):
        x = x + cached_attention(block.attention, block.norm1(x), cache, i)
        x = x + block.feed_forward(block.norm2(x))
    z = model.norm(x) @ model.embedding.weight.data.T
    cache.length = C + T
    model.forget()
    return z


def generate(model, ids, count, temperature=1.0, top_k=None, rng=None):
    text = list(map(int, ids))
    cache = KeyValueCache(len(model.blocks))
    new = np.array(text)
    for _ in range(count):
        p = next_probabilities(cached_forward(model, new, cache)[-1], temperature, top_k)
        if temperature == 0:
            token = int(np.argmax(p))
        else:
            token = int(rng.choice(len(p), p=p))
        text.append(token)
        new = np.array([token])
    return text


# === [KV-9] cached_attention: with a non-empty cache no mask is used, so of several new tokens at once each sees the
#     later ones too; right for an empty cache or one token per call (so generate is right).
def next_probabilities(logits, temperature=1.0, top_k=None):
    if temperature == 0:
        p = np.zeros(logits.shape, logits.dtype)
        p[logits.argmax()] = 1
        return p
    p = softmax(logits / temperature)
    V = len(p)
    if top_k is not None and top_k < V:
        dropped = np.argsort(p)[:V - top_k]
        p[dropped] = 0
        p = p / p.sum()
    return p


def cached_attention(attention, x, cache, i):
    H = attention.num_heads
    q = split_heads(attention.query(x), H)
    keys = split_heads(attention.key(x), H)
    values = split_heads(attention.value(x), H)
    T = x.shape[-2]
    if cache.pairs[i] is None:
        mask = np.tri(T, dtype=bool)                    # the prompt: causal, as usual
    else:
        old_keys, old_values = cache.pairs[i]
        keys = np.concatenate((old_keys, keys), axis=-2)
        values = np.concatenate((old_values, values), axis=-2)
        mask = None                                     # everything in the cache is earlier
    cache.pairs[i] = keys, values
    return attention.output(merge_heads(attention.attention(q, keys, values, mask)))


def cached_forward(model, ids, cache):
    start, end = cache.length, cache.length + ids.shape[-1]
    x = model.embedding(ids) + model.positions.data[start:end]
    for i, block in enumerate(model.blocks):
        x = x + cached_attention(block.attention, block.norm1(x), cache, i)
        x = x + block.feed_forward(block.norm2(x))
    logits = model.norm(x) @ model.embedding.weight.data.T
    cache.length = end
    model.forget()
    return logits


def generate(model, ids, count, temperature=1.0, top_k=None, rng=None):
    result = [int(i) for i in ids]
    cache = KeyValueCache(len(model.blocks))
    new = np.array(result)
    for _ in range(count):
        p = next_probabilities(cached_forward(model, new, cache)[-1], temperature, top_k)
        if temperature == 0:
            token = int(p.argmax())
        else:
            token = int(rng.choice(len(p), p=p.astype(float) / p.astype(float).sum()))
        result.append(token)
        new = np.array([token])
    return result


# === [place] cache.length grows by the number of all ids of the batch instead of T, the size of the last axis, so
#     with leading axes the next call starts at a wrong position: line `cache.length += ids.size` in cached_forward.
def next_probabilities(logits, temperature=1.0, top_k=None):
    if temperature == 0:
        p = np.zeros_like(logits)
        p[np.argmax(logits)] = 1
        return p
    z = (logits - logits.max()) / temperature
    if top_k is not None and top_k < len(z):
        dropped = np.argsort(z)[:-top_k]
        z[dropped] = -np.inf
    return softmax(z)


def cached_attention(attention, x, cache, i):
    H = attention.num_heads
    q = split_heads(attention.query(x), H)
    keys = split_heads(attention.key(x), H)
    values = split_heads(attention.value(x), H)
    if cache.pairs[i] is not None:
        old_keys, old_values = cache.pairs[i]
        keys = np.concatenate([old_keys, keys], axis=-2)
        values = np.concatenate([old_values, values], axis=-2)
    cache.pairs[i] = (keys, values)

    T, S = q.shape[-2], keys.shape[-2]
    t = np.arange(S - T, S)                     # places of the new tokens in the text
    mask = np.arange(S)[None, :] <= t[:, None]
    return attention.output(merge_heads(attention.attention(q, keys, values, mask)))


def cached_forward(model, ids, cache):
    C, T = cache.length, ids.shape[-1]
    x = model.embedding(ids) + model.positions.data[C:C + T]
    for i, block in enumerate(model.blocks):
        a = x + cached_attention(block.attention, block.norm1(x), cache, i)
        x = a + block.feed_forward(block.norm2(a))
    logits = model.norm(x) @ model.embedding.weight.data.T
    cache.length += ids.size                    # number of new tokens
    model.forget()
    return logits


def generate(model, ids, count, temperature=1.0, top_k=None, rng=None):
    text = [int(i) for i in ids]
    cache = KeyValueCache(len(model.blocks))
    new = text
    for _ in range(count):
        z = cached_forward(model, np.array(new), cache)[-1]
        if temperature == 0:
            token = int(np.argmax(z))
        else:
            p = next_probabilities(z, temperature, top_k)
            token = int(rng.choice(len(p), p=p))
        text = text + [token]
        new = [token]
    return text
