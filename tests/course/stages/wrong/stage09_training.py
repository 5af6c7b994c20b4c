# === [ADM-10d] AdamW.step applies the weight decay after Adam's part, with the changed w instead of the old one; line
#     34: p.data -= self.lr * self.weight_decay * p.data.
class AdamW:
    def step(self):
        self.t += 1
        b1, b2 = self.betas
        for i, p in enumerate(self.parameters):
            self.m[i] = b1 * self.m[i] + (1 - b1) * p.grad
            self.v[i] = b2 * self.v[i] + (1 - b2) * p.grad ** 2
            m_hat = self.m[i] / (1 - b1 ** self.t)
            v_hat = self.v[i] / (1 - b2 ** self.t)
            p.data -= self.lr * m_hat / (np.sqrt(v_hat) + self.eps)
            p.data -= self.lr * self.weight_decay * p.data


def clip_gradients(parameters, max_norm):
    total = sum(float(np.sum(p.grad ** 2)) for p in parameters)
    norm = math.sqrt(total)
    if norm <= max_norm:
        return
    factor = max_norm / norm
    for p in parameters:
        p.grad *= factor


def train(model, loss, optimizer, batches, rate, max_norm=1.0):
    losses = []
    for i in range(len(batches)):
        *inputs, targets = batches[i]
        for p in optimizer.parameters:
            p.grad = np.zeros_like(p.data)
        losses.append(loss(model(*inputs), targets))
        model.backward(loss.backward())
        clip_gradients(optimizer.parameters, max_norm)
        optimizer.lr = rate(i + 1)
        optimizer.step()
    return losses


# === [ADM-9a] AdamW.step adds eps inside the root, sqrt(v_hat + eps), instead of after it: root = np.sqrt(v / (1 - b2
#     ** self.t) + self.eps).
class AdamW:
    def step(self):
        self.t += 1
        b1, b2 = self.betas
        for p, m, v in zip(self.parameters, self.m, self.v):
            m += (1 - b1) * (p.grad - m)
            v += (1 - b2) * (p.grad * p.grad - v)
            root = np.sqrt(v / (1 - b2 ** self.t) + self.eps)
            decay = self.lr * self.weight_decay * p.data
            p.data -= decay + self.lr * (m / (1 - b1 ** self.t)) / root


def clip_gradients(parameters, max_norm):
    norm = math.sqrt(sum((p.grad.astype(float) ** 2).sum() for p in parameters))
    if norm > max_norm:
        for p in parameters:
            p.grad *= max_norm / norm


def learning_rate(n, d_model, warmup):
    rising = n * warmup ** -1.5
    falling = n ** -0.5
    return min(rising, falling) / math.sqrt(d_model)


def train(model, loss, optimizer, batches, rate, max_norm=1.0):
    losses = []
    n = 0
    for batch in batches:
        n += 1
        inputs, targets = batch[:-1], batch[-1]
        for parameter in optimizer.parameters:
            parameter.grad.fill(0)
        logits = model(*inputs)
        losses.append(loss(logits, targets))
        model.backward(loss.backward())
        clip_gradients(optimizer.parameters, max_norm)
        optimizer.lr = rate(n)
        optimizer.step()
    return losses


# === [ADM-11b] clip_gradients clips each gradient by its own norm instead of all by their joint norm: norm =
#     math.sqrt(float((p.grad * p.grad).sum())).
class AdamW:
    def step(self):
        self.t = t = self.t + 1
        b1, b2 = self.betas
        for i, p in enumerate(self.parameters):
            g = p.grad
            self.m[i][...] = b1 * self.m[i] + (1 - b1) * g
            self.v[i][...] = b2 * self.v[i] + (1 - b2) * g * g
            mh, vh = self.m[i] / (1 - b1 ** t), self.v[i] / (1 - b2 ** t)
            p.data[...] = (1 - self.lr * self.weight_decay) * p.data - self.lr * mh / (np.sqrt(vh) + self.eps)


def clip_gradients(parameters, max_norm):
    for p in parameters:
        norm = math.sqrt(float((p.grad * p.grad).sum()))
        if norm > max_norm:
            p.grad *= max_norm / norm


def learning_rate(n, d_model, warmup):
    return min(n ** -0.5, n * warmup ** -1.5) / d_model ** 0.5


