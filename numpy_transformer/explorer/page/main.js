// Starts the page: the state, the store, the header, the tabs, and then every panel in its place.

import { createState } from "explorer/state";
import { createStore } from "explorer/store";
import { t } from "explorer/strings";
import { replace } from "explorer/dom";
import { start as startHeader } from "explorer/header";
import { start as startShell } from "explorer/shell";
import { start as startMap } from "explorer/map";
import { start as startTimeline } from "explorer/timeline";
import { start as startComponent } from "explorer/component";
import { start as startNumber } from "explorer/number";
import { start as startProof } from "explorer/proof";
import { start as startAttention } from "explorer/attention";
import { start as startPredictions } from "explorer/predictions";
import { start as startRanking } from "explorer/ranking";
import { start as startHandsOn } from "explorer/hands_on";
import { start as startTwo } from "explorer/side_by_side";
import { start as startVerdict } from "explorer/verdict";
import { start as startOpening } from "explorer/opening";
import { softmaxBackward } from "explorer/stations";
import { start as startStory } from "explorer/story";

const PANELS = [
  ["header", startHeader], ["timeline", startTimeline], ["map", startMap],          // the map takes the height that is left
  ["view-component", startComponent], ["number", startNumber], ["proof", startProof],
  ["view-attention", startAttention], ["view-predictions", startPredictions], ["view-ranking", startRanking], ["view-hands-on", startHandsOn],
  ["map-before", startTwo], ["verdict", startVerdict], ["story", startStory], ["opening", startOpening],
];

// Variables of a program were not computed by a step: there is no loss, no time line and nothing to predict.
const PANELS_OF_VARIABLES = ["header", "map", "view-component", "number"];

async function main() {
  const state = createState();
  const store = createStore(state);
  const app = { state, store };
  startShell(document.body, app);
  try {
    await store.start();
  } catch (error) {
    state.update({ problem: t("status.no_document", { reason: error.message }) }, { replace: true });
    return;
  }
  await compare(app);
  await beginAtANumber(app);
  const hasStep = state.get().doc.loss_value !== null;       // a loss that is not finite is null as well
  document.body.classList.toggle("no-step", !hasStep);
  for (const [id, start] of PANELS.filter(([id]) => hasStep || PANELS_OF_VARIABLES.includes(id))) {
    const root = document.getElementById(id);
    try {
      await start(root, app);
    } catch (error) {
      console.error(error);         // one broken panel must not take the others with it
      replace(root, t("status.broken", { reason: error.message }));
    }
  }
  document.body.dataset.ready = "true";
}

// Without an address, the page opens where a gradient of a softmax is spelled out.
async function beginAtANumber(app) {
  const { state } = app;
  const placed = window.location.hash.length > 1 || document.body.dataset.start;
  if (placed || state.get().doc.loss_value === null) {
    return;
  }
  const found = await softmaxBackward(app, state.get().doc).catch(() => null);
  if (found) {
    state.update(found.place, { replace: true });
    state.update({ area: "map" }, { replace: true });          // on a small screen, where one area is visible at a time
  }
}

// An address may name another step, which is shown beside the page's own.
async function compare({ state, store }) {
  const found = store.comparisons().find(({ name }) => name === state.get().compare);
  if (found) {
    await store.edit(found.edits).catch(() => null);           // the status bar says what is wrong
    state.update({ at: state.get().doc.steps.length - 1 }, { replace: true });
  }
}

main();
