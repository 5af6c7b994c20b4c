// What a change of the model did: whose loss moved most and by how much, and why, where a rule knows. It stands above the page
// after every edit.

import { button, h, replace } from "explorer/dom";
import { editTitle, editing } from "explorer/edit_list";
import { formatNumber } from "explorer/format";
import { withCode } from "explorer/panel";
import { targetsIn } from "explorer/places";
import { t } from "explorer/strings";
import { reasonOf } from "explorer/verdict_reasons";

const SAME = 1e-9;                    // relative: below this, a loss has not moved

export function start(root, app) {
  const { state } = app;
  const { undo } = editing(app);
  let turn = 0;

  const clear = () => {
    turn += 1;
    root.hidden = true;
    replace(root);
  };

  async function show(was, now) {
    const mine = (turn += 1);
    const edit = now.edits.at(-1);
    const moved = was.predictions && now.doc.predictions ? await moveOf(app, was, now.doc) : null;
    const reason = await reasonOf(app, edit, was, now.doc, moved).catch(() => null);          // an array that the page does not hold
    if (mine !== turn) {
      return;
    }
    const two = () => state.update({ two: true, view: "hands-on", at: state.get().doc.steps.length - 1 });
    root.hidden = false;
    replace(root, h("p", {}, h("strong", {}, editTitle(edit, now.doc.hands_on)), ". ", sentenceOf(was, now.doc, moved), reason && " ", reason && withCode(reason)),
      h("span", { class: "verdict-actions" }, button(t("verdict.two"), two, { class: "small", id: "verdict-two" }),
        button(t("edit.undo"), undo, { class: "small", id: "verdict-undo" }), button("×", clear, { label: t("status.close"), class: "quiet small" })));
  }

  state.subscribe((now, before) => {
    if (now.doc === before.doc) {
      return;
    }
    if (now.edits.length === before.edits.length + 1 && now.edits.at(-1).kind !== "text" && now.story === null) {
      show(before.doc, now);
    } else {
      clear();
    }
  });
}

// The target whose loss moved most: {before, after} as places.js describes targets; null where the targets are others.
async function moveOf(app, was, doc) {
  const [before, after] = [await targetsIn(app, was), await targetsIn(app, doc)];
  if (before.length === 0 || before.length !== after.length) {
    return null;
  }
  const moves = after.map((one, n) => Math.abs(one.loss - before[n].loss));
  const most = moves.indexOf(Math.max(...moves));
  return { before: before[most], after: after[most], count: before.length };
}

function sentenceOf(was, doc, moved) {
  const losses = { before: formatNumber(was.loss, 4), after: formatNumber(doc.loss, 4) };
  const same = Math.abs(doc.loss - was.loss) <= SAME * Math.abs(was.loss);
  if (!moved || moved.count === 1) {
    return t(same ? "verdict.same" : "verdict.loss", losses);
  }
  const { before, after } = moved;
  if (Math.abs(after.loss - before.loss) <= SAME * Math.abs(before.loss)) {
    return t(same ? "verdict.same" : "verdict.loss", losses);
  }
  const key = `verdict.${after.loss > before.loss ? "rose" : "fell"}${before.token === null ? "" : ".after"}`;
  return t(key, { target: before.label, token: before.token ?? "", from: formatNumber(before.loss), to: formatNumber(after.loss), ...losses });
}
