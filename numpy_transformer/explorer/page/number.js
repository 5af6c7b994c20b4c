// One number: the chosen cell with its place, where it comes from (the formula with its numbers, each of them a link),
// and where it goes on to. Following the links leads from the loss to an embedding, and back.

import { h, replace } from "explorer/dom";
import { formatNumber, fullNumber } from "explorer/format";
import { formulaView } from "explorer/formula_view";
import { t } from "explorer/strings";
import { derivationOf, refOfName } from "explorer/derivation";
import { addressOf, follow, numberLink, opLink } from "explorer/links";
import { light } from "explorer/lit";
import { lookup } from "explorer/lookup";
import { onward } from "explorer/onward";
import { differs, sumDiffers } from "explorer/rounding";
import { axesOf, batchOf, gradientRef, indexText, isGradient, parseRef, placeText, shortName, slotName, valueOf } from "explorer/refs";
import { spelledOut } from "explorer/spelled";
import { symbolText } from "explorer/symbols";

export function start(root, app) {
  const { state } = app;
  let turn = 0;

  async function draw(now) {
    turn += 1;
    const mine = turn;
    const focused = root.contains(document.activeElement);
    const content = await contentOf(app, now).catch((error) => ({ nodes: h("p", { class: "note" }, error.message) }));
    if (mine !== turn) return;
    replace(root, content.nodes);
    const heading = root.querySelector("h2");
    if (focused && heading) heading.focus();
    if (focused) root.parentElement.scrollTop = 0;
    const onwards = content.index ? await onwardList(app, now.ref, content.index) : null;      // takes longer, so it comes last
    if (mine === turn && onwards) root.append(onwards);
  }

  root.addEventListener("keydown", (event) => {
    if (event.key !== "Escape") return;
    const cell = document.querySelector("#view-component .has-chosen .heatmap-rings");
    if (cell) cell.focus();
  });
  draw(state.get());
  state.subscribe((now, before) => {
    const moved = now.ref !== before.ref || String(now.index) !== String(before.index) || now.doc !== before.doc;
    if (moved) draw(now);
  });
}

// {nodes, index}; without an index there is no number to show.
async function contentOf(app, { doc, ref, index: chosen }) {
  const info = ref ? app.store.info(ref) : null;
  const index = chosenIndex(info, chosen);
  if (!index || info.shape.length !== index.length) {
    light([]);
    return { nodes: [h("h2", { tabindex: "-1" }, t("number.name")), h("p", { class: "note" }, t("number.empty"))] };
  }
  const { data } = await app.store.slice(ref, index);
  const number = Number(data[0]);
  const derivation = derivationOf(doc, ref);
  const origin = await originOf(app, derivation, ref, index, number);
  light(origin.cells);
  const name = nameInPanel(app, ref) || derivation.target || shortName(doc, ref);
  const side = isGradient(ref) ? "is-gradient" : "is-value";
  return { index, nodes: [heading(app, { ref, index, number, info, name }), h("div", { class: `origin ${side}` }, origin.nodes)] };
}

// What the component in the panel calls the array, so that both speak of the same name.
function nameInPanel(app, ref) {
  const { doc, op } = app.state.get();
  const item = op ? lookup(doc).node(op) : null;
  const slot = item ? slotName(item, parseRef(ref).value) : null;
  return slot && isGradient(ref) ? `d${slot}` : slot;
}

// A single number, such as the loss, needs no index.
export function chosenIndex(info, index) {
  if (!info) return null;
  return info.shape.length === 0 ? [] : index;
}

// Name, number and place in words, and the way to the other side: from a value to its gradient and back.
function heading(app, { ref, index, number, info, name }) {
  const place = index.length ? `[${index.join(", ")}]` : "";
  const { doc } = app.state.get();
  const value = valueOf(doc, ref);
  const kind = isGradient(ref) ? "gradient" : "value";
  return h("header", { class: `number-head is-${kind}` },
    h("h2", { tabindex: "-1" }, h("span", { class: "mono" }, `${symbolText(name)}${place}`), " = ",
      h("span", { class: "number", title: fullNumber(number), "data-ref": ref, "data-cell": index.join(","), "data-value": String(number) },
        formatNumber(number, 4))),
    h("p", { class: "note" }, t(`number.kind.${kind}`, { title: value ? value.title : ref })),
    h("p", { class: "note" }, indexText(doc, ref, info.shape, index)),
    otherSide(app, ref, index));
}

function otherSide(app, ref, index) {
  const { kind, value } = parseRef(ref);
  const other = kind === "value" ? gradientRef(value) : value;
  if (!app.store.info(other)) return kind === "value" ? h("p", { class: "note" }, t("number.no_gradient")) : null;
  const { op, view } = app.state.get();
  const place = { op, view, ref: other, index };
  return h("p", {}, h("a", { href: addressOf(app, place), onclick: follow(app, place) },
    t(kind === "value" ? "number.to_gradient" : "number.to_value")));
}

// Where the number comes from: {nodes, cells}, the cells being those that light up.
async function originOf(app, derivation, ref, index, number) {
  if (derivation.kind === "formula") return fromFormula(app, derivation, ref, index, number);
  if (derivation.kind === "sum") return fromConsumers(app, derivation, index, number);
  const nodes = [h("h3", {}, t("number.from")), h("p", {}, t(`number.origin.${derivation.kind.replace(" ", "_")}`, {
    op: derivation.op ? derivation.op.class || derivation.op.kind : "",
  }))];
  if (derivation.kind === "no formula") nodes.push(h("p", {}, opLink(app, derivation.op)));
  return { nodes, cells: [] };
}

