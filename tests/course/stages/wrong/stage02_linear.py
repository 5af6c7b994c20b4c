# === [-] Linear.backward handles a row, a matrix and one axis of texts only: with two axes before the rows, x[b].T
#     reverses all axes and the product fails or is wrong: self.weight.grad += x[b].T @ dy[b].
class Linear(Module):
    def forward(self, x):
        self.remember(x)
        y = np.matmul(x, self.weight.data)
        return y + self.bias.data

    def backward(self, dy):
        x = self.recall()
        if x.ndim == 1:
            self.weight.grad += np.outer(x, dy)
            self.bias.grad += dy
        elif x.ndim == 2:
            self.weight.grad += x.T @ dy
            self.bias.grad += dy.sum(axis=0)
        else:
            for b in range(x.shape[0]):
                self.weight.grad += x[b].T @ dy[b]
                self.bias.grad += dy[b].sum(axis=0)
        return dy @ self.weight.data.T


class Embedding(Module):
    def forward(self, ids):
        self.remember(np.asarray(ids))
        return self.weight.data[ids]

    def backward(self, dx):
        ids = self.recall().ravel()
        for i, g in zip(ids, dx.reshape(len(ids), -1)):
            self.weight.grad[i] += g


# === [-] Embedding.backward multiplies by a float64 one-hot matrix and rebinds weight.grad, which turns a float32
#     gradient into float64: onehot = np.zeros((flat.size, self.weight.data.shape[0])) and the last line of backward.
class Linear(Module):
    def forward(self, x):
        self.remember(x)
        return np.einsum("...d,df->...f", x, self.weight.data) + self.bias.data

    def backward(self, dy):
        x = self.recall()
        X = x.reshape(-1, x.shape[-1])
        DY = dy.reshape(-1, dy.shape[-1])
        self.weight.grad += np.einsum("nd,nf->df", X, DY)
        self.bias.grad += np.einsum("nf->f", DY)
        return np.einsum("...f,df->...d", dy, self.weight.data)


class Embedding(Module):
    def forward(self, ids):
        self.remember(ids)
        return np.take(self.weight.data, ids, axis=0)

    def backward(self, dx):
        ids = self.recall()
        flat = np.reshape(ids, -1)
        onehot = np.zeros((flat.size, self.weight.data.shape[0]))
        onehot[np.arange(flat.size), flat] = 1
        self.weight.grad = self.weight.grad + onehot.T @ dx.reshape(flat.size, -1)


# === [LIN-11b] Linear.forward keeps only the shape of x on the stack and x itself in an attribute, so that a layer
#     used twice before the first backward takes the later x for both: self.rows = x.reshape(-1, x.shape[-1]).
class Linear(Module):
    def forward(self, x):
        self.rows = x.reshape(-1, x.shape[-1])
        self.remember(x.shape)
        y = self.rows @ self.weight.data + self.bias.data
        return y.reshape(*x.shape[:-1], y.shape[-1])

    def backward(self, dy):
        shape = self.recall()
        drows = dy.reshape(-1, dy.shape[-1])
        self.weight.grad += self.rows.T @ drows
        self.bias.grad += drows.sum(axis=0)
        return (drows @ self.weight.data.T).reshape(shape)


class Embedding(Module):
    def backward(self, dx):
        np.add.at(self.weight.grad, self.recall(), dx)


# === [EMB-8] Embedding.backward assigns the sum for each id that occurs instead of adding it to what is in the
#     gradient: self.weight.grad[i] = dx[ids == i].sum(axis=0).
class Linear(Module):
    def forward(self, x):
        W, b = self.weight.data, self.bias.data
        self.remember(x)
        return x @ W + b

    def backward(self, dy):
        x = self.recall()
        axes = list(range(x.ndim - 1))
        self.weight.grad += np.tensordot(x, dy, axes=(axes, axes))
        self.bias.grad += dy.sum(axis=tuple(axes))
        return dy @ self.weight.data.T


class Embedding(Module):
    def forward(self, ids):
        ids = np.asarray(ids)
        self.remember(ids)
        return self.weight.data[ids]

    def backward(self, dx):
        ids = self.recall()
        # one sum for each id that occurs
        for i in np.unique(ids):
            self.weight.grad[i] = dx[ids == i].sum(axis=0)


# === [-] Linear.backward: sums only one leading axis of the batched product x^T dy: with two or more leading axes
#     before the rows (x of 4 or more axes) += raises a broadcasting ValueError; 1 to 3 axes are right.
class Linear(Module):
    def forward(self, x):
        y = np.matmul(x, self.weight.data) + self.bias.data
        self.remember(x)
        return y

    def backward(self, dy):
        x = self.recall()
        if x.ndim == 1:
            self.weight.grad += np.outer(x, dy)
            self.bias.grad += dy
        else:
            dW = np.swapaxes(x, -1, -2) @ dy
            db = dy.sum(axis=-2)
            if dW.ndim > 2:                                 # a batch: sum over its texts
                dW, db = dW.sum(axis=0), db.sum(axis=0)
            self.weight.grad += dW
            self.bias.grad += db
        return np.matmul(dy, self.weight.data.T)


class Embedding(Module):
    def forward(self, ids):
        self.remember(ids)
        return np.take(self.weight.data, ids, axis=0)

    def backward(self, dx):
        ids = self.recall()
        width = self.weight.data.shape[1]
        np.add.at(self.weight.grad, ids.reshape(-1), dx.reshape(-1, width))


