// Widths as people see them, like numpy_transformer/texts/width.py: a Hangul syllable is as wide as two Latin letters, and a
// combining accent has no width.

const WIDE = /[\u1100-\u115f\u2e80-\u303e\u3041-\ua4cf\ua960-\ua97f\uac00-\ud7a3\uf900-\ufaff\ufe30-\ufe6f\uff00-\uff60\uffe0-\uffe6\u{1f300}-\u{1f64f}\u{20000}-\u{3fffd}]/u;
const NO_WIDTH = /[\p{Mn}\p{Me}\p{Cf}\u1160-\u11ff]/u;

function widthOf(letter) {
  return NO_WIDTH.test(letter) ? 0 : 1 + Number(WIDE.test(letter));
}

// The width of a text in Latin letters.
export function columns(text) {
  return [...String(text)].reduce((sum, letter) => sum + widthOf(letter), 0);
}

export function widest(texts) {
  return Math.max(0, ...texts.map(columns));
}

// The text, or its beginning with an ellipsis, at most `width` Latin letters wide.
export function shorten(text, width) {
  if (columns(text) <= width) return text;
  let taken = 0;
  const kept = [...text].filter((letter) => {
    taken += widthOf(letter);
    return taken < width;
  });
  return `${kept.join("")}…`;
}
