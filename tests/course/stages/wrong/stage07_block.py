# === [BLK-15] Block.forward computes norm1(x) twice, once for the queries and once for the memory, while backward
#     calls norm1.backward once: an entry stays on norm1's stack, and after two uses dx and the gradients of norm1 are
#     wrong: x = x + self.attention(self.norm1(x), self.norm1(x), mask).
class Block(Module):
    def forward(self, x, mask=None):
        x = x + self.attention(self.norm1(x), self.norm1(x), mask)
        return x + self.feed_forward(self.norm2(x))

    def backward(self, dy):
        dx = dy + self.norm2.backward(self.feed_forward.backward(dy))
        dqueries, dmemory = self.attention.backward(dx)
        return dx + self.norm1.backward(dqueries + dmemory)


# === [-] Block.backward adds to dy in place (dx is the same array as dy), which changes the caller's argument; line
#     29: dx += self.norm2.backward(self.feed_forward.backward(dy)).
class Block(Module):
    def forward(self, x, mask=None):
        h = self.norm1(x)
        attended = x + self.attention(h, h, mask)
        g = self.norm2(attended)
        return attended + self.feed_forward(g)

    def backward(self, dy):
        dx = dy
        dx += self.norm2.backward(self.feed_forward.backward(dy))
        from_queries, from_memory = self.attention.backward(dx)
        dx += self.norm1.backward(from_queries + from_memory)
        return dx


# === [place] Block.forward adds the attention to h = norm1(x) instead of to x, so the residual connection passes
#     through the norm; backward agrees with this forward: a = h + self.attention(h, h, mask).
class Block(Module):
    def forward(self, x, mask=None):
        h = self.norm1(x)
        a = h + self.attention(h, h, mask)
        return a + self.feed_forward(self.norm2(a))

    def backward(self, dy):
        da = dy + self.norm2.backward(self.feed_forward.backward(dy))
        dq, dm = self.attention.backward(da)
        return self.norm1.backward(da + dq + dm)


# === [BLK-4] Block.backward hands dy to the attention instead of da, the sum of both ways, so the attention and norm1
#     miss what came through the feed-forward branch: dq, dmemory = self.attention.backward(dy).
class Block(Module):
    def forward(self, x, mask=None):
        normed = self.norm1(x)
        x1 = x + self.attention(normed, normed, mask)
        x2 = x1 + self.feed_forward(self.norm2(x1))
        return x2

    def backward(self, dy):
        # second branch
        dbranch2 = self.norm2.backward(self.feed_forward.backward(dy))
        # first branch
        dq, dmemory = self.attention.backward(dy)
        dbranch1 = self.norm1.backward(dq + dmemory)
        # the sums pass dy on
        return dy + dbranch1 + dbranch2


# === [BLK-14] Block.backward: drops the gradient of the queries: norm1.backward gets only dmemory instead of dx +
#     dmemory of the attention (right for T = 1).
class Block(Module):
    def forward(self, x, mask=None):
        h = self.norm1(x)
        a = self.attention(h, h, mask) + x
        return self.feed_forward(self.norm2(a)) + a

    def backward(self, dy):
        # y = a + feed_forward(norm2(a))
        d = self.feed_forward.backward(dy)
        da = self.norm2.backward(d) + dy
        # a = x + attention(h, h, mask)
        _, dh = self.attention.backward(da)
        return self.norm1.backward(dh) + da


# === [place] Block.forward: mask=None is taken as a causal mask instead of everything visible: wrong y and gradients
#     for mask=None with T > 1.
from stage05_attention import causal_mask


class Block(Module):
    def forward(self, x, mask=None):
        if mask is None:
            mask = causal_mask(x.shape[-2])
        h = self.norm1(x)
        after_attention = x + self.attention(h, h, mask)
        h = self.norm2(after_attention)
        return after_attention + self.feed_forward(h)

    def backward(self, dy):
        dafter = dy + self.norm2.backward(self.feed_forward.backward(dy))
        dh = sum(self.attention.backward(dafter))
        return dafter + self.norm1.backward(dh)


# === [BLK-3] Block.backward adds dy instead of da for the first residual connection, so the way from y through norm2
#     and the feed-forward layer to x is missing (return dy + self.norm1.backward(dh + dmemory))
class Block(Module):
    def forward(self, x, mask=None):
        h = self.norm1(x)
        a = x + self.attention(h, h, mask)
        return a + self.feed_forward(self.norm2(a))

    def backward(self, dy):
        da = self.feed_forward.backward(dy)
        da = dy + self.norm2.backward(da)
        dh, dmemory = self.attention.backward(da)
        return dy + self.norm1.backward(dh + dmemory)


# === [place] Block.forward hands x instead of h = norm1(x) as memory to the attention, so keys and values come from
#     inputs that are not normalized; backward agrees with this forward (attended = self.attention(h, x, mask))
class Block(Module):
    def forward(self, x, mask=None):
        h = self.norm1(x)
        attended = self.attention(h, x, mask)
        a = x + attended
        return a + self.feed_forward(self.norm2(a))

    def backward(self, dy):
        d_norm2 = self.feed_forward.backward(dy)
        da = dy + self.norm2.backward(d_norm2)
        d_query, d_memory = self.attention.backward(da)
        return da + d_memory + self.norm1.backward(d_query)


# === [place] Block.forward, overwrites x with norm1(x), so the residual connection adds the normed input
#     (post-norm-like first branch); backward is consistent with this (shows in the page example).
class Block(Module):
    def forward(self, x, mask=None):
        x = self.norm1(x)
        x = x + self.attention(x, x, mask)
        x = x + self.feed_forward(self.norm2(x))
        return x

    def backward(self, dy):
        # communication and computation, from the end to the beginning
        d = dy + self.norm2.backward(self.feed_forward.backward(dy))
        d_query, d_memory = self.attention.backward(d)
        d = d + d_query + d_memory
        return self.norm1.backward(d)


# === [place] Block.forward, lines 19-20, puts the causal mask in the place of mask=None, so that without a mask later
#     tokens are hidden.
from stage05_attention import causal_mask


class Block(Module):
    def forward(self, x, mask=None):
        if mask is None:                        # a block of a decoder-only model is causal
            mask = causal_mask(x.shape[-2])
        residual = x
        h = self.norm1(x)
        h = self.attention(h, h, mask)
        x = residual + h
        residual = x
        h = self.norm2(x)
        h = self.feed_forward(h)
        return residual + h

    def backward(self, dy):
        dresidual = dy
        dh = self.feed_forward.backward(dy)
        dh = self.norm2.backward(dh)
        dx = dresidual + dh
        dresidual = dx
        dh = sum(self.attention.backward(dx))
        dh = self.norm1.backward(dh)
        return dresidual + dh
