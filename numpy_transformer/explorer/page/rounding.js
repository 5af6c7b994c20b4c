// How far a spelled-out number may lie from the array's by rounding alone. The arrays of the page are float32, so every
// entry may be off by half a unit in its last place; the rules of error propagation carry this through the formula.
// A larger difference is not rounding: then formula and code compute different things.

const HALF_UNIT = 2 ** -24;
const MARGIN = 8;

export function differs(spelled, shown) {
  if (Object.is(spelled.value, shown) || (Number.isNaN(spelled.value) && Number.isNaN(shown))) return false;
  if (!Number.isFinite(spelled.value) || !Number.isFinite(shown)) return spelled.value !== shown;
  const error = errorOf(spelled.tree, spelled, new Map()) + Math.abs(shown) * HALF_UNIT;
  return Math.abs(spelled.value - shown) > MARGIN * error + 1e-30;
}

// Of a sum of contributions, each of them an entry of an array.
export function sumDiffers(numbers, shown) {
  const total = numbers.reduce((sum, number) => sum + number, 0);
  const error = numbers.reduce((sum, number) => sum + Math.abs(number), 0) * HALF_UNIT;
  return Math.abs(total - shown) > MARGIN * (error + Math.abs(shown) * HALF_UNIT) + 1e-30;
}

function errorOf(term, spelled, known) {
  const parts = term.terms || [];
  const errors = () => parts.map((part) => errorOf(part, spelled, known));
  const total = () => errors().reduce((sum, error) => sum + error, 0);
  switch (term.kind) {
    case "entry":
      return Number.isFinite(term.value) ? Math.abs(term.value) * HALF_UNIT : 0;
    case "named":
      return errorOfNamed(term, spelled, known);
    case "add":
    case "sub":
    case "neg":
    case "sum":
    case "where":
      return total();
    case "mean":
      return total() / Math.max(1, parts.length);
    case "max":
      return Math.max(0, ...errors());
    case "mul":
      return errorOfProduct(parts, errors());
    case "div":
      return errorOfQuotient(parts, errors());
    case "pow":
      return errorOfPower(term, parts, errors());
    case "call":
      return errorOfCall(term, parts, errors());
    default:
      return 0;
  }
}

function errorOfNamed(term, spelled, known) {
  if (!known.has(term.key)) {
    known.set(term.key, 0);
    const tree = (spelled.named || {})[term.key];
    known.set(term.key, tree ? errorOf(tree, spelled, known) : Math.abs(term.value) * 16 * HALF_UNIT);
  }
  return known.get(term.key);
}

function errorOfProduct(parts, errors) {
  return parts.reduce((sum, _, i) => {
    const others = parts.reduce((product, part, j) => (j === i ? product : product * Math.abs(part.value)), 1);
    return sum + errors[i] * others;
  }, 0);
}

function errorOfQuotient([above, below], [errorAbove, errorBelow]) {
  const size = Math.abs(below.value);
  return size ? errorAbove / size + (errorBelow * Math.abs(above.value)) / (size * size) : 0;
}

function errorOfPower(term, [base, exponent], [error]) {
  if (!base.value) return error;
  return Math.abs((exponent.value * term.value) / base.value) * error;
}

function errorOfCall(term, [argument], [error]) {
  if (term.name === "exp") return Math.abs(term.value) * error;
  if (term.name === "log") return error / Math.max(Math.abs(argument.value), 1e-300);
  if (term.name === "sqrt") return term.value ? error / (2 * term.value) : Math.sqrt(error);
  return error * 1.2; // tanh, erf, abs: their slope is nowhere above 1.2
}
