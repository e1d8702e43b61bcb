// The cells of a row: each can be changed or blanked; gaps show what fills them, and how surely.

import { chance, el, svg } from "./dom.js";

export class CellList {
  #columns; #changes = Object.create(null); #onchange; #inputs = new Map(); #gaps = new Map(); #original = []; #reset;

  constructor(columns, onchange) {
    this.#columns = columns;
    this.#onchange = onchange;
    this.#reset = el("button", { type: "button", id: "reset", disabled: true, onclick: () => this.#undo() }, "Undo all changes");
    this.node = el("div", { class: "cells" },
      el("div", { class: "heading" }, el("h3", {}, "Cells"), this.#reset),
      el("p", { class: "soft" }, "Change a cell, or empty it, and see what moves."),
      el("ul", {}, columns.map((column, k) => this.#cell(column, k))));
  }

  /** What differs from the table: a name and its text, null where it is blank. */
  get changes() {
    return { ...this.#changes };
  }

  get isEdited() {
    return Object.keys(this.#changes).length > 0;
  }

  forget() {
    this.#changes = Object.create(null);
    this.#reset.disabled = true;
  }

  /** The cells of an answer; those of a new row replace everything. */
  show(answer, isNew) {
    this.#columns.forEach((column, k) => {
      const input = this.#inputs.get(column.name), cell = answer.cells[k];
      if (isNew || !this.isEdited) this.#original[k] = cell;
      if (isNew || !(column.name in this.#changes)) input.value = cell ?? "";
      this.#mark(column, k, cell === null);
      this.blame(column.name, "");
      if (cell !== null || isNew) this.#gaps.get(column.name).replaceChildren(...(cell === null ? ["…"] : []));
    });
  }

  /** What fills the gaps. */
  fill(gaps) {
    for (const [name, gap] of Object.entries(gaps)) {
      const node = this.#gaps.get(name);
      if (!node.closest("li").classList.contains("gap")) continue;
      node.replaceChildren(...(gap.levels ? levelWords(gap) : rangeWords(gap)));
    }
  }

  blame(name, message) {
    const item = this.#inputs.get(name).closest("li");
    const words = item.querySelector(".wrong");
    words.textContent = message;
    words.hidden = !message;
    if (message) this.#inputs.get(name).setAttribute("aria-invalid", "true");
    else this.#inputs.get(name).removeAttribute("aria-invalid");
  }

  #cell(column, k) {
    const name = column.name, change = () => this.#change(column, k);
    const input = column.levels.length && column.levels.length <= 60
      ? el("select", { "aria-label": name, onchange: change }, el("option", { value: "" }, "(empty)"),
        column.levels.map((level) => el("option", { value: level }, level)))
      : el("input", { type: "text", "aria-label": name, inputmode: column.number ? "decimal" : "text", autocomplete: "off",
        spellcheck: "false", oninput: change, onkeydown: (event) => this.#nudge(event, column, k) });
    this.#inputs.set(name, input);
    const gap = el("span", { class: "filled" });
    this.#gaps.set(name, gap);
    return el("li", {}, el("span", { class: "name", title: name }, name), input,
      el("button", { type: "button", class: "quiet", "aria-label": `Empty ${name}`, onclick: () => this.#blank(column, k) }, "✕"),
      gap, el("span", { class: "wrong", role: "alert", hidden: true }));
  }

  #mark(column, k, isGap) {
    const item = this.#inputs.get(column.name).closest("li");
    item.classList.toggle("gap", isGap);
    item.classList.toggle("edited", column.name in this.#changes);
    item.querySelector("button").disabled = isGap;
  }

  #change(column, k) {
    const text = this.#inputs.get(column.name).value.trim();
    if ((text || null) === this.#original[k]) delete this.#changes[column.name];
    else this.#changes[column.name] = text || null;
    this.#reset.disabled = !this.isEdited;
    this.#onchange();
  }

  #blank(column, k) {
    const input = this.#inputs.get(column.name);
    input.value = "";
    this.#change(column, k);
    input.focus();
  }

  /** Arrow keys change a number by a hundredth of its size. */
  #nudge(event, column, k) {
    const input = event.target, value = Number(input.value);
    const way = { ArrowUp: 1, ArrowDown: -1 }[event.key];
    if (!way || !column.number || !input.value || !Number.isFinite(value)) return;
    event.preventDefault();
    const step = 10 ** Math.floor(Math.log10(Math.abs(value) || 1)) / (event.shiftKey ? 1 : 10);
    input.value = String(Number((value + way * step).toPrecision(8)));
    this.#change(column, k);
  }

  #undo() {
    this.#columns.forEach((column, k) => { this.#inputs.get(column.name).value = this.#original[k] ?? ""; });
    this.forget();
    this.#onchange();
    this.#inputs.values().next().value.focus();
  }
}

function levelWords({ levels }) {
  return [el("b", {}, `${levels[0][0]} ${chance(levels[0][1])}`),
    el("small", {}, levels.slice(1).filter(([, p]) => p >= 0.005).map(([level, p]) => `${level} ${chance(p)}`).join(", "))];
}

function rangeWords({ value, low, high, curve }) {
  const step = 100 / Math.max(1, curve.length - 1);
  const line = curve.map((height, k) => `${(k * step).toFixed(1)},${(20 - 18 * height).toFixed(1)}`).join("L");
  return [el("b", {}, value ?? "?"), el("small", {}, `80 %: ${low} to ${high}`),
    svg("svg", { class: "density", viewBox: "0 0 100 20", preserveAspectRatio: "none", "aria-hidden": "true" },
      svg("path", { d: `M0,20L${line}L100,20Z` }))];
}
