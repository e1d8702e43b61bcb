// From data to pixels, and round numbers between.

/** A function from [low, high] to [from, to]. */
export const scale = (low, high, from, to) => (value) => from + ((value - low) / (high - low || 1)) * (to - from);

/** Round numbers between two others, with as many decimals as tell them apart. */
export function ticks(low, high, most = 6) {
  const rough = (high - low) / most || 1;
  const size = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].map((m) => m * size).find((s) => (high - low) / s <= most) ?? 10 * size;
  const decimals = Math.max(0, -Math.floor(Math.log10(step) + 1e-9));
  const found = [];
  for (let k = Math.ceil(low / step - 1e-9); k * step <= high + 1e-9 * step; k += 1) {
    found.push([k * step, (k * step).toFixed(decimals).replace(/^-(0\.?0*)$/, "$1")]);
  }
  return found;
}

/** The least and largest of numbers, with some room. */
export function reach(values, room = 0.05) {
  let low = Infinity, high = -Infinity;
  for (const value of values) {
    low = Math.min(low, value);
    high = Math.max(high, value);
  }
  const more = room * (high - low || 1);
  return [low - more, high + more];
}
