// Why a change of the model moved the loss as it did: a sentence with numbers for each kind of edit, where a rule knows one.

import { changesOf, firstChanges } from "explorer/compare";
import { formatNumber } from "explorer/format";
import { lookup } from "explorer/lookup";
import { numberAt } from "explorer/places";
import { gradientRef } from "explorer/refs";
import { t } from "explorer/strings";

const CLEAR = 0.2;                    // a weight that is worth a sentence

// edit: the latest one; was and doc: the step before and after it; moved: the target whose loss moved most, or null.
export async function reasonOf(app, edit, was, doc, moved) {
  const rule = edit.kind === "off" ? RULES[edit.what] : RULES[edit.kind];
  return rule ? rule(app, edit, was, doc, moved) : null;
}

const RULES = { head, mask, block, scale, residual, bug, step, weight };

function layerOf(doc, group) {
  return (doc.attention ?? []).find((entry) => entry.group === group || entry.group === `${group}.attention`);
}

// The weights of one query: those of a layer, in which the query stands at the place of the target that moved most.
async function rowOf(app, doc, entry, head, moved) {
  if (!entry || moved?.before.token === null || !moved) {
    return null;
  }
  const { shape } = app.store.info(entry.weights, doc);
  const query = moved.before.position;
  const { data } = await app.store.slice(entry.weights, [0, head, query, [0, shape[3]]], doc);
  const names = (which) => (doc.tokens?.[entry[which]] ?? [])[0] ?? [];
  return { weights: Array.from(data), query, token: names("query")[query], keys: names("key") };
}

async function head(app, edit, was, doc, moved) {
  const row = await rowOf(app, was, layerOf(was, edit.group), edit.head, moved);
  if (!row) {
    return null;
  }
  const others = row.weights.map((weight, key) => (key === row.query ? 0 : weight));
  const most = others.indexOf(Math.max(...others));
  if (others[most] < CLEAR) {
    return t("verdict.head.self", { token: row.token, weight: formatNumber(row.weights[row.query], 2) });
  }
  return t("verdict.head.another", { token: row.token, key: row.keys[most], weight: formatNumber(others[most], 2) });
}

async function mask(app, edit, was, doc, moved) {
  const entry = layerOf(was, edit.group);
  const heads = entry ? app.store.info(entry.weights, was).shape[1] : 0;
  const rows = await Promise.all(Array.from({ length: heads }, (_, number) => rowOf(app, doc, layerOf(doc, edit.group), number, moved)));
  if (!rows.length || rows.some((row) => !row)) {
    return null;
  }
  const old = await Promise.all(rows.map((_, number) => rowOf(app, was, entry, number, moved)));
  const hidden = old[0].weights.map((_, key) => old.every((row) => row.weights[key] === 0));
  const shares = rows.map((row) => row.weights.reduce((sum, weight, key) => sum + (hidden[key] ? weight : 0), 0));
  return t("verdict.mask", { token: rows[0].token, share: formatNumber(100 * Math.max(...shares), 2) });
}

async function block(app, edit, was, doc, moved) {
  const group = lookup(was).group(edit.group);
  const [input] = Object.values(group?.inputs ?? {});
  const [output] = Object.values(group?.outputs ?? {});
  if (!input || !output || !moved || moved.before.token === null) {
    return null;
  }
  const width = app.store.info(input, was).shape[2];
  const at = [0, moved.before.position, [0, width]];
  const [x, y] = [(await app.store.slice(input, at, was)).data, (await app.store.slice(output, at, was)).data];
  const added = Math.hypot(...y.map((each, i) => each - x[i]));
  return t("verdict.block", { token: moved.before.token, added: formatNumber(added), stream: formatNumber(Math.hypot(...x)) });
}

async function scale(app, edit, was, doc) {
  const before = layerOf(was, edit.group);
  const after = layerOf(doc, edit.group);
  if (!before || !after) {
    return null;
  }
  const sharpness = async (entry, one) => {
    const { data, shape } = await app.store.array(entry.weights, one);
    const rows = data.length / shape[3];
    const largest = Array.from({ length: rows }, (_, row) => Math.max(...data.slice(row * shape[3], (row + 1) * shape[3])));
    return largest.reduce((sum, each) => sum + each, 0) / rows;
  };
  return t("verdict.scale", { before: formatNumber(await sharpness(before, was)), after: formatNumber(await sharpness(after, doc)) });
}

async function residual(app, edit, was, doc) {
  const [input] = Object.values(lookup(was).group(edit.group)?.inputs ?? {});
  const ref = gradientRef(input ?? "");
  if (!app.store.info(ref, was) || !app.store.info(ref, doc)) {
    return null;
  }
  return t("verdict.residual", { before: formatNumber(app.store.info(ref, was).norm), after: formatNumber(app.store.info(ref, doc).norm) });
}

async function bug(app, edit, was, doc) {
  const { forward, backward } = firstChanges(doc, await changesOf(app.store, was, doc));
  const title = (found) => lookup(doc).value(found.ref.replace(/^grad /, "").split(" via ")[0])?.title ?? found.ref;
  const { symptom } = doc.hands_on.bugs.find(({ name }) => name === edit.name) ?? {};
  if (forward) {
    return `${t("verdict.bug.forward", { where: title(forward) })} ${symptom ?? ""}`;
  }
  return backward ? `${t("verdict.bug.backward", { where: title(backward) })} ${symptom ?? ""}` : null;
}

// SGD moves each weight by -lr times its gradient, so the slope foretells a fall of lr times the sum of all squared gradients.
async function step(app, edit, was, doc) {
  if (edit.optimizer !== "sgd") {
    return null;
  }
  const weights = was.values.filter(({ kind, has_gradient }) => kind === "parameter" && has_gradient);
  const square = weights.reduce((sum, { id }) => sum + app.store.info(gradientRef(id), was).norm ** 2, 0);
  return t("verdict.step", { lr: edit.lr, fall: formatNumber(edit.lr * square), real: formatNumber(was.loss - doc.loss) });
}

async function weight(app, edit, was, doc) {
  const before = await numberAt(app, edit.value, edit.index, was);
  const gradient = await numberAt(app, gradientRef(edit.value), edit.index, was);
  return t("verdict.weight", { gradient: formatNumber(gradient), change: formatNumber(edit.number - before),
    foretold: formatNumber(gradient * (edit.number - before)), real: formatNumber(doc.loss - was.loss) });
}
