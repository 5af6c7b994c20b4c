// The two color scales: blue and orange for values, green and purple for gradients, both centered on 0.
// The page, the heatmaps and the exported pictures all ask here, so that a color means the same everywhere.

const STOPS = {
  light: {
    paper: [255, 255, 255],
    value: { positive: [[158, 197, 232], [33, 102, 172]], negative: [[247, 190, 140], [190, 85, 10]] },
    gradient: { positive: [[155, 208, 163], [20, 110, 52]], negative: [[201, 171, 216], [112, 40, 130]] },
  },
  dark: {
    paper: [27, 29, 33],
    value: { positive: [[38, 82, 128], [126, 188, 244]], negative: [[122, 66, 22], [250, 168, 96]] },
    gradient: { positive: [[26, 92, 50], [124, 216, 146]], negative: [[92, 52, 112], [214, 164, 236]] },
  },
};

export function theme() {
  return document.documentElement.dataset.theme === "dark" ? "dark" : "light";
}

// [r, g, b] of x on a scale that ends at -limit and limit; kind is "value" or "gradient".
export function colorOf(kind, x, limit) {
  const { paper, [kind]: scale } = STOPS[theme()];
  if (!Number.isFinite(x) || !(limit > 0)) {
    return paper;
  }
  const size = Math.min(1, Math.abs(x) / limit);
  const [middle, end] = x < 0 ? scale.negative : scale.positive;
  return size < 0.5 ? mix(paper, middle, 2 * size) : mix(middle, end, 2 * size - 1);
}

export function cssColor(kind, x, limit) {
  return `rgb(${colorOf(kind, x, limit).join(", ")})`;
}

// Black or white, whichever reads better on a color.
export function inkOn([r, g, b]) {
  const linear = (c) => (c / 255 <= 0.04045 ? c / 255 / 12.92 : ((c / 255 + 0.055) / 1.055) ** 2.4);
  const luminance = 0.2126 * linear(r) + 0.7152 * linear(g) + 0.0722 * linear(b);
  return luminance > 0.18 ? [17, 17, 17] : [255, 255, 255];
}

function mix(from, to, share) {
  return from.map((channel, i) => Math.round(channel + (to[i] - channel) * share));
}
