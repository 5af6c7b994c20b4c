# === [LM-14] LanguageModel.backward sums the gradient of the positions over axis 0 only: for a single text (T,) it
#     sums over the tokens, and for several leading axes it fails or is wrong: self.positions.grad[:T] +=
#     dx.sum(axis=0).
class LanguageModel(Module):
    def forward(self, ids):
        T = ids.shape[-1]
        x = self.embedding(ids) + self.positions.data[:T]
        for block in self.blocks:
            x = block(x, causal_mask(T))
        h = self.norm(x)
        self.remember(h)
        return h @ self.embedding.weight.data.T

    def backward(self, dlogits):
        h = self.recall()
        T, D = h.shape[-2:]
        E = self.embedding.weight.data
        self.embedding.weight.grad += dlogits.reshape(-1, len(E)).T @ h.reshape(-1, D)
        dx = self.norm.backward(dlogits @ E)
        for block in self.blocks[::-1]:
            dx = block.backward(dx)
        self.positions.grad[:T] += dx.sum(axis=0)
        self.embedding.backward(dx)


# === [place] LanguageModel.forward stores the causal mask of the first text in an attribute and never makes another,
#     so a text of another length gets a mask of the wrong size: if not hasattr(self, "mask"):.
class LanguageModel(Module):
    def forward(self, ids):
        n = ids.shape[-1]
        if not hasattr(self, "mask"):
            self.mask = causal_mask(n)
        x = self.embedding(ids)
        x = x + self.positions.data[:n]
        for block in self.blocks:
            x = block(x, self.mask)
        x = self.norm(x)
        self.remember(x)
        return x @ self.embedding.weight.data.T

    def backward(self, dlogits):
        x = self.recall()
        table = self.embedding.weight
        n, width = x.shape[-2], x.shape[-1]
        rows, drows = x.reshape(-1, width), dlogits.reshape(-1, dlogits.shape[-1])
        table.grad += drows.T @ rows
        dx = self.norm.backward((drows @ table.data).reshape(x.shape))
        for block in reversed(self.blocks):
            dx = block.backward(dx)
        self.positions.grad[:n] += dx.reshape(-1, n, width).sum(axis=0)
        self.embedding.backward(dx)


# === [LM-10] LanguageModel.forward remembers the input of the last norm instead of its output, so the output layer's
#     part of the gradient of E is wrong: self.remember(x).
import numpy as np


class LanguageModel(Module):
    def forward(self, ids):
        T = ids.shape[-1]
        mask = causal_mask(T)
        x = self.embedding(ids) + self.positions.data[:T]
        for layer in self.blocks:
            x = layer(x, mask)
        self.remember(x)
        return self.norm(x) @ self.embedding.weight.data.T

    def backward(self, dlogits):
        x = self.recall()
        E = self.embedding.weight
        T = x.shape[-2]
        E.grad += np.einsum("nv,nd->vd", dlogits.reshape(-1, dlogits.shape[-1]), x.reshape(-1, x.shape[-1]))
        dx = self.norm.backward(np.einsum("...v,vd->...d", dlogits, E.data))
        for layer in reversed(self.blocks):
            dx = layer.backward(dx)
        self.positions.grad[:T] += np.einsum("btd->td", dx.reshape(-1, T, x.shape[-1]))
        self.embedding.backward(dx)


# === [LM-7] LanguageModel.backward goes through the blocks from the first to the last instead of reversed, which is
#     wrong from two blocks on: for i in range(len(self.blocks)):.
import numpy as np


class LanguageModel(Module):
    def forward(self, ids):
        T = ids.shape[-1]
        x = self.embedding(ids) + self.positions.data[np.arange(T)]
        mask = causal_mask(T)
        for i in range(len(self.blocks)):
            x = self.blocks[i](x, mask)
        h = self.norm(x)
        self.remember(h, T)
        return h @ self.embedding.weight.data.T

    def backward(self, dlogits):
        h, T = self.recall()
        D = h.shape[-1]
        E = self.embedding.weight.data
        dE = dlogits.reshape(-1, E.shape[0]).T @ h.reshape(-1, D)
        dx = self.norm.backward(dlogits @ E)
        for i in range(len(self.blocks)):
            dx = self.blocks[i].backward(dx)
        dpos = dx
        while dpos.ndim > 2:
            dpos = dpos.sum(axis=0)
        self.positions.grad[:T] += dpos
        self.embedding.backward(dx)
        self.embedding.weight.grad += dE