def train(model, loss, optimizer, batches, rate, max_norm=1.0):
    losses = []
    for n, batch in enumerate(batches, start=1):
        for p in optimizer.parameters:
            p.grad[...] = 0
        losses.append(loss(model(*batch[:-1]), batch[-1]))
        model.backward(loss.backward())
        clip_gradients(optimizer.parameters, max_norm)
        optimizer.lr = rate(n)
        optimizer.step()
    return losses


# === [LOOP-10] train sets the gradients to zero after each step instead of before each forward, so what the gradients
#     contained when it starts is added to the first batch's: p.grad[...] = 0.
class AdamW:
    def step(self):
        self.t += 1
        b1, b2 = self.betas
        correct1, correct2 = 1 - b1 ** self.t, 1 - b2 ** self.t
        for i, p in enumerate(self.parameters):
            self.m[i] = b1 * self.m[i] + (1 - b1) * p.grad
            self.v[i] = b2 * self.v[i] + (1 - b2) * p.grad * p.grad
            change = (self.m[i] / correct1) / (np.sqrt(self.v[i] / correct2) + self.eps)
            p.data -= self.lr * (change + self.weight_decay * p.data)


def clip_gradients(parameters, max_norm):
    squares = 0.0
    for p in parameters:
        squares += float(np.sum(np.square(p.grad)))
    norm = math.sqrt(squares)
    if norm > max_norm:
        for p in parameters:
            p.grad[...] = p.grad * (max_norm / norm)


def learning_rate(n, d_model, warmup):
    if n < warmup:
        return d_model ** -0.5 * n * warmup ** -1.5
    return d_model ** -0.5 * n ** -0.5


def train(model, loss, optimizer, batches, rate, max_norm=1.0):
    losses = []
    for n, (*inputs, targets) in enumerate(batches, 1):
        logits = model(*inputs)
        losses.append(loss(logits, targets))
        model.backward(loss.backward())
        clip_gradients(optimizer.parameters, max_norm)
        optimizer.lr = rate(n)
        optimizer.step()
        for p in optimizer.parameters:
            p.grad[...] = 0
    return losses


# === [place] AdamW.step: entries whose gradient is 0 in this step are skipped altogether (m and v do not decay, no
#     Adam update): wrong for an entry that had a nonzero gradient in an earlier step.
class AdamW:
    def step(self):
        self.t += 1
        b1, b2 = self.betas
        for i, p in enumerate(self.parameters):
            g, m, v = p.grad, self.m[i], self.v[i]
            p.data -= self.lr * self.weight_decay * p.data
            used = g != 0                                   # rows of tokens that did not occur only decay
            m[used] = b1 * m[used] + (1 - b1) * g[used]
            v[used] = b2 * v[used] + (1 - b2) * g[used] ** 2
            m_hat = m[used] / (1 - b1 ** self.t)
            v_hat = v[used] / (1 - b2 ** self.t)
            p.data[used] -= self.lr * m_hat / (np.sqrt(v_hat) + self.eps)


def clip_gradients(parameters, max_norm):
    squares = [float((p.grad * p.grad).sum()) for p in parameters]
    norm = math.sqrt(math.fsum(squares))
    factor = max_norm / norm if norm > max_norm else 1.0
    for p in parameters:
        p.grad *= factor


def learning_rate(n, d_model, warmup):
    if n < warmup:
        return d_model ** -0.5 * n * warmup ** -1.5
    return d_model ** -0.5 * n ** -0.5


def train(model, loss, optimizer, batches, rate, max_norm=1.0):
    history = []
    for n, batch in enumerate(batches):
        *inputs, targets = batch
        for p in optimizer.parameters:
            p.grad = np.zeros_like(p.data)
        history.append(loss.forward(model.forward(*inputs), targets))
        model.backward(loss.backward())
        clip_gradients(optimizer.parameters, max_norm)
        optimizer.lr = rate(n + 1)
        optimizer.step()
    return history


# === [ADM-9c] AdamW.step, lines 21 and 29, puts both bias corrections into the step size (lr sqrt(1-b2^t)/(1-b1^t)),
#     so that eps is added to sqrt(v) and not to sqrt(v_hat): clearly wrong for large eps or tiny gradients, about
#     1e-5 to 3e-4 relative at eps 1e-8 for some entries.
class AdamW:
    def step(self):
        b1, b2 = self.betas
        self.t += 1
        # both corrections in one number for all parameters
        step_size = self.lr * math.sqrt(1 - b2 ** self.t) / (1 - b1 ** self.t)
        for parameter, m, v in zip(self.parameters, self.m, self.v):
            g = parameter.grad
            m *= b1
            m += (1 - b1) * g
            v *= b2
            v += (1 - b2) * g * g
            parameter.data *= 1 - self.lr * self.weight_decay
            parameter.data -= step_size * m / (np.sqrt(v) + self.eps)


