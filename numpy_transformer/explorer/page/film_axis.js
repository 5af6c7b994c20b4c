// The axes of the curves: steps at the distances of the frames, so that a curve is as wide as the slider under it; and numbers
// on a linear or a logarithmic axis.

const LOGARITHMIC_FROM = 12; // ratio of the largest to the smallest number
const NICE = [1, 2, 5, 10];

// step -> share of the width, from 0 to 1: frames stand at equal distances, and steps between two frames in proportion.
export function stepAxis(frames) {
  const steps = frames.map(({ step }) => step);
  const last = steps.length - 1;
  return (step) => {
    if (step >= steps[last]) return 1;
    let low = 0;
    let high = last;
    while (high - low > 1) {
      const middle = (low + high) >> 1;
      if (steps[middle] <= step) low = middle;
      else high = middle;
    }
    return (low + (step - steps[low]) / (steps[high] - steps[low])) / last;
  };
}

// Round steps for the labels of the axis, at least `distance` apart, as shares of the width.
export function stepTicks(frames, at, distance) {
  const first = frames[0].step;
  const last = frames[frames.length - 1].step;
  const ticks = [first];
  const candidates = [];
  for (let power = 1; power <= last; power *= 10) {
    for (const digit of [1, 2, 5]) candidates.push(power * digit);
  }
  for (const step of candidates.filter((candidate) => candidate > first && candidate < last)) {
    if (at(step) - at(ticks[ticks.length - 1]) >= distance && 1 - at(step) >= distance) ticks.push(step);
  }
  return last > first ? [...ticks, last] : ticks;
}

// {y(number) -> share of the height from the bottom, ticks: round numbers from below, isLog}
export function numberAxis(numbers, fromZero = false) {
  const finite = numbers.filter(Number.isFinite);
  const high = finite.reduce((most, number) => Math.max(most, number), 1e-12);
  const low = finite.filter((number) => number > 0).reduce((least, number) => Math.min(least, number), high);
  return high / low > LOGARITHMIC_FROM ? logarithmic(low, high) : linear(fromZero ? 0 : low, high);
}

function linear(low, high) {
  const margin = 0.04 * (high - low || high);
  const [bottom, top] = [low === 0 ? 0 : low - margin, high + margin];
  const power = 10 ** Math.floor(Math.log10((top - bottom) / 2));
  const distance = power * NICE.find((nice) => (top - bottom) / (nice * power) <= 4);
  const ticks = [];
  for (let i = Math.ceil(bottom / distance); i * distance <= top; i += 1) ticks.push(Number((i * distance).toPrecision(6)));
  return { y: (number) => (number - bottom) / (top - bottom), ticks, isLog: false };
}

function logarithmic(low, high) {
  const [bottom, top] = [Math.log10(low) - 0.05, Math.log10(high) + 0.05];
  const ticks = [];
  const digits = top - bottom < 2.5 ? [1, 2, 5] : [1];
  for (let power = Math.floor(bottom); power <= top; power += 1) {
    ticks.push(...digits.map((digit) => digit * 10 ** power).filter((tick) => Math.log10(tick) >= bottom && Math.log10(tick) <= top));
  }
  return { y: (number) => (Math.log10(Math.max(number, low / 10)) - bottom) / (top - bottom), ticks, isLog: true };
}