# === [place] LanguageModel.forward: the causal mask is made once in the first forward and kept in an attribute: a
#     later forward with another T raises a broadcasting error (or, if one of the two lengths is 1, uses a wrong mask
#     without an error).
class LanguageModel(Module):
    def forward(self, ids):
        T = ids.shape[-1]
        if not hasattr(self, "mask"):
            self.mask = causal_mask(T)                      # it is the same for all blocks and all batches
        x = self.embedding(ids) + self.positions.data[:T]
        for block in self.blocks:
            x = block(x, self.mask)
        h = self.norm(x)
        self.remember(h)
        return h @ self.embedding.weight.data.T

    def backward(self, dlogits):
        h = self.recall()
        E = self.embedding.weight
        T, D = h.shape[-2:]
        dh = dlogits @ E.data
        E.grad += dlogits.reshape(-1, dlogits.shape[-1]).T @ h.reshape(-1, D)
        dx = self.norm.backward(dh)
        for block in self.blocks[::-1]:
            dx = block.backward(dx)
        self.embedding.backward(dx)
        self.positions.grad[:T] += dx.reshape(-1, T, D).sum(axis=0)


# === [place] LanguageModel.forward: only the first block gets the causal mask, the later blocks see everything: wrong
#     logits for two or more blocks.
import numpy as np


class LanguageModel(Module):
    def forward(self, ids):
        n = ids.shape[-1]
        visible = causal_mask(n)
        x = self.embedding(ids)
        x = x + self.positions.data[:n]
        for number, block in enumerate(self.blocks):
            # after the first block, a token contains nothing of later tokens any more
            x = block(x, visible if number == 0 else None)
        x = self.norm(x)
        self.remember(x)
        return np.einsum("...d,vd->...v", x, self.embedding.weight.data)

    def backward(self, dlogits):
        x = self.recall()
        table = self.embedding.weight
        V, D = table.data.shape
        table.grad += np.einsum("nv,nd->vd", dlogits.reshape(-1, V), x.reshape(-1, D))
        d = np.einsum("...v,vd->...d", dlogits, table.data)
        d = self.norm.backward(d)
        for block in reversed(self.blocks):
            d = block.backward(d)
        n = d.shape[-2]
        dpos = d
        while dpos.ndim > 2:
            dpos = dpos.sum(axis=0)
        self.positions.grad[:n] += dpos
        self.embedding.backward(d)


# === [LM-15] LanguageModel.backward: reshape to (T, texts, D) instead of (texts, T, D): positions.grad has the right
#     shape and mixes rows of different positions when there is more than one text (right for one text or T = 1).
class LanguageModel(Module):
    def forward(self, ids):
        length = ids.shape[-1]
        x = self.embedding(ids) + self.positions.data[:length]
        mask = causal_mask(length)
        for block in self.blocks:
            x = block(x, mask)
        final = self.norm(x)
        self.remember(final)
        return final @ self.embedding.weight.data.T

    def backward(self, dlogits):
        final = self.recall()
        rows = final.reshape(-1, final.shape[-1])
        dz = dlogits.reshape(rows.shape[0], -1)
        self.embedding.weight.grad += dz.T @ rows
        dx = (dz @ self.embedding.weight.data).reshape(final.shape)
        dx = self.norm.backward(dx)
        for i in range(len(self.blocks) - 1, -1, -1):
            dx = self.blocks[i].backward(dx)
        length, width = dx.shape[-2], dx.shape[-1]
        self.positions.grad[:length] += dx.reshape(length, -1, width).sum(axis=1)
        self.embedding.backward(dx)


# === [attributes] LanguageModel keeps T in the attribute self.T instead of on the stack: after two forwards of
#     different lengths, the backward of the first uses the length of the second for positions.grad (error, or
#     gradients in wrong rows) (self.T = ids.shape[-1])
import numpy as np