def clip_gradients(parameters, max_norm):
    parameters = list(parameters)
    total = 0.0
    for parameter in parameters:
        total += float(np.vdot(parameter.grad, parameter.grad))
    norm = math.sqrt(total)
    if norm > max_norm:
        for parameter in parameters:
            parameter.grad *= max_norm / norm


def learning_rate(n, d_model, warmup):
    return min(1 / math.sqrt(n), n / warmup ** 1.5) / math.sqrt(d_model)


def train(model, loss, optimizer, batches, rate, max_norm=1.0):
    losses = []
    for i, batch in enumerate(batches):
        *xs, y = batch
        for parameter in optimizer.parameters:
            parameter.grad[...] = 0
        value = loss(model(*xs), y)
        losses.append(value)
        model.backward(loss.backward())
        clip_gradients(optimizer.parameters, max_norm)
        optimizer.lr = rate(i + 1)
        optimizer.step()
    return losses


# === [CLP-20] clip_gradients, divides by norm + 1e-6 as torch.nn.utils.clip_grad_norm_ does: relative error
#     1e-6/norm, 22 percent at a norm of a few 1e-6; norms that are above max_norm by less than 1e-6 are not scaled.
class AdamW:
    def step(self):
        self.t += 1
        beta1, beta2 = self.betas
        bias1 = 1 - beta1 ** self.t
        bias2 = 1 - beta2 ** self.t
        for i, p in enumerate(self.parameters):
            self.m[i] += (1 - beta1) * (p.grad - self.m[i])             # lerp
            self.v[i] += (1 - beta2) * (p.grad * p.grad - self.v[i])
            denom = np.sqrt(self.v[i]) / math.sqrt(bias2) + self.eps
            p.data = p.data * (1 - self.lr * self.weight_decay) - self.lr / bias1 * self.m[i] / denom


def clip_gradients(parameters, max_norm):
    grads = [p.grad for p in parameters]
    total_norm = math.sqrt(math.fsum(float(np.square(g).sum()) for g in grads))
    clip_coef = max_norm / (total_norm + 1e-6)
    if clip_coef < 1:
        for g in grads:
            g *= clip_coef


def train(model, loss, optimizer, batches, rate, max_norm=1.0):
    params = optimizer.parameters
    history = []
    step = 0
    for batch in batches:
        step += 1
        for p in params:
            p.grad = np.zeros_like(p.data)
        logits = model(*batch[:-1])
        history.append(loss(logits, batch[-1]))
        model.backward(loss.backward())
        clip_gradients(params, max_norm)
        optimizer.lr = rate(step)
        optimizer.step()
    return history


# === [-] train, calls optimizer.zero_grad(), a method that only this file's AdamW has, so another optimizer with
#     parameters, lr and step() gives AttributeError.
class AdamW:
    def zero_grad(self):
        for parameter in self.parameters:
            parameter.grad = np.zeros_like(parameter.data)

    def update(self, i):
        p, (b1, b2) = self.parameters[i], self.betas
        self.m[i] = b1 * self.m[i] + (1 - b1) * p.grad
        self.v[i] = b2 * self.v[i] + (1 - b2) * p.grad ** 2
        m_hat = self.m[i] / (1 - b1 ** self.t)
        v_hat = self.v[i] / (1 - b2 ** self.t)
        return self.lr * m_hat / (np.sqrt(v_hat) + self.eps)

    def step(self):
        self.t += 1
        for i, p in enumerate(self.parameters):
            change = self.update(i)
            p.data = p.data - self.lr * self.weight_decay * p.data - change


def clip_gradients(parameters, max_norm):
    parameters = list(parameters)
    norm = math.sqrt(sum(float((p.grad ** 2).sum()) for p in parameters))
    if norm <= max_norm:
        return
    scale = max_norm / norm
    for p in parameters:
        p.grad = p.grad * scale


def learning_rate(n, d_model, warmup):
    if n < warmup:
        return d_model ** -0.5 * n * warmup ** -1.5
    return d_model ** -0.5 * n ** -0.5


