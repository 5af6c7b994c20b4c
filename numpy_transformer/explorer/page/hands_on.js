// The panel “What if”: switch parts off, set a weight, plant a bug, take optimizer steps, and see what changes.
// It needs the server; a saved page says how to start it.

import { button, h } from "explorer/dom";
import { t } from "explorer/strings";
import { formatNumber } from "explorer/format";
import { lookup } from "explorer/lookup";
import { changesLink, compareView } from "explorer/compare_view";
import { editList, editing } from "explorer/edit_list";
import { movedTable } from "explorer/weight_changes";
import { drawWhen, problem, redrawer, selectField, withCode } from "explorer/panel";

const SWITCHES = [["head", "heads"], ["block", "blocks"], ["mask", "masks"], ["scale", "scales"], ["residual", "residuals"]];
const SAME = 1e-12;                           // relative: a loss that has not moved
const RATES = { sgd: "0.01", adam: "0.001" };  // Adam moves every weight by about its learning rate, whatever the gradient is

export function start(root, app) {
  const own = { bug: null, optimizer: "sgd", lr: { ...RATES }, ref: null, slice: null, against: "original", switches: false, all: false };
  const actions = editing(app);
  own.draw = redrawer(root, () => build(app, own, actions), problem);
  drawWhen(app, "hands-on", ["doc", "edits", "ref", "index", "large"], own.draw);
}

function savedPage({ store }, doc) {
  return [
    store.comparisons().length > 0 && h("p", {}, t("hands.saved_stories")),
    h("p", {}, t("hands.saved")),
    h("pre", { class: "command" }, h("code", {}, doc.command)),
    h("p", {}, withCode(t("hands.saved_more"))),
  ].filter(Boolean);
}

async function build(app, own, actions) {
  const { doc } = app.state.get();
  const hands = doc.hands_on;
  const changes = await compareView(app, own, own.draw);
  if (!hands) return savedPage(app, doc);
  const list = editList(app, actions, changes && changesLink(own));
  if (!app.store.live) return [...list, changes, movedTable(app, own), ...savedPage(app, doc)].filter(Boolean);
  return [
    ...list,
    h("div", { class: "hands" }, stepSection(own, actions), weightSection(app, actions)),
    bugSection(own, actions, hands),
    switchSection(own, actions, hands),
    movedTable(app, own),
    changes,
  ].filter(Boolean);
}

/** One step of an optimizer. */
function stepSection(own, actions) {
  const optimizers = ["sgd", "adam"].map((name) => [name, t(`edit.optimizer.${name}`)]);
  const rate = numberField(t("hands.lr"), "lr", own.lr[own.optimizer], (value) => { own.lr[own.optimizer] = value; });
  const take = (event) => {
    event.preventDefault();
    actions.add({ kind: "step", optimizer: own.optimizer, lr: Number(own.lr[own.optimizer]) });
  };
  return section("step", h("form", { class: "controls", onsubmit: take },
    selectField(t("hands.optimizer"), "optimizer", optimizers, own.optimizer, (value) => { own.optimizer = value; own.draw(); }), rate,
    h("button", { type: "submit", "data-key": "take-step", id: "take-step" }, t("hands.take_step"))));
}

function section(name, ...children) {
  return h("section", { class: `hands-${name}` }, h("h3", {}, t(`hands.${name}`)), ...children);
}

function numberField(label, key, value, changed) {
  const input = h("input", { type: "number", step: "any", required: true, value, "data-key": key, id: `hands-${key}`,
    oninput: () => changed(input.value) });
  return h("label", { class: "choice" }, h("span", {}, label), input);
}

/** One bug of the zoo, with its symptom. */
function bugSection(own, actions, hands) {
  const bugs = hands.bugs ?? [];
  if (!bugs.length) return section("bug", h("p", { class: "hint" }, t("hands.no_bugs")));
  const planted = actions.edits().find(({ kind }) => kind === "bug");
  const options = byEffect(bugs);
  const chosen = bugs.find(({ name }) => name === (own.bug ?? planted?.name ?? options[0][0]));
  const edit = { kind: "bug", name: chosen.name };
  const there = actions.has(edit);
  const toggle = button(t(there ? "hands.remove_bug" : "hands.apply"),
    () => (there ? actions.remove(edit) : actions.add(edit)), { "data-key": "bug", id: "plant-bug" });
  return section("bug", h("div", { class: "controls" },
    selectField(t("hands.which_bug"), "which-bug", options, chosen.name,
      (name) => { own.bug = name; own.draw(); }), toggle),
  h("p", { class: "note" }, t("hands.symptom", { symptom: chosen.symptom })));
}

