// One number: the chosen cell with its place, where it comes from (the formula with its numbers, each of them a link),
// and where it goes on to. Following the links leads from the loss to an embedding, and back.

import { h, replace } from "explorer/dom";
import { formatNumber, fullNumber } from "explorer/format";
import { t } from "explorer/strings";
import { derivationOf } from "explorer/derivation";
import { addressOf, follow, numberLink, opLink } from "explorer/links";
import { exists } from "explorer/existing";
import { legendOfMarks } from "explorer/legend_of_marks";
import { light } from "explorer/highlighted_cells";
import { lookup } from "explorer/lookup";
import { isNoise, largestGradient, largestIn } from "explorer/noise";
import { isSum, nameInPanel, originOf } from "explorer/number_origin";
import { onward } from "explorer/uses_of_number";
import { gradientRef, indexText, isGradient, parseRef, shortName, valueOf } from "explorer/refs";
import { pathList, pathOf } from "explorer/path_list";
import { showPath } from "explorer/shown_path";
import { singleKey } from "explorer/single_key";
import { symbolText } from "explorer/symbols";

const SMALLEST_TYPE = 0.7; // of the panel's

export function start(root, app) {
  const { state } = app;
  let turn = 0;
  let first = true; // a page that opens at a number is quiet

  async function draw(now) {
    turn += 1;
    const mine = turn;
    const focused = root.contains(document.activeElement);
    const content = await contentOf(app, now).catch((error) => ({ nodes: h("p", { class: "note" }, error.message) }));
    if (mine !== turn) return;
    replace(root, content.nodes, legendOfMarks(!content.index));
    root.querySelectorAll(".formula").forEach(fit);
    const heading = root.querySelector("h2");
    if (focused && heading) heading.focus();
    root.parentElement.scrollTop = 0; // a new number is read from its name, however far down the last one was read
    showPath([], false);
    if (!content.index) return;
    const onwards = await onwardList(app, now.ref, content.index).catch(() => null); // the search takes longer
    const legend = root.querySelector(".marks-legend");
    if (mine === turn && onwards) legend.before(onwards);
    const path = await pathOf(app, now.ref, content.index).catch(() => []);
    if (mine !== turn || !path.length) return;
    legend.before(pathList(app, path));
    showPath(path, !now.stepped && !first);
    first = false;
  }

  root.addEventListener("keydown", (event) => {
    if (event.key !== "Escape") return;
    const cell = document.querySelector("#view-component .has-chosen .heatmap-rings");
    if (cell) cell.focus();
  });
  draw(state.get());
  state.subscribe((now, before) => {
    const moved =
      now.ref !== before.ref ||
      now.op !== before.op ||
      String(now.index) !== String(before.index) ||
      now.doc !== before.doc;
    if (moved || known(now) !== known(before)) draw(now);
  });
}

// Whether backward has reached the chosen number, whose path then can be seen.
function known({ doc, ref, at }) {
  const value = doc && ref ? parseRef(ref).value : null;
  return Boolean(value) && exists({ doc, at }, gradientRef(value));
}

// A formula that is wider than the panel is set smaller; one that is far too wide scrolls.
function fit(formula) {
  const share = formula.clientWidth / Math.max(1, formula.scrollWidth);
  if (share > 0 && share < 1) formula.style.fontSize = `${Math.max(SMALLEST_TYPE, 0.98 * share)}em`;
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
  const key = await singleKey(app, ref, index, number).catch(() => null); // a server that has ended explains nothing
  const name = nameInPanel(app, ref) || derivation.target || shortName(doc, ref);
  const side = isGradient(ref) ? "is-gradient" : "is-value";
  return {
    index,
    nodes: [
      heading(app, { ref, index, number, info, name }),
      key && h("p", { class: "single-key" }, t("number.single_key", { key })),
      h("div", { class: `origin ${side}` }, origin.nodes),
    ],
  };
}

// A single number, such as the loss, needs no index.
function chosenIndex(info, index) {
  if (!info) return null;
  return info.shape.length === 0 ? [] : index;
}

// Name, number and place in words, and the way to the other side: from a value to its gradient and back.
function heading(app, { ref, index, number, info, name }) {
  const place = index.length ? `[${index.join(", ")}]` : "";
  const { doc } = app.state.get();
  const value = valueOf(doc, ref);
  const kind = isGradient(ref) ? "gradient" : "value";
  const noise = isNoise(app.store, doc, ref, info);
  return h(
    "header",
    { class: `number-head is-${kind}` },
    h(
      "h2",
      { tabindex: "-1" },
      h("span", { class: "mono" }, `${symbolText(name)}${place}`),
      " = ",
      h(
        "span",
        {
          class: "number",
          title: fullNumber(number),
          "data-ref": ref,
          "data-cell": index.join(","),
          "data-value": String(number),
        },
        formatNumber(number, 4),
      ),
    ),
    h("p", { class: "note" }, caption(doc, ref, value ? value.title : ref)),
    h("p", { class: "note" }, indexText(doc, ref, info.shape, index)),
    noise && h("p", { class: "noise" }, t("number.noise", sizes(app.store, doc, info))),
    otherSide(app, ref, index),
  );
}

// What the number is. Where several operations use a value, the part of one of them and the whole gradient are told apart.
function caption(doc, ref, title) {
  const { kind, op } = parseRef(ref);
  if (kind === "contribution") {
    const sender = lookup(doc).op(op);
    return t("number.kind.part", { title, op: sender ? placeTitle(doc, sender) : op });
  }
  if (isSum(doc, ref)) return t("number.kind.sum", { title, n: derivationOf(doc, ref).parts.length });
  return t(isGradient(ref) ? "number.kind.gradient" : "number.kind.value", { title });
}

// "block 0, norm1"
function placeTitle(doc, op) {
  const look = lookup(doc);
  const names = [...look.ancestors(op.id).map((id) => look.group(id).label), op.label === "+" ? t("number.plus") : op.label];
  return names.slice(-2).join(", ");
}

function sizes(store, doc, info) {
  return { largest: formatNumber(largestIn(info), 2), step: formatNumber(largestGradient(store, doc), 2) };
}

function otherSide(app, ref, index) {
  const { kind, value } = parseRef(ref);
  const other = kind === "value" ? gradientRef(value) : value;
  if (!app.store.info(other)) return kind === "value" ? h("p", { class: "note" }, t("number.no_gradient")) : null;
  const { op, view } = app.state.get();
  const place = { op, view, ref: other, index };               // the time line follows to where the gradient is computed
  return h(
    "p",
    {},
    h(
      "a",
      { href: addressOf(app, place), onclick: follow(app, place) },
      t(kind === "value" ? "number.to_gradient" : "number.to_value"),
    ),
  );
}

async function onwardList(app, ref, index) {
  const places = await onward(app, ref, index);
  if (!places.length) return null;
  const { doc } = app.state.get();
  const rows = places.map(({ ref: to, op, name, index: at, number }) => {
    const text = at ? `${symbolText(name)}${at.length ? `[${at.join(", ")}]` : ""} = ` : symbolText(name);
    const link = at ? numberLink(app, to, at, number) : null;
    if (parseRef(ref).kind === "contribution")
      return h("li", {}, t("number.into", { title: valueOf(doc, ref).title }), " ", link);
    return h("li", {}, opLink(app, op), " ", h("span", { class: "mono" }, text), link);
  });
  const kind = isGradient(ref) ? "gradient" : "value";
  return h("section", { class: "onward" }, h("h3", {}, t(`number.onward.${kind}`)), h("ul", {}, rows));
}
