// A fit under way: candidates come in, the leaderboard moves, the best score rises.

import { get, post } from "./api.js";
import { el, percent, withProperty } from "./dom.js";
import { rightShare, scoreCurve } from "./score_curve.js";
import { tell, trying } from "./say.js";

const EVERY = 250; // milliseconds between looks

export class FitPanel {
  #state = null; #fitted; #ended; #heading; #progress; #stopButton; #mapButton;

  constructor({ go, fitted, ended }) {
    this.#fitted = fitted;
    this.#ended = ended;
    this.#heading = el("div");
    this.#progress = el("div");
    // made once, above the list that grows: a button that was made anew or moved at every look would lose clicks and the focus
    this.#stopButton = el("button", { type: "button", id: "stop", onclick: () => this.#stop() }, "Stop and keep what is there");
    this.#mapButton = el("button", { type: "button", class: "primary", id: "to-map", onclick: () => go("map") }, "Show the map");
    const actions = el("p", { class: "actions" }, this.#stopButton, this.#mapButton);
    this.node = el("div", { class: "card fit" }, this.#heading, actions, this.#progress);
    this.#draw();
  }

  get isRunning() {
    return this.#state?.running ?? false;
  }

  pictures() {
    const drawing = this.node.querySelector("svg.curve");
    return drawing ? [{ name: "fit.svg", words: "How the fit rose", drawing }] : [];
  }

  load(state) {
    this.#state = state;
    this.#draw();
    if (this.isRunning) this.#follow();
    else if (state) this.#look(); // for the weights
  }

  async start(choices) {
    this.#state = await post("/api/fit", choices);
    tell("The fit has begun");
    this.#draw();
    this.#follow();
    return true;
  }

  async #look() {
    const found = await trying(() => get("/api/fit"));
    if (found === null) return;
    this.#state = found;
    this.#draw();
  }

  async #follow() {
    while (this.isRunning) {
      await new Promise((done) => setTimeout(done, EVERY));
      const before = this.#state.trials.length;
      await this.#look();
      const last = this.#state.trials.at(-1);
      if (last && this.#state.trials.length > before) tell(`Tried ${last.candidate}`);
    }
    if (this.#state.phase === "done") {
      await this.#fitted(this.#state.map);
      tell("The fit is done. The map shows the rows.");
    }
    this.#ended();
  }

  #draw() {
    const before = new Map([...this.node.querySelectorAll("[data-candidate]")].map((row) => [row.dataset.candidate, row.offsetTop]));
    const [heading, ...rest] = this.#parts();
    this.#heading.replaceChildren(heading);
    this.#progress.replaceChildren(...rest);
    this.#stopButton.hidden = !this.isRunning;
    this.#mapButton.hidden = this.isRunning || this.#state?.phase !== "done";
    this.#animate(before);
  }

  /** Rows slide to their new places. */
  #animate(before) {
    if (matchMedia("(prefers-reduced-motion: reduce)").matches) return;
    for (const row of this.node.querySelectorAll("[data-candidate]")) {
      const moved = (before.get(row.dataset.candidate) ?? row.offsetTop) - row.offsetTop;
      if (moved) row.animate([{ transform: `translateY(${moved}px)` }, { transform: "none" }], { duration: 350, easing: "ease-out" });
      else if (!before.has(row.dataset.candidate) && before.size) row.animate([{ opacity: 0 }, { opacity: 1 }], { duration: 350 });
    }
  }

  #parts() {
    const state = this.#state;
    if (!state) {
      return [el("h3", {}, "Models on trial"), el("p", { class: "soft" }, "Several models learn from the table and are "
        + "judged by classes that they have not seen. The best are averaged, by weights that show here.")];
    }
    if (state.phase === "failed") return [el("h3", {}, "The fit failed"), el("p", { class: "hint" }, state.message)];
    const words = state.phase === "done"
      ? `${state.stopped ? "Stopped and kept" : "Done"} in ${state.seconds.toFixed(1)} s`
      : `${state.phase[0].toUpperCase()}${state.phase.slice(1)} … ${state.seconds.toFixed(0)} s`;
    return [
      el("div", { class: "heading" }, el("h3", {}, "Models on trial"),
        el("span", { class: state.running ? "pulse" : "soft" }, words)),
      scoreCurve(state.trials, state.together?.log_loss ?? null),
      this.#leaderboard(state),
      ...state.notes.map((note) => el("p", { class: "soft note" }, note)),
    ];
  }

  #stop() {
    tell("Stopping after this model");
    return trying(() => post("/api/stop", {}));
  }

  #leaderboard(state) {
    if (!state.trials.length) return el("p", { class: "soft" }, "The first model is learning.");
    const order = [...state.trials].sort((a, b) => a.log_loss - b.log_loss);
    const header = ["Model", "Right class gets", "Accuracy", "Weight"];
    return el("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": "Leaderboard" },
      el("table", { class: "leaderboard" },
        el("thead", {}, el("tr", {}, header.map((text) => el("th", { scope: "col" }, text)))),
        el("tbody", {}, order.map((trial) =>
          this.#line(trial.candidate, trial, state.weights ? percent(state.weights[trial.candidate] ?? 0) : "…")),
        state.together ? this.#line("all together", state.together, "") : null)));
  }

  #line(name, { log_loss: logLoss, accuracy }, weight) {
    const share = rightShare(logLoss);
    return el("tr", { "data-candidate": name }, el("th", { scope: "row" }, name),
      el("td", {}, withProperty(el("span", { class: "meter wide" }), "--v", share), percent(share)),
      el("td", { class: "numbers" }, percent(accuracy, 1)), el("td", { class: "numbers" }, weight));
  }
}
