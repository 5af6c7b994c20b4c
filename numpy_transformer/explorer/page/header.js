// The header: text and target, the model, the loss, and the switches of the page.

import { button, h, replace, s } from "explorer/dom";
import { editTitle, editing } from "explorer/edit_list";
import { formatCount, formatNumber } from "explorer/format";
import { t } from "explorer/strings";

const HALVES = { auto: "M8 2a6 6 0 0 0 0 12z", light: "", dark: "M8 2a6 6 0 0 0 0 12a6 6 0 0 0 0-12z" };

export function start(root, app) {
  const { state, store } = app;
  const facts = h("div", { class: "facts" });
  const form = store.live ? textForm(app) : savedText(app);
  const hasStep = state.get().doc.loss_value !== null;       // a loss that is not finite is null as well
  const title = t(hasStep ? "header.title" : "header.variables");
  replace(root, h("h1", {}, title), form.element, facts, editedNote(app), switches(app));

  function draw(now) {
    const { doc } = now;
    document.title = `${title}: ${doc.title}`;
    if (!hasStep) {
      replace(facts, h("span", { class: "model" }, doc.title));
      return;
    }
    replace(facts,
      h("span", { class: "model", title: `${doc.title} (${doc.model.class})` }, doc.title),
      h("span", { class: "count" }, t("header.parameters", { n: doc.model.parameters, count: formatCount(doc.model.parameters) })),
      h("span", { class: "loss", "data-value": doc.loss }, `${t(isSum(doc) ? "header.sum" : targetsOf(doc).length > 1 ? "header.mean" : "header.loss")} `, h("b", {}, formatNumber(doc.loss, 4))));
    form.draw(now);
  }
  draw(state.get());
  state.subscribe((now, before) => {
    if (now.doc !== before.doc || now.busy !== before.busy) {
      draw(now);
    }
  });
}

// With a server: the text and the target can be changed. A text edit replaces the earlier one; the other edits stay.
function textForm({ state, store }) {
  const text = h("input", { id: "text", name: "text", autocomplete: "off", spellcheck: "false" });
  const target = h("input", { id: "target", name: "target", autocomplete: "off", spellcheck: "false" });
  const go = h("button", { type: "submit" }, t("header.compute"));
  const field = (name, input) => h("label", { class: "field", for: name }, h("span", {}, t(`header.${name}`)), input);
  const targetField = field("target", target);
  let shown = {};

  async function submit(event) {
    event.preventDefault();
    const { edits } = state.get();
    const others = edits.filter((other) => other.kind !== "text");
    const edit = { kind: "text", text: text.value };
    const earlier = edits.find((other) => other.kind === "text");
    if (target.value !== shown.target) {
      edit.target = target.value || undefined;           // an empty field asks for the default target
    } else if (text.value === shown.text) {
      edit.target = earlier?.target;                     // another text has another target: the default again
    }
    try {
      await store.edit([edit, ...others]);
    } catch (error) {
      (text.value === shown.text ? target : text).focus();          // the status bar shows the sentence
    }
  }

  function draw({ doc, busy }) {
    const now = { text: doc.hands_on?.text ?? "", target: doc.hands_on?.target ?? null };
    if (now.text !== shown.text) {
      text.value = now.text;
      text.title = now.text;
    }
    if (now.target !== shown.target) {
      target.value = now.target ?? "";
    }
    targetField.hidden = now.target === null;
    targetField.title = doc.tokens?.note ?? "";
    target.placeholder = t("header.target.automatic", { target: targetsOf(doc).join(" ") });
    shown = now;
    go.disabled = busy;
    go.textContent = t(busy ? "header.computing" : "header.compute");
  }

  return { element: h("form", { class: "text", onsubmit: submit }, field("text", text), targetField, go), draw };
}

