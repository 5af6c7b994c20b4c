// Starts the page of a film: it reads the document once, builds every panel once, and lets all of them draw each frame.

import { button, h, replace } from "explorer/dom";
import { readFilm } from "explorer/film_data";
import { formatCount } from "explorer/format";
import { start as startArrays } from "explorer/film_arrays";
import { start as startAttention } from "explorer/film_attention";
import { start as startNorms } from "explorer/film_norms";
import { start as startPlayer } from "explorer/film_player";
import { start as startPredictions } from "explorer/film_predictions";
import { t } from "explorer/strings";

const PANELS = [["predictions", startPredictions], ["attention", startAttention], ["norms", startNorms], ["arrays", startArrays]];
const dark = window.matchMedia("(prefers-color-scheme: dark)");

// Every start(root, film) returns draw(frame), which draws a frame, and redraw(), which follows a new theme or size.
function main() {
  const film = readFilm(JSON.parse(document.getElementById("document").textContent));
  setTheme(dark.matches);
  for (const element of document.querySelectorAll("[data-text]")) element.textContent = t(element.dataset.text);
  for (const element of document.querySelectorAll("[data-label]")) element.setAttribute("aria-label", t(element.dataset.label));
  const panels = PANELS.map(([id, start]) => start(document.getElementById(id), film));
  const show = (frame) => {
    for (const panel of panels) panel.draw(frame);
  };
  const player = startPlayer(document.getElementById("player"), film, show);
  const redraw = () => {
    for (const panel of panels) panel.redraw();
    player.redraw();
  };
  drawHeader(film, redraw);
  drawLeftOut(film);
  dark.addEventListener("change", () => {
    setTheme(dark.matches);
    redraw();
  });
  let width = window.innerWidth;
  window.addEventListener("resize", () => {
    if (window.innerWidth === width) return;         // the bars of a phone's browser come and go
    width = window.innerWidth;
    redraw();
  });
  for (const panel of panels) panel.redraw();
  player.begin();
  document.body.dataset.ready = "true";
}

function setTheme(isDark) {
  document.documentElement.dataset.theme = isDark ? "dark" : "light";
}

function drawHeader({ doc }, redraw) {
  const switchTheme = () => {
    setTheme(document.documentElement.dataset.theme !== "dark");
    redraw();
  };
  const facts = t("film.facts", { class: doc.model.class, parameters: formatCount(doc.model.parameters),
    first: formatCount(doc.run.first), last: formatCount(doc.run.last) });
  replace(document.querySelector(".film-header"), h("div", {}, h("h1", {}, doc.title), h("p", { class: "note" }, facts)),
    button("◐", switchTheme, { label: t("film.theme"), id: "theme", class: "quiet" }));
}

function drawLeftOut({ doc }) {
  const root = document.getElementById("left-out");
  root.hidden = doc.left_out.length === 0;
  replace(root, h("h2", {}, t("film.left_out")), h("ul", {}, doc.left_out.map((sentence) => h("li", {}, sentence))));
}

main();
