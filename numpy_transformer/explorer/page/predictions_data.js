// Reads logits, targets and losses of the predictions, and turns logits into probabilities.

/**
 * What the predictions panel needs to know before it loads any array. Logits have the axes batch, token, label; a class
 * has no token axis, an example may come without a batch, and a single logit stands for two classes (binary).
 */
export function describe(app) {
  const { doc } = app.state.get();
  const { predictions } = doc;
  const { shape } = app.store.info(predictions.logits);
  const perToken = predictions.kind !== "class";
  const binary = String(app.store.info(predictions.targets)?.shape) === String(shape);
  const leading = binary ? shape : shape.slice(0, -1);
  const batched = leading.length > (perToken ? 1 : 0);
  const value = doc.values.find(({ id }) => id === predictions.logits);
  const axis = value?.axes.find(({ tokens }) => tokens);
  const tokens = (doc.tokens ?? {})[axis?.tokens] ?? [];
  const labels = (doc.tokens ?? {})[predictions.labels] ?? [];
  const entry = (batch, at) => [...(batched ? [batch] : []), ...(perToken ? [at] : [])];
  return {
    ...predictions, perToken, binary, entry, size: binary ? 2 : shape[shape.length - 1],
    texts: batched ? leading[0] : 1, positions: perToken ? leading[leading.length - 1] : 1,
    label: (i) => String(labels[i] ?? i),
    token: (batch, at) => String((tokens[batch] ?? [])[at] ?? at),
    index: (batch, at, i) => [...entry(batch, at), ...(binary ? [] : [i])],
    place: (index) => ({ batch: batched ? index[0] : 0, position: perToken ? index[batched ? 1 : 0] : 0 }),
  };
}

/** The logits of one position, of the model's output or of a ref with the same shape; a single logit z becomes [0, z]. */
export async function logitsAt(app, about, ref, batch, at) {
  const { data } = await app.store.slice(ref, about.index(batch, at, [0, about.size]));
  return about.binary ? [0, Number(data[0])] : Array.from(data, Number);
}

/** The gradients of the same logits. Raising a single logit by h does as much as lowering the other, fixed one by h. */
export async function gradientsAt(app, about, batch, at) {
  const gradients = await logitsAt(app, about, `grad ${about.logits}`, batch, at);
  return about.binary ? [-gradients[1], gradients[1]] : gradients;
}

/** exp(z / temperature) divided by its sum; temperature 0 puts everything on the largest logit. */
export function softmax(logits, temperature = 1) {
  const largest = Math.max(...logits);
  if (temperature === 0) {
    const best = logits.indexOf(largest);
    return logits.map((_, i) => (i === best ? 1 : 0));
  }
  const powers = logits.map((z) => Math.exp((z - largest) / temperature));
  const sum = powers.reduce((a, b) => a + b, 0);
  return powers.map((power) => power / sum);
}

/** The places of the largest numbers, the largest first. */
export function largest(numbers, count) {
  return numbers.map((_, i) => i).sort((a, b) => numbers[b] - numbers[a]).slice(0, count);
}

/** The target and the loss at each position of one text; null where a position has none. */
export async function targetsOf(app, about, batch) {
  const { store } = app;
  const targets = store.info(about.targets) ? await store.array(about.targets) : null;
  const losses = about.losses && store.info(about.losses) ? await store.array(about.losses) : null;
  const place = (at) => batch * about.positions + at;
  return Array.from({ length: about.positions }, (_, at) => {
    const loss = losses ? Number(losses.data[place(at)]) : NaN;
    const target = targets ? Number(targets.data[place(at)]) : -1;
    const counts = Number.isFinite(loss) || loss === Infinity;
    return counts && target >= 0 ? { target, loss, position: at } : { target: null, loss: null, position: at };
  });
}
