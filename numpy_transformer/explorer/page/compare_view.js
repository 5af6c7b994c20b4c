// What the edits changed: the first changed value and gradient, all changed arrays, and one of them right and wrong
// side by side with their difference.

import { h } from "explorer/dom";
import { axisName, t } from "explorer/strings";
import { formatNumber } from "explorer/format";
import { unravel } from "explorer/array_view";
import { bars } from "explorer/bars";
import { smallMatrix } from "explorer/small_matrix";
import { scaleLegend } from "explorer/scale_legend";
import { saveButton } from "explorer/svg_export";
import { selectField } from "explorer/panel";
import { changesOf, firstChanges } from "explorer/compare";
import { editTitle } from "explorer/edit_list";

const SHOWN = 30;                             // arrays in the list
const WINDOW = 32;                            // rows and columns of the heatmaps

/** The section "What changed". own remembers which array and which slice of it is shown; draw redraws the panel. */
export async function compareView(app, own, draw) {
  const { doc, base: original, edits } = app.state.get();
  if (!original || original.id === doc.id) return null;
  const several = edits.filter(({ kind }) => kind !== "text").length > 1;
  const latest = several && own.against === "latest";
  const base = latest ? await withoutLatest(app, own, edits) : original;
  if (own.comparedWith !== base || own.compared !== doc) {
    own.changes = await changesOf(app.store, base, doc);
    Object.assign(own, { compared: doc, comparedWith: base });
  }
  const { changes } = own;
  const title = [h("h3", {}, t("changes.title")), several && againstField(app, own, edits, draw)];
  if (!changes.length) return h("section", { class: "changes" }, title, h("p", {}, t("changes.none")));
  const first = firstChanges(doc, changes);
  const find = (wanted) => changes.find(({ ref }) => ref === wanted);
  const shown = find(own.ref) ?? find(firstRef(first)) ?? changes[0];
  const show = async (ref) => {
    Object.assign(own, { ref, slice: null });
    await draw();
    document.querySelector(".changed-array")?.scrollIntoView({ block: "nearest" });      // it may stand below the list
  };
  const op = [first.forward, first.backward].find((found) => found?.ref === shown.ref)?.op;
  const pair = { base, latest, op };
  const picture = await sideBySide(app, own, shown, pair, draw);
  return h("section", { class: "changes" }, title, sentences(first, changes, show),
    h("div", { class: "changes-columns" }, changeList(changes.filter(({ via }) => !via), shown, show), picture));
}

/** Leads from the bar at the top to the section "What changed", which may be far below. */
export function changesLink({ changes }) {
  const go = () => document.querySelector("#view-hands-on .changes")?.scrollIntoView({ block: "start" });
  return h("p", { class: "changes-link" }, changes.length ? t("changes.count", { n: changes.filter(({ via }) => !via).length }) : t("changes.none"), " ",
    changes.length > 0 && h("button", { type: "button", class: "link", "data-key": "to-changes", id: "to-changes", onclick: go },
      t("changes.go")));
}

/** The document with all edits but the latest one; it is asked for once. */
async function withoutLatest(app, own, edits) {
  const key = JSON.stringify(edits.slice(0, -1));
  if (own.earlier?.key !== key) own.earlier = { key, doc: await app.store.documentOf(edits.slice(0, -1)) };
  return own.earlier.doc;
}

function againstField(app, own, edits, draw) {
  const { doc } = app.state.get();
  const options = [["original", t("changes.against.original")],
    ["latest", t("changes.against.latest", { edit: editTitle(edits[edits.length - 1], doc.hands_on) })]];
  const choose = (value) => { Object.assign(own, { against: value, ref: null, slice: null }); draw(); };
  return h("div", { class: "controls" }, selectField(t("changes.against"), "against", options, own.against, choose));
}

function firstRef({ forward, backward }) {
  return (forward ?? backward ?? { ref: null }).ref;
}

function sentences({ forward, backward }, changes, show) {
  const link = ({ ref }) => h("button", { type: "button", class: "link", "data-key": `first-${ref}`, "data-first": ref,
    onclick: () => show(ref) }, titleOf(changes.find((change) => change.ref === ref)));
  const lines = [];
  if (forward) lines.push([t("changes.first_forward"), " ", link(forward), "."]);
  else lines.push([t("changes.forward_same")]);
  if (backward) lines.push([t("changes.first_backward"), " ", link(backward), "."]);
  else lines.push([t("changes.backward_same")]);
  return lines.map((line) => h("p", {}, line));
}

function titleOf({ value, kind, via }) {
  const title = kind === "gradient" ? `dL/d(${value.title})` : value.title;
  return via ? t("changes.via", { title, op: via }) : title;
}

function changeList(changes, shown, show) {
  const limit = Math.max(...changes.map(({ relative }) => relative).filter(Number.isFinite), 1e-30);
  const items = changes.slice(0, SHOWN).map((change) => ({
    label: titleOf(change), number: Math.min(limit, change.relative), text: amount(change), marked: change === shown,
    kind: change.kind, ref: change.ref, title: `${titleOf(change)}: ${amount(change)}`,
  }));
  const rest = changes.length > SHOWN && h("p", { class: "note" }, t("changes.more", { n: changes.length - SHOWN }));
  const name = t("changes.list", { n: changes.length });
  return h("div", { class: "change-list" }, h("h4", {}, name),
    bars(items, { limit, name, key: "change", choose: ({ ref }) => show(ref) }), rest);
}

