// Keys on the map: down and up along the lines, left and right to neighbors, Home and End to the first and last box, Enter chooses, + and - unfold and fold.

const DOWN = "ArrowDown";

export function handleKey(event, id, { view, doc, choose, toggle, focusOn }) {
  if (event.ctrlKey || event.metaKey || event.altKey) {
    return;
  }
  const group = doc.groups.some((other) => other.id === id);
  const folded = view.folded.has(id);
  if (event.key === "Enter") {
    choose(id);
  } else if (event.key === "+" && group) {
    folded && toggle(id);
  } else if (event.key === "-") {
    const parent = view.nodes.get(id).box.parent;
    if (group && !folded) {
      toggle(id);
    } else if (parent) {
      toggle(parent);
    }
  } else if (event.key === "Home" || event.key === "End") {
    focusOn(farthest(view, event.key === "Home" ? -1 : 1));
  } else if (event.key.startsWith("Arrow")) {
    const next = neighbor(view, id, event.key);
    next && focusOn(next);
  } else {
    return;
  }
  event.preventDefault();
  event.stopPropagation();
}

// The nearest box in a direction; a box on the same line comes before a nearer one beside it.
function neighbor(view, id, key) {
  const here = center(view.nodes.get(id).box);
  const vertical = key === "ArrowUp" || key === DOWN;
  const sign = key === DOWN || key === "ArrowRight" ? 1 : -1;
  let best = null;
  let least = Infinity;
  for (const [other, { box }] of view.nodes) {
    const there = center(box);
    const along = sign * (vertical ? there.y - here.y : there.x - here.x);
    const across = Math.abs(vertical ? there.x - here.x : there.y - here.y);
    const allowed = vertical || across < 24;
    const cost = along + (vertical ? 0.75 : 3) * across;
    if (other !== id && along > 2 && allowed && cost < least) {
      best = other;
      least = cost;
    }
  }
  return best;
}

// The box at the top or at the bottom of the map.
function farthest(view, sign) {
  const height = (id) => sign * center(view.nodes.get(id).box).y;
  return [...view.nodes.keys()].reduce((best, id) => (height(id) > height(best) ? id : best));
}

// A frame counts as its title, which stands at its top.
function center(box) {
  return { x: box.x + (box.type === "frame" ? 40 : box.w / 2), y: box.y + (box.type === "frame" ? 10 : box.h / 2) };
}