// Says in every view that the model is not the given one, and takes the latest edit back. The text is seen in its field.
function editedNote(app) {
  const { state } = app;
  const { undo } = editing(app);
  const note = h("span", { id: "edited", class: "edited" });

  function draw({ doc, edits, busy }) {
    const mine = edits.filter(({ kind }) => kind !== "text");
    note.hidden = mine.length === 0;
    if (note.hidden) {
      if (note.contains(document.activeElement)) {
        document.getElementById("panel").focus();
      }
      replace(note);
      return;
    }
    const count = t("header.edits", { n: mine.length });
    const list = button(count, () => state.update({ view: "hands-on" }), { class: "link", id: "edited-count" });
    list.title = mine.map((edit) => editTitle(edit, doc.hands_on)).join("\n");
    const back = button(t("header.undo"), undo, { class: "link", id: "edited-undo", label: t("header.undo.name") });
    const focused = note.contains(document.activeElement) ? document.activeElement.id : null;
    replace(note, list, h("span", { "aria-hidden": "true" }, " · "), back);
    note.classList.toggle("busy", busy);
    if (focused) {
      document.getElementById(focused).focus();
    }
  }
  draw(state.get());
  state.subscribe((now, before) => {
    if (now.doc !== before.doc || now.edits !== before.edits) {
      draw(now);
    }
  });
  return note;
}

// In a saved page: the tokens as they are.
function savedText() {
  const element = h("div", { class: "text saved", title: t("header.saved") });

  function draw({ doc }) {
    const row = (name, tokens, note) => tokens?.length > 0
      && h("span", { class: "field", title: [tokens.join(" "), note].filter(Boolean).join(". ") },
        h("span", {}, t(`header.${name}`)), h("span", { class: "tokens" }, tokens.map((token) => h("span", {}, token))));
    replace(element, row("text", doc.tokens?.source?.[0]), row("target", targetsOf(doc), doc.tokens?.note));
  }
  return { element, draw };
}

// The targets of the first text; a place whose target is empty does not count in the loss.
// Without a criterion, backward starts from the sum of all entries of the output.
function isSum(doc) {
  return doc.ops.some((op) => op.kind === "sum" && op.outputs.y === doc.loss_value);
}

function targetsOf(doc) {
  return ((doc.tokens?.targets ?? doc.tokens?.target ?? [])[0] ?? []).filter(Boolean);
}

// From the system's colors to the other ones, so that the first click changes something, then to the same ones, fixed, and back.
function followers() {
  const [own, other] = window.matchMedia("(prefers-color-scheme: dark)").matches ? ["dark", "light"] : ["light", "dark"];
  return { auto: other, [other]: own, [own]: "auto" };
}

// One button goes through automatic, light and dark; its name says which of them holds.
function themeButton({ state }) {
  const next = () => followers()[state.get().theme];
  const switcher = button("", () => state.update({ theme: next() }, { replace: true }), { id: "theme", class: "icon" });
  const draw = ({ theme }) => {
    const name = `${t("header.theme")}: ${t(`header.theme.${theme}`)}`;
    switcher.setAttribute("aria-label", name);
    switcher.title = name;
    switcher.dataset.theme = theme;
    replace(switcher, s("svg", { viewBox: "0 0 16 16", "aria-hidden": "true" },
      s("circle", { cx: 8, cy: 8, r: 6, class: "ring" }), s("path", { d: HALVES[theme] })));
  };
  draw(state.get());
  state.subscribe((now, before) => now.theme !== before.theme && draw(now));
  return switcher;
}

function switches(app) {
  const { state } = app;
  const texts = [h("span", { class: "long" }, t("header.large")), h("span", { class: "short", "aria-hidden": "true" }, "Aa")];
  const large = button(texts, () => state.update({ large: !state.get().large }, { replace: true }), { id: "large", label: t("header.large") });
  const press = (now) => large.setAttribute("aria-pressed", String(Boolean(now.large)));
  press(state.get());
  state.subscribe(press);
  return h("div", { class: "switches" }, button(t("header.stories"), () => {}, { id: "stories", "aria-expanded": "false", "aria-controls": "story" }), large, themeButton(app));
}