def train(model, loss, optimizer, batches, rate, max_norm=1.0):
    losses = []
    for n, (*inputs, targets) in enumerate(batches, start=1):
        optimizer.zero_grad()
        output = model(*inputs)
        losses.append(loss(output, targets))
        model.backward(loss.backward())
        clip_gradients(optimizer.parameters, max_norm)
        optimizer.lr = rate(n)
        optimizer.step()
    return losses


# === [-] clip_gradients computes min(1, max_norm / norm) without asking norm > max_norm first, so all gradients 0
#     (norm 0) raise ZeroDivisionError.
class AdamW:
    def step(self):
        self.t += 1
        b1, b2 = self.betas
        c1, c2 = 1 - b1 ** self.t, 1 - b2 ** self.t
        for parameter, m, v in zip(self.parameters, self.m, self.v):
            g = parameter.grad
            m *= b1
            m += (1 - b1) * g
            v *= b2
            v += (1 - b2) * g * g
            change = (m / c1) / (np.sqrt(v / c2) + self.eps)
            parameter.data = parameter.data - self.lr * (self.weight_decay * parameter.data + change)


def clip_gradients(parameters, max_norm):
    total = 0.0
    for parameter in parameters:
        total += float(np.sum(parameter.grad * parameter.grad))
    factor = min(1.0, max_norm / math.sqrt(total))
    for parameter in parameters:
        parameter.grad *= factor


def learning_rate(n, d_model, warmup):
    return min(n ** -0.5, n * warmup ** -1.5) / math.sqrt(d_model)


def train(model, loss, optimizer, batches, rate, max_norm=1.0):
    losses = []
    n = 0
    for *inputs, targets in batches:
        n += 1
        for parameter in optimizer.parameters:
            parameter.grad = np.zeros_like(parameter.grad)
        losses.append(loss(model(*inputs), targets))
        model.backward(loss.backward())
        clip_gradients(optimizer.parameters, max_norm)
        optimizer.lr = rate(n)
        optimizer.step()
    return losses


# === [ADM-23] AdamW.step gives no Adam update to entries whose gradient is 0 in this step, although their running
#     mean m is not 0; shows only with gradients that are nonzero in one step and 0 in a later one (rare tokens).
class AdamW:
    def step(self):
        beta1, beta2 = self.betas
        self.t += 1
        for i, p in enumerate(self.parameters):
            g = p.grad
            self.m[i] = beta1 * self.m[i] + (1 - beta1) * g
            self.v[i] = beta2 * self.v[i] + (1 - beta2) * g ** 2
            m_hat = self.m[i] / (1 - beta1 ** self.t)
            v_hat = self.v[i] / (1 - beta2 ** self.t)
            adam = self.lr * m_hat / (np.sqrt(v_hat) + self.eps)
            adam = np.where(g == 0, 0 * adam, adam)         # an entry without gradient only decays
            p.data = p.data - self.lr * self.weight_decay * p.data - adam


def clip_gradients(parameters, max_norm):
    norm = math.sqrt(sum(float(np.vdot(p.grad, p.grad)) for p in parameters))
    if norm > max_norm:
        scale = max_norm / norm
        for p in parameters:
            p.grad = p.grad * scale


def train(model, loss, optimizer, batches, rate, max_norm=1.0):
    losses = []
    for n in range(1, len(batches) + 1):
        batch = batches[n - 1]
        for p in optimizer.parameters:
            p.grad.fill(0)
        value = loss(model(*batch[:-1]), batch[-1])
        losses.append(value)
        model.backward(loss.backward())
        clip_gradients(optimizer.parameters, max_norm)
        optimizer.lr = rate(n)
        optimizer.step()
    return losses


# === [-] clip_gradients: divides by the norm without asking, ZeroDivisionError if all gradients are 0 (also
#     max_norm=0)
class AdamW:
    def step(self):
        self.t += 1
        (b1, b2), lr = self.betas, self.lr
        unbias1, unbias2 = 1 / (1 - b1 ** self.t), 1 / (1 - b2 ** self.t)
        for w, m, v in zip(self.parameters, self.m, self.v):
            m *= b1
            m += (1 - b1) * w.grad
            v *= b2
            v += (1 - b2) * w.grad * w.grad
            w.data *= 1 - lr * self.weight_decay
            w.data -= lr * unbias1 * m / (np.sqrt(unbias2 * v) + self.eps)