/**
 * The bugs as options of a list: first those that move the loss, the one that moves it most at their head; then those that only
 * spoil gradients. In a large model they have not been tried, and stand by their topics.
 */
function byEffect(bugs) {
  const tried = bugs.every(({ change }) => Number.isFinite(change));
  if (!tried) {
    const topics = [...new Set(bugs.map(({ topic }) => topic))];
    return topics.flatMap((topic) => bugs.filter((bug) => bug.topic === topic).map(({ name, title }) => [name, title, topic]));
  }
  const moves = ({ change, loss }) => Math.abs(change) > SAME * Math.abs(loss);
  const loud = bugs.filter(moves).sort((a, b) => Math.abs(b.change) - Math.abs(a.change));
  const silent = bugs.filter((bug) => !moves(bug)).sort((a, b) => b.gradients - a.gradients);
  const change = (bug) => `${bug.change > 0 ? "+" : ""}${formatNumber(bug.change, 2)}`;
  return [...loud.map((bug) => [bug.name, t("hands.loud", { title: bug.title, change: change(bug) }), t("hands.breaks.loss")]),
    ...silent.map((bug) => [bug.name, bug.title, t("hands.breaks.gradients")])];
}

/** A switch for each part that can be switched off; "on" is the model as it was trained. */
function switchSection(own, actions, hands) {
  const rows = SWITCHES.flatMap(([what, list]) => {
    const entries = (hands.can ?? {})[list] ?? [];
    if (!entries.length) return [];
    const boxes = entries.map((entry) => switches(what, entry, actions));
    return [h("fieldset", {}, h("legend", {}, t(`hands.parts.${what}`)), boxes)];
  });
  if (!rows.length) return null;
  const remember = () => { own.switches = details.open; };
  const summary = h("summary", { "data-key": "switches", id: "switches" }, h("h3", {}, t("hands.switch")),
    h("span", { class: "note" }, t("hands.switch_what")));
  const details = h("details", { class: "hands-switch", open: own.switches, ontoggle: remember }, summary,
    h("p", { class: "note" }, t("hands.switch_hint")), h("div", { class: "switches-grid" }, rows));
  return details;
}

function switches(what, entry, actions) {
  const edit = { kind: "off", what, group: entry.group };
  if (what === "head") {
    const boxes = Array.from({ length: entry.count }, (_, head) =>
      box(t("attention.head", { n: head }), { ...edit, head }, actions));
    return h("div", { class: "switch-row", role: "group", "aria-label": entry.title }, h("span", {}, entry.title), boxes);
  }
  if (what === "residual") edit.sublayer = entry.sublayer;
  return h("div", { class: "switch-row" }, box(entry.title, edit, actions));
}

function box(label, edit, actions) {
  const key = ["off", edit.what, edit.group, edit.head ?? edit.sublayer ?? ""].join(" ").trim();
  const input = h("input", { type: "checkbox", checked: !actions.has(edit), "data-key": key,
    onchange: () => (input.checked ? actions.remove(edit) : actions.add(edit)) });
  return h("label", { class: "switch" }, input, h("span", {}, label));
}

/** Sets the chosen entry of a parameter to a number. */
function weightSection(app, actions) {
  const { doc, ref, index } = app.state.get();
  const value = ref && lookup(doc).value(ref.replace(/^grad /, ""));
  if (!value || value.kind !== "parameter" || !index) {
    return section("weight", h("p", { class: "hint" }, t("hands.weight_hint")));
  }
  const place = `${value.id}[${index.join(", ")}]`;
  const holder = section("weight", h("p", { class: "hint" }, t("hands.reading")));
  app.store.slice(value.id, index).then(({ data }) => {
    let number = String(Number(data[0].toPrecision(6)));
    const set = (event) => {
      event.preventDefault();
      actions.add({ kind: "weight", value: value.id, index, number: Number(number) });
    };
    holder.replaceChildren(h("h3", {}, t("hands.weight")), h("form", { class: "controls", onsubmit: set },
      numberField(place, "weight", number, (text) => { number = text; }),
      h("button", { type: "submit", "data-key": "set-weight" }, t("hands.set_weight"))),
    h("p", { class: "note" }, t("hands.weight_now", { number: formatNumber(data[0]) })));
  }).catch((error) => holder.replaceChildren(...problem(error)));
  return holder;
}