async function fromFormula(app, { op, formula, target }, ref, index, number) {
  const { doc } = app.state.get();
  const spelled = await app.store.spell(ref, index);
  if (!spelled) return { nodes: [h("p", {}, t("number.origin.no_formula", { op: op.class }))], cells: [] };

  const refs = new Map();
  const refOf = (name) => {
    if (!refs.has(name)) refs.set(name, refOfName(doc, op, name));
    return refs.get(name);
  };
  const line = spelledOut({
    spelled, placeName: placeNamer(app, formula, refOf),
    link: (name, at, value) => (refOf(name) ? numberLink(app, refOf(name), at, value) : formatNumber(value)),
  });
  const cells = spelled.entries.map((entry) => ({ ref: refOf(entry.array), index: entry.index })).filter((cell) => cell.ref);
  const phase = target.startsWith("d") && isGradient(ref) ? "backward" : "forward";
  return { cells, nodes: [
    h("h3", {}, t("number.from")), differs(spelled, number) && disagreement(spelled.value, number),
    h("p", { class: "note" }, t(`number.by.${phase}`), " ", opLink(app, op), ` (${op.class || op.kind})`,
      nameInPanel(app, ref) === target ? "" : t("number.as_its", { name: symbolText(target) })),
    h("div", { class: "formula" }, formulaView(formula)),
    h("p", { class: "note" }, t("number.with_numbers")),
    line,
  ] };
}

function disagreement(spelled, shown) {
  return h("p", { class: "disagreement", role: "alert" }, t("number.differs", {
    formula: formatNumber(spelled, 4), array: formatNumber(shown, 4),
  }));
}

// Several ops used this value: its gradient is the sum of what each of them sends back.
async function fromConsumers(app, { parts }, index, number) {
  const numbers = await Promise.all(parts.map(async (part) => Number((await app.store.slice(part.ref, index)).data[0])));
  const line = parts.flatMap((part, i) => {
    const link = numberLink(app, part.ref, index, numbers[i]);
    const shown = i > 0 && numbers[i] < 0 ? ["(", link, ")"] : [link];
    return i > 0 ? [" + ", ...shown] : shown;
  });
  const { doc } = app.state.get();
  const rows = parts.map((part, i) => {
    const op = doc.ops.find((each) => each.id === part.op);
    return h("li", {}, opLink(app, op), " ", h("span", { class: "mono" }, `d${part.slot}`), " = ", numberLink(app, part.ref, index, numbers[i]));
  });
  const total = numbers.reduce((sum, each) => sum + each, 0);
  return { cells: parts.map((part) => ({ ref: part.ref, index })), nodes: [
    h("h3", {}, t("number.from")), sumDiffers(numbers, number) && disagreement(total, number),
    h("p", { class: "note" }, t("number.adds", { n: parts.length })),
    h("div", { class: "spelled-line spelled-main" }, line),
    h("p", { class: "result" }, "= ", h("b", { class: "number" }, formatNumber(total, 4))),
    h("ul", { class: "contributions" }, rows),
  ] };
}

// What a summation variable stands for: "token 2 “sat”" where its axis has a name, "j = 2" otherwise.
function placeNamer(app, formula, refOf) {
  const { doc } = app.state.get();
  const ranges = rangesOf(formula.body);
  return (variable, i) => {
    if (Array.isArray(i)) return leadingPlaces(app, refOf(ranges.get("...")?.array), i);
    const range = ranges.get(variable);
    const ref = range && range.array ? refOf(range.array) : null;
    const info = ref ? app.store.info(ref) : null;
    if (!info || range.axis === undefined) return `${variable} = ${i}`;
    const axes = axesOf(doc, ref, info.shape);
    const axis = axes[range.axis < 0 ? axes.length + range.axis : range.axis];
    return axis ? placeText(doc, axis, i) : `${variable} = ${i}`;
  };
}

// The entries of the leading axes that a sum runs over together: "batch 0, token 4 “dog”"; axes of one entry go without saying.
function leadingPlaces(app, ref, index) {
  const info = ref ? app.store.info(ref) : null;
  if (!info) return index.length ? `[${index.join(", ")}]` : "";
  const { doc } = app.state.get();
  const axes = axesOf(doc, ref, info.shape);
  const said = index.map((i, axis) => (info.shape[axis] > 1 ? placeText(doc, axes[axis], i, batchOf(axes, index)) : ""));
  return said.filter(Boolean).join(", ");
}

function rangesOf(node, found = new Map()) {
  if (Array.isArray(node)) node.forEach((each) => rangesOf(each, found));
  if (!node || typeof node !== "object" || Array.isArray(node)) return found;
  (Array.isArray(node.over) ? node.over : []).forEach((range) => found.set(range.rest ? "..." : range.var, range));
  Object.values(node).forEach((each) => rangesOf(each, found));
  return found;
}

async function onwardList(app, ref, index) {
  const places = await onward(app, ref, index);
  if (!places.length) return null;
  const { doc } = app.state.get();
  const rows = places.map(({ ref: to, op, name, index: at, number }) => {
    const text = at ? `${symbolText(name)}[${at.join(", ")}] = ` : symbolText(name);
    const link = at ? numberLink(app, to, at, number) : null;
    if (parseRef(ref).kind === "contribution") return h("li", {}, t("number.into", { title: valueOf(doc, ref).title }), " ", link);
    return h("li", {}, opLink(app, op), " ", h("span", { class: "mono" }, text), link);
  });
  const kind = isGradient(ref) ? "gradient" : "value";
  return h("section", { class: "onward" }, h("h3", {}, t(`number.onward.${kind}`)), h("ul", {}, rows));
}