def clip_gradients(parameters, max_norm):
    norm = math.sqrt(sum(float(np.vdot(p.grad, p.grad)) for p in parameters))
    factor = min(1.0, max_norm / norm)
    for p in parameters:
        p.grad *= factor


def learning_rate(n, d_model, warmup):
    rising = n * warmup ** -1.5
    falling = n ** -0.5
    return min(rising, falling) / math.sqrt(d_model)


def train(model, loss, optimizer, batches, rate, max_norm=1.0):
    losses = []
    for n, batch in enumerate(batches, start=1):
        for parameter in optimizer.parameters:
            parameter.grad = np.zeros_like(parameter.data)
        losses.append(loss(model(*batch[:-1]), batch[-1]))
        model.backward(loss.backward())
        clip_gradients(optimizer.parameters, max_norm)
        optimizer.lr = rate(n)
        optimizer.step()
    return losses


# === [FLOAT-1] learning_rate: computed by np.sqrt/np.minimum, so it returns np.float64, and AdamW.step (which
#     multiplies by self.lr and assigns) turns float32 parameters into float64; numbers right (sample prints
#     np.float64(...))
class AdamW:
    def step(self):
        self.t = self.t + 1
        b1, b2 = self.betas
        for i in range(len(self.parameters)):
            w = self.parameters[i]
            self.m[i] = b1 * self.m[i] + (1 - b1) * w.grad
            self.v[i] = b2 * self.v[i] + (1 - b2) * np.square(w.grad)
            mhat = self.m[i] / (1 - b1 ** self.t)
            vhat = self.v[i] / (1 - b2 ** self.t)
            w.data = w.data - self.lr * (self.weight_decay * w.data + mhat / (np.sqrt(vhat) + self.eps))


def clip_gradients(parameters, max_norm):
    total = 0.0
    for parameter in parameters:
        total += float(np.sum(parameter.grad ** 2))
    norm = math.sqrt(total)
    if norm > max_norm:
        for parameter in parameters:
            parameter.grad *= max_norm / norm


def learning_rate(n, d_model, warmup):
    return np.minimum(1 / np.sqrt(n), n / np.sqrt(warmup) ** 3) / np.sqrt(d_model)


def train(model, loss, optimizer, batches, rate, max_norm=1.0):
    losses = []
    for n, batch in enumerate(batches, start=1):
        for parameter in optimizer.parameters:
            parameter.grad = np.zeros_like(parameter.data)
        losses.append(loss(model(*batch[:-1]), batch[-1]))
        model.backward(loss.backward())
        clip_gradients(optimizer.parameters, max_norm)
        optimizer.lr = rate(n)
        optimizer.step()
    return losses


# === [ADM-24] AdamW.step increases self.t inside the loop over the parameters (line 21), as PyTorch does with its
#     step count of each parameter, so with several parameters t counts too fast and the corrections of m and v are
#     wrong.
class AdamW:
    def step(self):
        beta1, beta2 = self.betas
        for p, exp_avg, exp_avg_sq in zip(self.parameters, self.m, self.v):
            self.t += 1
            # decoupled decay
            decay = self.lr * self.weight_decay * p.data
            # moments, in place
            exp_avg *= beta1
            exp_avg += (1 - beta1) * p.grad
            exp_avg_sq *= beta2
            exp_avg_sq += (1 - beta2) * p.grad ** 2
            # bias correction
            m_hat = exp_avg / (1 - beta1 ** self.t)
            v_hat = exp_avg_sq / (1 - beta2 ** self.t)
            p.data -= decay + self.lr * m_hat / (np.sqrt(v_hat) + self.eps)


def clip_gradients(parameters, max_norm):
    parameters = list(parameters)
    norm = math.sqrt(sum(float(np.vdot(p.grad, p.grad)) for p in parameters))
    if norm <= max_norm:
        return
    scale = max_norm / norm
    for p in parameters:
        p.grad *= scale


def train(model, loss, optimizer, batches, rate, max_norm=1.0):
    losses = []
    for step, (*xs, ys) in enumerate(batches):
        for p in optimizer.parameters:
            p.grad[...] = 0
        logits = model(*xs)
        losses.append(loss(logits, ys))
        model.backward(loss.backward())
        clip_gradients(optimizer.parameters, max_norm)
        optimizer.lr = rate(step + 1)
        optimizer.step()
    return losses