function amount({ relative, rough }) {
  if (relative === Infinity) return t("changes.from_zero");
  const text = relative >= 100 ? `${formatNumber(relative)}×` : `${formatNumber(100 * relative)} %`;
  return rough ? `≈ ${text}` : text;
}

/** One array of both documents, and their difference, as small heatmaps of the slice with the largest difference. */
async function sideBySide(app, own, change, { base, latest, op }, draw) {
  const { doc, large } = app.state.get();
  const { shape } = app.store.info(change.ref, doc);
  const at = unravel(change.at, shape);
  const leading = own.slice ?? at.slice(0, Math.max(0, shape.length - 2));
  const [rows, columns] = windows(shape, at);
  const index = [...leading, ...(shape.length > 1 ? [rows, columns] : shape.map(() => columns))];
  const right = (await app.store.slice(change.ref, index, base)).data;
  const wrong = (await app.store.slice(change.ref, index, doc)).data;
  const width = columns[1] - columns[0];
  const arrays = { right, wrong, difference: wrong.map((x, i) => (x === right[i] ? 0 : x - right[i])) };
  const limit = largest([...right, ...wrong]);
  const limits = { right: limit, wrong: limit, difference: largest(arrays.difference) };
  const last = (i, j) => (shape.length > 1 ? [i + rows[0], j + columns[0]] : shape.map(() => j + columns[0]));
  const place = (i, j) => [...leading, ...last(i, j)];
  const output = h("p", { class: "cell-readout", role: "status", "aria-live": "polite" }, t("changes.hint"));
  const [rowNames, columnNames] = names(doc, change.value, shape, rows, columns, leading);
  const captions = { right: t(latest ? "changes.right.latest" : "changes.right"), wrong: t("changes.wrong"), difference: t("changes.difference") };
  const figure = (name) => h("figure", {}, h("figcaption", {}, captions[name]), keyed(`compare-${name}`, smallMatrix({
    name: `${captions[name]}: ${titleOf(change)}`, kind: change.kind, limit: limits[name], rows: rowNames,
    columns: columnNames, large, ref: change.ref, cell: place, chosen: null,
    value: (i, j) => arrays[name][i * width + j], masked: (i, j) => arrays[name][i * width + j] === -Infinity,
    describe: (i, j) => t("changes.cell", { index: place(i, j).join(", "), right: formatNumber(right[i * width + j]),
      wrong: formatNumber(wrong[i * width + j]) }),
    hover: (i, j, sentence) => { output.textContent = i === null ? t("changes.hint") : sentence; },
    choose: (i, j) => app.state.update({ ref: change.ref, index: place(i, j) }),
  })));
  const figures = h("div", { class: "side-by-side" }, ["right", "wrong", "difference"].map(figure));
  const title = titleOf(change);
  const scales = h("div", { class: "legends" }, scaleLegend(t("changes.both"), change.kind, limit),
    scaleLegend(t("changes.difference"), change.kind, limits.difference));
  const open = () => app.state.update({ view: "component", ref: change.ref, index: at, ...(op ? { op: op.id } : {}) });
  return h("div", { class: "changed-array" }, h("h4", {}, title, " ", saveButton(title, () => figures, () => [scales])),
    h("p", {}, h("button", { type: "button", class: "link", "data-key": "open-changed", id: "open-changed", onclick: open },
      t("changes.open"))),
    axisFields(doc, change.value, shape, leading, own, draw), figures, output,
    scales);
}

function keyed(key, element) {
  element.setAttribute("data-key", key);
  return element;
}

/** The ranges of rows and columns that are shown: around the largest difference if the array is larger than the window. */
function windows(shape, at) {
  const range = (axis) => {
    if (axis < 0) return [0, 1];
    const start = Math.max(0, Math.min(shape[axis] - WINDOW, at[axis] - WINDOW / 2));
    return [start, Math.min(shape[axis], start + WINDOW)];
  };
  return [range(shape.length - 2), range(shape.length - 1)];
}

function largest(numbers) {
  return Math.max(...Array.from(numbers, (x) => (Number.isFinite(x) ? Math.abs(x) : 0)), 1e-30);
}

function names(doc, value, shape, rows, columns, leading) {
  const batch = shape.length > 2 && value.axes[0].name === "batch" ? leading[0] : 0;
  const of = (axis, [start, stop]) => Array.from({ length: stop - start }, (_, i) => {
    const tokens = axis >= 0 && value.axes[axis] && value.axes[axis].tokens;
    const row = tokens && (doc.tokens[tokens] ?? [])[batch];
    return axis < 0 ? "" : String((row ?? [])[start + i] ?? start + i);
  });
  return [of(shape.length - 2, rows), of(shape.length - 1, columns)];
}

/** A list for each leading axis (batch, head) that has more than one entry. */
function axisFields(doc, value, shape, leading, own, draw) {
  const fields = leading.map((chosen, axis) => {
    const choose = (i) => { own.slice = leading.map((old, other) => (other === axis ? i : old)); draw(); };
    const options = Array.from({ length: shape[axis] }, (_, i) => [i, String(i)]);
    const label = axisName(value.axes[axis] ?? { name: `axis ${axis}` });
    return shape[axis] > 1 && selectField(label, `compare-axis-${axis}`, options, chosen, choose);
  });
  return fields.some(Boolean) && h("div", { class: "controls" }, fields);
}
