// The best score so far, model after model: the probability that held-out rows' own classes get, as
// a geometric mean; at the end that of all models together.

import { percent, svg } from "./dom.js";

const WIDTH = 420, HEIGHT = 118, LEFT = 14, TOP = 24, BOTTOM = 94;

export const rightShare = (logLoss) => Math.exp(-logLoss);

export function scoreCurve(trials, together) {
  if (!trials.length) return null;
  const scores = trials.map((trial) => rightShare(trial.log_loss));
  const all = together === null ? scores : [...scores, rightShare(together)];
  const low = Math.max(0, Math.min(...all) - 0.08), high = Math.min(1, Math.max(...all) + 0.02);
  const x = (k) => LEFT + ((WIDTH - 2 * LEFT) * k) / Math.max(5, all.length - 1);
  const y = (s) => BOTTOM - ((BOTTOM - TOP) * (s - low)) / (high - low || 1);
  let best = 0;
  const steps = scores.map((score, k) => {
    best = Math.max(best, score);
    return `${k ? `H${x(k)}V` : `M${x(0)},`}${y(best)}`;
  });
  const end = x(all.length - 1), path = `${steps.join("")}H${end}${together === null ? "" : `V${y(all.at(-1))}`}`;
  const shown = together === null ? best : all.at(-1);
  const words = together === null ? "best so far" : "all together";
  return svg("svg", { class: "curve", viewBox: `0 0 ${WIDTH} ${HEIGHT}`, role: "img",
    "aria-label": `The right class gets ${percent(shown)}, ${words}` },
  svg("path", { class: "axis", d: `M${LEFT},${BOTTOM}H${WIDTH - LEFT}` }),
  svg("path", { class: "area", d: `${path}V${BOTTOM}H${x(0)}Z` }),
  svg("path", { class: "line", d: path }),
  scores.map((score, k) => svg("circle", { class: "dot", cx: x(k), cy: y(score), r: 3.5 })),
  together === null ? null : svg("circle", { class: "dot full", cx: end, cy: y(shown), r: 4.5 }),
  svg("text", { x: Math.max(end, 60), y: y(shown) - 9, class: "end strong" }, percent(shown)),
  svg("text", { x: LEFT, y: HEIGHT - 6 }, `probability of the right class, ${words}`));
}
