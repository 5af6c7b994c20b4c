// The list of edits, with undo, redo and reset. An edit is an entry of FORMAT.md's "Hands on".

import { button, h } from "explorer/dom";
import { t } from "explorer/strings";
import { formatNumber } from "explorer/format";

/** The actions on the list of edits. `app.undone` keeps the edits that were undone, until a new one is made. */
export function editing(app) {
  const edits = () => app.state.get().edits;
  const undone = () => app.undone ?? [];
  const apply = async (list, redo = []) => {
    if (app.state.get().busy) return;         // one edit at a time; buttons that went gray would lose the focus
    const before = undone();
    app.undone = redo;                        // before the edit, because the new document draws the buttons
    try {
      await app.store.edit(list);
    } catch (error) {
      app.undone = before;                    // the status bar shows the sentence; everything stays as it was
    }
  };
  return {
    edits, undone, apply,
    add: (edit) => apply([...edits(), edit]),
    remove: (wanted) => apply(edits().filter((edit) => !sameEdit(edit, wanted))),
    undo: () => apply(edits().slice(0, -1), [...undone(), edits()[edits().length - 1]]),
    redo: () => apply([...edits(), undone()[undone().length - 1]], undone().slice(0, -1)),
    reset: () => apply([]),
    has: (wanted) => edits().some((edit) => sameEdit(edit, wanted)),
  };
}

function sameEdit(a, b) {
  const keys = new Set([...Object.keys(a), ...Object.keys(b)]);
  return [...keys].every((key) => JSON.stringify(a[key]) === JSON.stringify(b[key]));
}

/** What an edit does, in words. */
export function editTitle(edit, hands) {
  const titles = Object.values(hands.can ?? {}).flat();
  const title = (group) => titles.find((entry) => entry.group === group)?.title ?? group;
  const bug = (hands.bugs ?? []).find(({ name }) => name === edit.name);
  const texts = {
    text: () => t("edit.text", { text: edit.text }),
    weight: () => t("edit.weight", { value: edit.value, index: edit.index.join(", "), number: formatNumber(edit.number) }),
    off: () => t(`edit.off.${edit.what}`, { title: title(edit.group), head: edit.head, sublayer: sublayer(edit.sublayer) }),
    model: () => t("edit.model", { title: (hands.can?.models ?? []).find(({ name }) => name === edit.name)?.title ?? edit.name }),
    bug: () => t("edit.bug", { title: bug ? bug.title : edit.name }),
    step: () => t("edit.step", { optimizer: t(`edit.optimizer.${edit.optimizer}`), lr: edit.lr }),
  };
  return texts[edit.kind] ? texts[edit.kind]() : edit.kind;
}

function sublayer(name) {
  return name ? name.replaceAll("_", " ") : "";
}

/** The edits so far with undo, redo and reset, and a line that stays in sight: what became of the loss, and the way to what changed. */
export function editList(app, actions, changed) {
  const { doc, base } = app.state.get();
  const edits = actions.edits();
  const tool = (name, action, able) => button(t(`edit.${name}`), () => able && action(), { "aria-disabled": String(!able),
    "data-key": `edit-${name}`, "data-edit": name });
  const list = h("section", { class: "edit-list", "aria-label": t("edit.list") },
    edits.length ? h("ol", {}, edits.map((edit) => h("li", {}, editTitle(edit, doc.hands_on)))) :
      h("p", { class: "hint" }, t("edit.none")),
    h("div", { class: "edit-tools" }, tool("undo", actions.undo, edits.length > 0),
      tool("redo", actions.redo, actions.undone().length > 0), tool("reset", actions.reset, edits.length > 0)));
  const loss = h("p", { role: "status", class: "loss-change" }, lossChange(doc, base, edits));
  const two = base !== doc && button(t("two.open"), () => app.state.update({ two: !app.state.get().two }, { replace: true }),
    { class: "small", "data-key": "two", id: "two-open" });
  return [list, h("div", { class: "edit-bar" }, loss, changed, two)];
}

function lossChange(doc, base, edits) {
  const before = doc.hands_on.loss_before;
  if (!edits.length) return t("edit.loss", { loss: formatNumber(doc.loss, 5) });
  const latest = before === null || before === undefined ? "" : t("edit.loss_latest", {
    before: formatNumber(before, 5), after: formatNumber(doc.loss, 5), word: t(wordFor(before, doc.loss)) });
  const several = base && base.id !== doc.id && edits.length > 1;
  return several ? `${latest} ${t("edit.loss_first", { loss: formatNumber(base.loss, 5) })}` : latest;
}

function wordFor(before, after) {
  if (after === before) return "edit.same";
  return after < before ? "edit.smaller" : "edit.larger";
}
