// What stands in the place of something that the step has not computed yet: when it will be there, and the way to that moment.

import { button, h } from "explorer/dom";
import { existsFrom } from "explorer/existing";
import { positionOf } from "explorer/progress";
import { t } from "explorer/strings";

export function notYet(app, ref) {
  const { doc, op } = app.state.get();
  const at = existsFrom(doc, ref);
  const { phase, n, of } = positionOf(doc, at);
  const go = () => app.state.update({ at, op });
  return h("p", { class: "note not-yet" }, t("not_yet.later"), " ",
    button(t(`timeline.${phase}`, { count: n, of }), go, { class: "link", "data-key": `not-yet-${ref}` }));
}
