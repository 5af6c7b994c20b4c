// The error function, which JavaScript does not have, to about 15 digits.

const SERIES_UP_TO = 3;

export function erf(x) {
  if (Number.isNaN(x)) {
    return NaN;
  }
  const size = Math.abs(x);
  const value = size < SERIES_UP_TO ? series(size) : 1 - complement(size);
  return x < 0 ? -value : value;
}

// erf(x) = 2 / sqrt(pi) exp(-x²) (x + 2 x³ / 3 + 4 x⁵ / (3 · 5) + ...): all terms are positive, so none cancel.
function series(x) {
  let term = x;
  let sum = x;
  for (let n = 1; term > sum * 1e-17; n += 1) {
    term *= (2 * x * x) / (2 * n + 1);
    sum += term;
  }
  return (2 / Math.sqrt(Math.PI)) * Math.exp(-x * x) * sum;
}

// 1 - erf(x) as a continued fraction, read from its far end: exp(-x²) / sqrt(pi) / (x + (1/2) / (x + (2/2) / (x + ...))).
function complement(x) {
  if (x > 27) {
    return 0;
  }
  let below = x;
  for (let n = 60; n >= 1; n -= 1) {
    below = x + n / 2 / below;
  }
  return Math.exp(-x * x) / Math.sqrt(Math.PI) / below;
}