class LanguageModel(Module):
    def forward(self, ids):
        self.T = ids.shape[-1]
        mask = causal_mask(self.T)
        x = self.embedding(ids) + self.positions.data[:self.T]
        for i in range(len(self.blocks)):
            x = self.blocks[i](x, mask)
        x = self.norm(x)
        self.remember(x)
        return np.einsum("...d,vd->...v", x, self.embedding.weight.data)

    def backward(self, dlogits):
        h = self.recall()
        V, D = self.embedding.weight.data.shape
        flat = dlogits.reshape(-1, V)
        self.embedding.weight.grad += np.einsum("nv,nd->vd", flat, h.reshape(-1, D))
        dx = self.norm.backward((flat @ self.embedding.weight.data).reshape(h.shape))
        for i in range(len(self.blocks) - 1, -1, -1):
            dx = self.blocks[i].backward(dx)
        per_text = dx.reshape(-1, self.T, D)
        self.positions.grad[:self.T] += per_text.sum(axis=0)
        self.embedding.backward(dx)


# === [LM-16] LanguageModel.backward reverses the list self.blocks itself, in place: the first backward is right, but
#     afterwards the model has its blocks in the opposite order (next forward, second backward, names of the
#     parameters); with 0 or 1 block it is right (self.blocks.reverse() # the last block of forward is the first of
#     backward)
class LanguageModel(Module):
    def forward(self, ids):
        T = ids.shape[-1]
        x = self.embedding(ids)
        x = x + self.positions.data[:T]
        mask = causal_mask(T)
        for block in self.blocks:
            x = block(x, mask)
        h = self.norm(x)
        self.remember(h)
        return h @ self.embedding.weight.data.T

    def backward(self, dlogits):
        h = self.recall()
        table = self.embedding.weight
        dh = dlogits @ table.data
        table.grad += (h.reshape(-1, h.shape[-1]).T @ dlogits.reshape(-1, dlogits.shape[-1])).T
        dx = self.norm.backward(dh)
        self.blocks.reverse()               # the last block of forward is the first of backward
        for block in self.blocks:
            dx = block.backward(dx)
        leading = tuple(range(dx.ndim - 2))
        self.positions.grad[:dx.shape[-2]] += dx.sum(axis=leading)
        self.embedding.backward(dx)


# === [-] LanguageModel.__init__, ties by self.lm_head = self.embedding.weight, so named_parameters() lists E twice
#     (embedding.weight and lm_head); logits and gradients are right, but AdamW updates E twice in each step and
#     clipping counts it twice.
class LanguageModel(Module):
    def __init__(self, vocab_size, max_len, d_model, num_heads, d_ff, num_layers, rng):
        self.embedding = Embedding(vocab_size, d_model, rng)
        self.positions = Parameter(rng.normal(0, 0.02, (max_len, d_model)))
        self.blocks = [Block(d_model, num_heads, d_ff, rng) for _ in range(num_layers)]
        self.norm = LayerNorm(d_model)
        self.lm_head = self.embedding.weight    # weight tying

    def forward(self, ids):
        T = ids.shape[-1]
        x = self.embedding(ids) + self.positions.data[:T]
        mask = causal_mask(T)
        for block in self.blocks:
            x = block(x, mask)
        h = self.norm(x)
        self.remember(h)
        return h @ self.lm_head.data.T

    def backward(self, dlogits):
        h = self.recall()
        V, D = self.lm_head.data.shape
        self.lm_head.grad += dlogits.reshape(-1, V).T @ h.reshape(-1, D)
        d = self.norm.backward(dlogits @ self.lm_head.data)
        for i in range(len(self.blocks) - 1, -1, -1):
            d = self.blocks[i].backward(d)
        T = d.shape[-2]
        for text in d.reshape(-1, T, D):
            self.positions.grad[:T] += text
        self.embedding.backward(d)


# === [attributes] LanguageModel.forward and backward, lines 23 and 42, keep the positions in the attribute self.pos,
#     so two uses with different T before backward give ValueError for the earlier use.
import numpy as np


