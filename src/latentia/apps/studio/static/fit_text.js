// Text that has to fit into a drawing is measured, and cut where it is too long.

const ruler = document.createElement("canvas").getContext("2d");

/** How wide text is, in pixels. */
export function textWidth(text, size = 12, weight = 400) {
  ruler.font = `${weight} ${size}px ${getComputedStyle(document.body).fontFamily}`;
  return ruler.measureText(text).width;
}

/** The text, or as much of it as there is room for. */
export function fitText(text, room, size = 12, weight = 400) {
  if (textWidth(text, size, weight) <= room) return text;
  let length = text.length - 1;
  while (length > 1 && textWidth(`${text.slice(0, length)}…`, size, weight) > room) length -= 1;
  return `${text.slice(0, length)}…`;
}
