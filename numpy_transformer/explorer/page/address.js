// The place of the page as an address, and back, so that everything that can be reached can be linked to.

// The address: #op=decoder.norm&ref=grad decoder.norm:y&cell=0,2,1&t=14&view=attention&large=1
export function writeAddress(state) {
  const parts = new URLSearchParams();
  const set = (name, value) => value !== null && value !== "" && parts.set(name, value);
  set("op", state.op);
  set("ref", state.ref);
  set("cell", state.index ? state.index.join(",") : null);
  set("t", String(state.at));
  set("view", state.view === "component" ? null : state.view);
  const slice = Object.entries(state.slices?.[state.ref] ?? {}).map(([axis, i]) => `${axis}:${i}`);
  set("slice", slice.length ? slice.join(",") : null);
  set("large", state.large ? "1" : null);
  set("common", state.common ? "1" : null);
  set("two", state.two ? "1" : null);
  set("story", state.story || null);
  set("compare", state.compare);
  return "#" + parts.toString();
}

export function readAddress(hash) {
  const parts = new URLSearchParams(hash.replace(/^#/, ""));
  const result = {};
  for (const name of ["op", "ref", "view"]) {
    if (parts.get(name)) {
      result[name] = parts.get(name);
    }
  }
  const cell = parts.get("cell");
  if (cell && /^\d+(,\d+)*$/.test(cell)) {
    result.index = cell.split(",").map(Number);
  }
  if (/^\d+$/.test(parts.get("t") ?? "")) {
    result.at = Number(parts.get("t"));
  }
  const slice = parts.get("slice");
  if (slice && result.ref && /^\d+:\d+(,\d+:\d+)*$/.test(slice)) {
    result.slices = { [result.ref]: Object.fromEntries(slice.split(",").map((pair) => pair.split(":").map(Number))) };
  }
  for (const name of ["large", "common", "two"].filter((each) => parts.has(each))) {
    result[name] = parts.get(name) === "1";
  }
  if (parts.get("compare")) {
    result.compare = parts.get("compare");
  }
  if (/^[a-z]+(-\d+)?\.\d+$/.test(parts.get("story") ?? "")) {
    result.story = parts.get("story");
  }
  return result;
}
