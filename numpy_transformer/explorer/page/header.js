// The header: text and target, the model, the loss, and the switches of the page.

import { button, h, replace } from "explorer/dom";
import { formatCount, formatNumber } from "explorer/format";
import { t } from "explorer/strings";

export function start(root, app) {
  const { state, store } = app;
  const facts = h("div", { class: "facts" });
  const form = store.live ? textForm(app) : savedText(app);
  replace(root, h("h1", {}, t("header.title")), form.element, facts, switches(app));

  function draw(now) {
    const { doc } = now;
    document.title = `${t("header.title")}: ${doc.title}`;
    replace(facts,
      h("span", { class: "model" }, doc.title),
      h("span", {}, t("header.parameters", { n: doc.model.parameters, count: formatCount(doc.model.parameters) })),
      h("span", { class: "loss", "data-value": doc.loss }, `${t("header.loss")} `, h("b", {}, formatNumber(doc.loss, 4))));
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
    const edit = { kind: "text", text: text.value };
    if (target.value !== shown.target) {
      edit.target = target.value;
    }
    const others = state.get().edits.filter((other) => other.kind !== "text");
    try {
      await store.edit([edit, ...others]);
    } catch (error) {
      text.focus();          // the status bar shows the sentence
    }
  }

  function draw({ doc, busy }) {
    const now = { text: doc.hands_on?.text ?? "", target: doc.hands_on?.target ?? null };
    if (now.text !== shown.text) {
      text.value = now.text;
    }
    if (now.target !== shown.target) {
      target.value = now.target ?? "";
    }
    targetField.hidden = now.target === null;
    shown = now;
    go.disabled = busy;
    go.textContent = t(busy ? "header.computing" : "header.compute");
  }

  return { element: h("form", { class: "text", onsubmit: submit }, field("text", text), targetField, go), draw };
}

// In a saved page: the tokens as they are.
function savedText() {
  const element = h("div", { class: "text saved", title: t("header.saved") });

  function draw({ doc }) {
    const row = (name, tokens) => tokens?.length > 0 && h("span", { class: "field" },
      h("span", {}, t(`header.${name}`)), h("span", { class: "tokens" }, tokens[0].map((token) => h("span", {}, token))));
    replace(element, row("text", doc.tokens?.source), row("target", doc.tokens?.target));
  }
  return { element, draw };
}

function switches({ state }) {
  const theme = h("select", { id: "theme", "aria-label": t("header.theme"),
                              onchange: () => state.update({ theme: theme.value }, { replace: true }) },
    ["auto", "light", "dark"].map((name) => h("option", { value: name }, t(`header.theme.${name}`))));
  const large = button(t("header.large"), () => state.update({ large: !state.get().large }, { replace: true }), { id: "large" });
  const press = (now) => large.setAttribute("aria-pressed", String(Boolean(now.large)));
  press(state.get());
  state.subscribe(press);
  return h("div", { class: "switches" }, button(t("header.tour"), () => {}, { id: "tour-start" }), large, theme);
}
