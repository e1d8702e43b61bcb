// A file that is dropped anywhere on the page, or chosen.

const isModel = (file) => file.name.toLowerCase().endsWith(".latentia");

/** Files dropped on the page go to `open(file, isModel)`. */
export function takeDrops(open) {
  const mark = (on) => document.body.classList.toggle("dropping", on);
  addEventListener("dragover", (event) => {
    event.preventDefault();
    mark(true);
  });
  addEventListener("dragleave", (event) => {
    if (event.relatedTarget === null) mark(false);
  });
  addEventListener("drop", (event) => {
    event.preventDefault();
    mark(false);
    const file = event.dataTransfer.files[0];
    if (file) open(file, isModel(file));
  });
}

/** What an input of files was given. */
export function chosenFile(input, open) {
  const file = input.files[0];
  input.value = ""; // the same file may be chosen again
  if (file) open(file, isModel(file));
}
