// Reads logits, targets and losses of the predictions, and turns logits into probabilities.

/** What the predictions panel needs to know before it loads any array. */
export function describe(app) {
  const { doc } = app.state.get();
  const { predictions } = doc;
  const info = app.store.info(predictions.logits);
  const value = doc.values.find(({ id }) => id === predictions.logits);
  const axis = value ? value.axes.findIndex(({ tokens }) => tokens) : -1;
  const perToken = info.shape.length === 3;
  const [texts, positions] = perToken ? info.shape : [info.shape.length > 1 ? info.shape[0] : 1, 1];
  const tokens = perToken ? (doc.tokens || {})[axis >= 0 ? value.axes[axis].tokens : "source"] : null;
  const labels = (doc.tokens || {})[predictions.labels] || [];
  return {
    ...predictions, texts, positions, perToken, size: info.shape[info.shape.length - 1], tokens,
    label: (i) => String(labels[i] ?? i),
    token: (batch, at) => String(((tokens || [])[batch] || [])[at] ?? at),
    index: (batch, at, i) => (perToken ? [batch, at, i] : [batch, i].slice(2 - info.shape.length)),
    entry: (batch, at) => (perToken ? [batch, at] : [batch]),
  };
}

/** The logits of one position, of the model's output or of a ref with the same shape. */
export async function logitsAt(app, about, ref, batch, at) {
  const index = about.index(batch, at, [0, about.size]);
  const { data } = await app.store.slice(ref, index);
  return Array.from(data, Number);
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
  const place = (at) => (about.perToken ? batch * about.positions + at : batch);
  return Array.from({ length: about.positions }, (_, at) => {
    const loss = losses ? Number(losses.data[place(at)]) : NaN;
    const target = targets ? Number(targets.data[place(at)]) : -1;
    const counts = Number.isFinite(loss) || loss === Infinity;
    return counts && target >= 0 ? { target, loss, position: at } : { target: null, loss: null, position: at };
  });
}
