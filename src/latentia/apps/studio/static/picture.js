// A picture of eight by eight squares, drawn with a brush on a grid four times as fine: the ink of
// a square is how many of its sixteen fine squares are black, as in the digits it is compared with.

export const SIDE = 8, FINE = 4, INK = 16;
const BRUSH = { draw: 2.1, erase: 3, hide: 0, show: 0 }; // radius in fine squares

export class Picture {
  constructor() {
    this.clear();
  }

  clear() {
    this.fine = new Uint8Array((SIDE * FINE) ** 2);
    this.base = new Float64Array(SIDE * SIDE); // ink of an example
    this.hidden = new Uint8Array(SIDE * SIDE);
    this.emptyIsKnown = false;
  }

  load(pixels) {
    this.clear();
    this.base.set(pixels);
    this.emptyIsKnown = true;
  }

  ink(place) {
    const row = Math.floor(place / SIDE), column = place % SIDE;
    let total = this.base[place];
    for (let i = 0; i < FINE; i += 1) {
      for (let j = 0; j < FINE; j += 1) total += this.fine[(row * FINE + i) * SIDE * FINE + column * FINE + j];
    }
    return Math.min(INK, total);
  }

  isKnown(place) {
    return !this.hidden[place] && (this.emptyIsKnown || this.ink(place) > 0);
  }

  /** What the model is asked: ink, or null where nothing is known. */
  pixels() {
    return Array.from({ length: SIDE * SIDE }, (_, place) => (this.isKnown(place) ? this.ink(place) : null));
  }

  /** A touch of a tool at a point, in squares. */
  touch(tool, x, y) {
    const place = Math.floor(y) * SIDE + Math.floor(x);
    if (x < 0 || y < 0 || x >= SIDE || y >= SIDE) return;
    if (tool === "hide") this.hidden[place] = 1;
    else this.#brush(tool, x * FINE, y * FINE);
  }

  #brush(tool, x, y) {
    const radius = BRUSH[tool], edge = SIDE * FINE;
    for (let i = Math.max(0, Math.floor(y - radius)); i < Math.min(edge, y + radius); i += 1) {
      for (let j = Math.max(0, Math.floor(x - radius)); j < Math.min(edge, x + radius); j += 1) {
        if ((i + 0.5 - y) ** 2 + (j + 0.5 - x) ** 2 > radius ** 2) continue;
        const place = Math.floor(i / FINE) * SIDE + Math.floor(j / FINE);
        this.fine[i * edge + j] = tool === "draw" ? 1 : 0;
        this.hidden[place] = 0;
        if (tool === "erase") this.base[place] = 0;
      }
    }
  }

  /** The whole square: from blank to full ink, and back. */
  toggle(place) {
    const full = this.ink(place) > INK / 2;
    this.#fillSquare(place, full ? 0 : 1);
    this.base[place] = 0;
    this.hidden[place] = 0;
  }

  #fillSquare(place, value) {
    const row = Math.floor(place / SIDE), column = place % SIDE;
    for (let i = 0; i < FINE; i += 1) this.fine.fill(value, (row * FINE + i) * SIDE * FINE + column * FINE, (row * FINE + i) * SIDE * FINE + (column + 1) * FINE);
  }

  /** Hide the squares for which `which(row, column)` is true. */
  hide(which) {
    this.hidden.forEach((_, place) => { this.hidden[place] = which(Math.floor(place / SIDE), place % SIDE) ? 1 : 0; });
  }
}