class LanguageModel(Module):
    def __init__(self, vocab_size, max_len, d_model, num_heads, d_ff, num_layers, rng):
        self.embedding = Embedding(vocab_size, d_model, rng)
        self.positions = Parameter(rng.normal(0, 0.02, (max_len, d_model)))
        self.blocks = [Block(d_model, num_heads, d_ff, rng) for _ in range(num_layers)]
        self.norm = LayerNorm(d_model)
        self.bias = causal_mask(max_len)        # a buffer, of which forward takes a part

    def forward(self, ids):
        T = ids.shape[-1]
        self.pos = np.arange(T)
        x = self.embedding(ids) + self.positions.data[self.pos]
        for block in self.blocks:
            x = block(x, self.bias[:T, :T])
        x = self.norm(x)
        self.remember(x)
        return np.einsum("...d,vd->...v", x, self.embedding.weight.data)

    def backward(self, dlogits):
        x = self.recall()
        V, D = self.embedding.weight.data.shape
        dhead = dlogits.reshape(-1, V).T @ x.reshape(-1, D)
        dx = np.einsum("...v,vd->...d", dlogits, self.embedding.weight.data)
        dx = self.norm.backward(dx)
        for block in reversed(self.blocks):
            dx = block.backward(dx)
        self.embedding.weight.grad += dhead
        self.embedding.backward(dx)
        # every position was broadcast over the batch; a position occurs once in a text
        self.positions.grad[self.pos] += dx.reshape(-1, len(self.pos), D).sum(0)


# === [place] The gradient of positions is summed over the tokens too, as for a bias: `self.positions.grad[:length] +=
#     as_rows(grad).sum(axis=0)` has shape (D,) and is broadcast to all T rows, instead of a sum over the texts only.
#     (Line 50.)
def as_rows(x):
    return x.reshape(-1, x.shape[-1])


class LanguageModel(Module):
    def forward(self, ids):
        length = ids.shape[-1]
        x = self.embedding(ids)
        x = x + self.positions.data[:length]
        for block in self.blocks:
            x = block(x, causal_mask(length))
        x = self.norm(x)
        self.remember(x, length)
        return x @ self.embedding.weight.data.T

    def backward(self, dlogits):
        h, length = self.recall()

        # part 1 of dE: like a Linear without bias whose weight is E transposed
        dweight = as_rows(h).T @ as_rows(dlogits)           # (D, V)
        self.embedding.weight.grad += dweight.T
        grad = dlogits @ self.embedding.weight.data

        grad = self.norm.backward(grad)
        for block in self.blocks[::-1]:
            grad = block.backward(grad)

        # the positions are added like a bias, so sum over all rows
        self.positions.grad[:length] += as_rows(grad).sum(axis=0)
        # part 2 of dE
        self.embedding.backward(grad)


# === [LM-17] dx is summed over the texts for the positions, under the same name, and this sum then goes to
#     embedding.backward, where np.add.at broadcasts it to every text: line `dx = dx.reshape(-1, T, D).sum(axis=0)`
#     before `self.embedding.backward(dx)`.
def as_rows(array):
    return array.reshape(-1, array.shape[-1])


class LanguageModel(Module):
    def forward(self, ids):
        T = ids.shape[-1]
        x = self.positions.data[:T] + self.embedding(ids)
        mask = causal_mask(T)
        for layer in self.blocks:
            x = layer(x, mask)
        normed = self.norm(x)
        self.remember(normed)
        return normed @ self.embedding.weight.data.T

    def backward(self, dlogits):
        normed = self.recall()
        # output layer
        self.embedding.weight.grad += as_rows(dlogits).T @ as_rows(normed)
        dx = dlogits @ self.embedding.weight.data
        # norm and blocks
        dx = self.norm.backward(dx)
        for layer in reversed(self.blocks):
            dx = layer.backward(dx)
        # input: the sum passes its gradient on to both terms
        T, D = dx.shape[-2:]
        dx = dx.reshape(-1, T, D).sum(axis=0)
        self.positions.grad[:T] += dx
        self.embedding.backward(dx)
