// A guided story beside the page: its prose, a question with a guess and a reveal, and the way on. The page itself shows what the
// prose speaks of, and stays usable: nothing is covered. `story=KEY.N` in the address opens part N of a story.

import { button, h, replace } from "explorer/dom";
import { existsFrom } from "explorer/existing";
import { withCode } from "explorer/panel";
import { lessonParts, partsOf, storiesOf } from "explorer/stories";
import { t } from "explorer/strings";

export async function start(root, app) {
  const { state } = app;
  const own = { guesses: {}, parts: [], key: null, turn: 0 };
  const opener = document.getElementById("stories");
  opener?.addEventListener("click", () => (state.get().story === "" ? close() : open("")));
  root.addEventListener("keydown", (event) => {
    if (event.key === "Escape") {
      close();
    }
  });

  // What the address says: null for no story, "" for the list, "KEY.N" for a part.
  function open(story) {
    state.update({ story }, { replace: true });
  }

  function close() {
    const inside = root.contains(document.activeElement);
    open(null);
    if (inside) {
      opener?.focus();
    }
  }

  async function show(story) {
    const turn = (own.turn += 1);
    document.body.toggleAttribute("data-story", story !== null);
    opener?.setAttribute("aria-expanded", String(story !== null));
    const [key, number] = (story ?? "").split(".");
    if (!key) {
      await leave();
      if (turn !== own.turn) {
        return;
      }
    }
    if (story === null) {
      replace(root);
      return;
    }
    if (!key) {
      const stories = await storiesOf(app);
      if (turn === own.turn) {
        replace(root, list(stories));
        root.querySelector("button.story-choice")?.focus();
      }
      return;
    }
    await prepare(key);
    const part = own.parts[Math.min(own.parts.length - 1, Number(number) || 0)];
    if (turn !== own.turn) {
      return;
    }
    if (!part) {
      open("");
      return;
    }
    if (part.place) {
      await go(part);
    }
    if (turn === own.turn) {
      draw(own.parts.indexOf(part));
    }
  }

  // A story begins with the model as it was given; the reader's text stays.
  async function prepare(key) {
    if (own.key === key) {
      return;
    }
    replace(root, h("p", { class: "note", role: "status" }, t("stories.wait")));
    const lesson = /^lesson-(\d+)$/.exec(key);
    if (lesson) {
      own.parts = lessonParts(lesson[1]);
    } else {
      await edit([]);
      own.parts = await partsOf(app, key);
    }
    own.key = key;
  }

  async function edit(edits) {
    const now = state.get().edits;
    const wanted = [...now.filter(({ kind }) => kind === "text"), ...edits.filter(({ kind }) => kind !== "text")];
    if (JSON.stringify(now) !== JSON.stringify(wanted)) {
      await app.store.edit(wanted).catch(() => null);         // the status bar says what is wrong
    }
  }

  // What a story has changed ends with it.
  async function leave() {
    if (own.parts.some((part) => part.edits)) {
      state.update({ two: false }, { replace: true });
      await edit([]);
    }
    Object.assign(own, { key: null, parts: [] });
  }

  async function go(part) {
    await edit(part.edits ?? []);
    state.update({ ref: null, index: null }, { replace: true });
    const { doc } = state.get();
    const at = part.place.at ?? (part.place.ref ? Math.max(0, existsFrom(doc, part.place.ref)) : state.get().at);       // the moment of which it speaks
    state.update({ two: false, ...part.place, at });
    state.update({ area: "panel" }, { replace: true });        // on a small screen, one area is visible at a time
  }

  function draw(at) {
    const part = own.parts[at];
    const lesson = own.key.startsWith("lesson-");
    const base = lesson ? `lesson.${part.key}` : `story.${own.key}.${part.key}`;
    const last = at === own.parts.length - 1;
    const step = (to) => () => open(`${own.key}.${to}`);
    const guess = own.guesses[`${own.key}.${at}`];
    const isOpen = part.question && guess === undefined;
    const title = lesson ? t("stories.lesson", { n: Number(part.key) }) : t(`story.${own.key}.title`);
    const text = lesson ? t(`${base}.question`) : t(base, part.numbers);
    replace(root, h("article", { class: "story", "aria-labelledby": "story-title", "data-story": `${own.key}.${part.key}` },
      h("header", {}, h("h2", { id: "story-title", tabindex: "-1" }, title),
        button("×", close, { label: t("stories.close"), class: "quiet", id: "story-close" })),
      own.parts.length > 1 && h("p", { class: "note number" }, t("stories.part", { at: at + 1, of: own.parts.length })),
      text.split("\n").map((paragraph) => h("p", {}, withCode(paragraph))),
      part.question && question(part, at, base),
      h("div", { class: "story-actions" },
        at > 0 && button(t("stories.back"), step(at - 1), { class: "quiet" }),
        !last && button(t(isOpen ? "stories.skip" : "stories.next"), step(at + 1), { class: isOpen ? "" : "primary", id: "story-next" }),
        last && button(t("stories.others"), () => open(""), { class: isOpen ? "" : "primary", id: "story-others" }))));
    root.scrollTop = 0;
    root.querySelector("h2").focus({ preventScroll: true });
  }

  // The answers as buttons. After a guess the right one is marked, and the reveal says why.
  function question(part, at, base) {
    const name = `${own.key}.${at}`;
    const guess = own.guesses[name];
    const told = guess !== undefined;
    const asked = base.startsWith("lesson.") ? null : t(`${base}.question`, part.numbers);
    const options = part.question.options.map((text, i) => {
      const mark = told && i === part.question.right ? "right" : told && i === guess ? "wrong" : null;
      return h("li", {}, button([h("span", { class: "mark", "aria-hidden": "true" }, { right: "✓", wrong: "✗" }[mark] ?? ""), text], () => {
        own.guesses[name] ??= i;
        draw(at);
        root.querySelector(".reveal").focus({ preventScroll: false });
      }, { class: `guess ${mark ? `is-${mark}` : ""}`, "aria-disabled": String(told), "data-guess": i }));
    });
    return h("div", { class: "question" }, asked && h("p", { class: "asked" }, asked), h("ul", {}, options),
      told && h("div", { class: "reveal", tabindex: "-1", role: "status" },
        h("p", {}, h("strong", {}, t(guess === part.question.right ? "stories.right" : "stories.wrong")), " ", withCode(t(`${base}.reveal`, part.numbers)))));
  }

  function list(stories) {
    return h("article", { class: "story" },
      h("header", {}, h("h2", { id: "story-title" }, t("stories.title")),
        button("×", close, { label: t("stories.close"), class: "quiet", id: "story-close" })),
      h("p", { class: "note" }, t("stories.about")),
      h("ul", { class: "story-list" }, stories.map(({ key, length }) => h("li", {},
        button([h("strong", {}, t(`story.${key}.title`)), h("span", { class: "note" }, t("stories.parts", { n: length }))],
          () => { own.key = null; open(`${key}.0`); }, { class: "story-choice", "data-story-key": key })))),
      h("p", {}, button(t("stories.opening"), () => document.dispatchEvent(new Event("show-opening")), { class: "link", id: "show-opening" })));
  }

  state.subscribe((now, before) => {
    if (now.story !== before.story) {
      show(now.story);
    }
  });
  if (state.get().story !== null) {
    await show(state.get().story);
  }
}