# === [-] Embedding.forward: picks rows by a float64 np.eye product, so a float32 table gives float64 vectors (the
#     gradient stays float32).
class Linear(Module):
    def forward(self, x):
        W, b = self.weight.data, self.bias.data
        self.remember(x)
        return x @ W + b

    def backward(self, dy):
        x = self.recall()
        d_in, d_out = self.weight.data.shape
        dy_rows = dy.reshape(-1, d_out)
        self.weight.grad += x.reshape(-1, d_in).T @ dy_rows
        self.bias.grad += dy_rows.sum(axis=0)
        return (dy_rows @ self.weight.data.T).reshape(x.shape)


class Embedding(Module):
    def forward(self, ids):
        # picking row i is the product of a onehot row with the table
        onehot = np.eye(self.weight.data.shape[0])[ids]
        self.remember(onehot)
        return onehot @ self.weight.data

    def backward(self, dx):
        onehot = self.recall()
        V, D = self.weight.data.shape
        self.weight.grad += onehot.reshape(-1, V).T @ dx.reshape(-1, D)


# === [-] Embedding.backward multiplies by a float64 one-hot matrix (np.eye without dtype) and assigns the sum, so
#     weight.grad becomes float64 for float32 arguments; the numbers are right (onehot =
#     np.eye(vocab_size)[ids.reshape(-1)])
class Linear(Module):
    def forward(self, x):
        self.remember(x)
        y = np.matmul(x, self.weight.data)
        return y + self.bias.data

    def backward(self, dy):
        x = self.recall()
        self.weight.grad += np.einsum("ni,no->io", x.reshape(-1, x.shape[-1]), dy.reshape(-1, dy.shape[-1]))
        self.bias.grad += np.add.reduce(dy.reshape(-1, dy.shape[-1]))
        return np.matmul(dy, self.weight.data.T)


class Embedding(Module):
    def forward(self, ids):
        ids = np.asarray(ids)
        self.remember(ids)
        return np.take(self.weight.data, ids, axis=0)

    def backward(self, dx):
        ids = self.recall()
        vocab_size, d_model = self.weight.data.shape
        # one row of the identity for each token: the product sums over all places of an id
        onehot = np.eye(vocab_size)[ids.reshape(-1)]
        self.weight.grad = self.weight.grad + onehot.T @ dx.reshape(-1, d_model)


# === [place] Linear.backward makes (d_in, N) out of x by a reshape instead of a transpose: right shape, mixed numbers
#     in weight.grad (right only for a single row, or d_in = 1) (self.weight.grad += x.reshape(d_in, -1) @ rows)
class Linear(Module):
    def backward(self, dy):
        x = self.recall()
        d_in, d_out = self.weight.data.shape
        rows = dy.reshape(-1, d_out)
        # (d_in, N) times (N, d_out) has the shape of W
        self.weight.grad += x.reshape(d_in, -1) @ rows
        self.bias.grad += rows.sum(axis=0)
        return dy @ self.weight.data.T


class Embedding(Module):
    def backward(self, dx):
        flat_ids = np.ravel(self.recall())
        grads = dx.reshape(flat_ids.size, -1)
        for i, g in zip(flat_ids, grads):
            self.weight.grad[i] += g


# === [LIN-5a] Linear.backward sums dy over axis 0 only for bias.grad: for x (d_in,) it adds the scalar sum of dy to
#     every entry, and for two or more leading axes += raises an error; only (n, d_in) is right.
class Linear(Module):
    def forward(self, x):
        self.remember(x)
        return np.einsum("...d,df->...f", x, self.weight.data) + self.bias.data

    def backward(self, dy):
        x = self.recall()
        d_in, d_out = self.weight.data.shape
        self.weight.grad += np.einsum("nd,nf->df", x.reshape(-1, d_in), dy.reshape(-1, d_out))
        self.bias.grad += dy.sum(axis=0)
        return np.einsum("...f,df->...d", dy, self.weight.data)


class Embedding(Module):
    def forward(self, ids):
        self.remember(ids)
        return np.take(self.weight.data, ids, axis=0)


# === [EMB-2] Embedding.backward replaces weight.grad by the new table instead of adding to it, so an earlier gradient
#     is lost (second use, second backward).
class Linear(Module):
    def forward(self, x):
        y = np.dot(x, self.weight.data)
        y = y + self.bias.data
        self.remember(x)
        return y

    def backward(self, dy):
        x = self.recall()
        W = self.weight.data
        rows_x = x.reshape(-1, W.shape[0])
        rows_dy = dy.reshape(-1, W.shape[1])
        self.weight.grad += np.dot(rows_x.T, rows_dy)
        self.bias.grad += np.sum(rows_dy, axis=0)
        return np.dot(dy, W.T)


class Embedding(Module):
    def backward(self, dx):
        ids = self.recall()
        table = np.zeros_like(self.weight.data)
        np.add.at(table, ids.reshape(-1), dx.reshape(-1, dx.shape[-1]))
        self.weight.grad = table


# === [EMB-9] Embedding.backward loops only over the first axis (`for i, d in zip(ids, dx)`): with ids (B, T) each i
#     is a whole text, and `grad[i] += d` loses ids that repeat within the text. With the page's ids of one axis it is
#     right.
class Linear(Module):
    def forward(self, x):
        y = x @ self.weight.data
        y = y + self.bias.data
        self.remember(x)
        return y

    def backward(self, dy):
        x = self.recall()
        d_in, d_out = self.weight.data.shape
        flat_x = x.reshape(-1, d_in)
        flat_dy = dy.reshape(-1, d_out)
        self.weight.grad += np.einsum("ni,nf->if", flat_x, flat_dy)
        self.bias.grad += np.einsum("nf->f", flat_dy)
        return dy @ self.weight.data.T


class Embedding(Module):
    def backward(self, dx):
        ids = self.recall()
        # one after the other, so that ids that occur twice are added twice
        for i, d in zip(ids, dx):
            self.weight.grad[i] += d
