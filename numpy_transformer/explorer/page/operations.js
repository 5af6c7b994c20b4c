// What the operations of formulas do with numbers. Whole-number division and remainder round down, as in Python.

import { erf } from "explorer/erf";

export const ARITHMETIC = {
  add: (a, b) => a + b,
  sub: (a, b) => a - b,
  mul: (a, b) => a * b,
  div: (a, b) => a / b,
  pow: (a, b) => a ** b,
  "//": (a, b) => Math.floor(a / b),
  "%": (a, b) => a - b * Math.floor(a / b),
};

export const COMPARE = {
  "<": (a, b) => a < b,
  "<=": (a, b) => a <= b,
  ">": (a, b) => a > b,
  ">=": (a, b) => a >= b,
  "==": (a, b) => a === b,
  "!=": (a, b) => a !== b,
};

const total = (values) => values.reduce((sum, value) => sum + value, 0);

export const REDUCE = {
  sum: total,
  mean: (values) => total(values) / values.length,
  max: (values) => values.reduce((largest, value) => (value > largest ? value : largest), -Infinity),
};

export const FUNCTIONS = {
  exp: Math.exp, log: Math.log, log1p: Math.log1p, sqrt: Math.sqrt, sin: Math.sin, cos: Math.cos, tanh: Math.tanh,
  abs: Math.abs, erf,
};
