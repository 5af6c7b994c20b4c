// What mathematics calls the arrays and numbers of the formulas.

const LETTERS = {
  weight: "W", bias: "b", logits: "z", dot: "δ", table: "PE",
  gamma: "γ", beta: "β", mu: "μ", sigma: "σ", Phi: "Φ", epsilon: "ε", eps: "ε", pi: "π", inf: "∞", angle: "θ",
  log_p: "log p", token_mask: "mask", x_hat: "x", via_mu: "via μ", via_sigma: "via σ", via_rms: "via rms",
  d_model: "D", pad_id: "pad", ignore_id: "ignored",
};

const GRADIENT = /^d(x|y|q|k|v|p|s|a|b|scores|weight|bias|gamma|beta|logits)$/;

// {d: whether it is a gradient, text, hat: whether a hat stands above}
export function symbolOf(name) {
  const gradient = GRADIENT.exec(name);
  const bare = gradient ? gradient[1] : name;
  return { d: Boolean(gradient), text: LETTERS[bare] ?? bare, hat: bare === "x_hat" };
}

// The same as a plain text: dγ, x̂.
export function symbolText(name) {
  const { d, text, hat } = symbolOf(name);
  return (d ? "d" : "") + text + (hat ? "\u0302" : "");
}
