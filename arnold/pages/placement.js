"use strict";
// Which placement is shown, how its cells are coloured, and which row and column are lit.  Geometry is not touched.
const CLASS_OF = { o: "open", p: "partly", b: "busy", k: "kept_out" };
const cellsOfGrid = [...document.querySelectorAll("svg.grid .g")];
const gridIndex = new Map(cellsOfGrid.map((cell, i) => [cell, i]));
const select = document.getElementById("run");
const sentence = document.getElementById("verdict");
const ranks = document.getElementById("ranks");
let run = 0;
let mode = "stage";
let cellAt = new Map(); // square -> cell of the run that is drawn
let litCell = null;

function colourOf(cell) {
  if (mode === "stage") return page.colours.stage[cell % page.columns];
  if (mode === "row") return page.colours.row[Math.floor(cell / page.columns)];
  return page.colours.domain[page.domain[page.runs[run].cells[cell]]];
}

function draw() {
  const cells = page.runs[run].cells;
  cellAt = new Map(cells.map((square, cell) => [square, cell]));
  squares.forEach((square, i) => {
    const cell = cellAt.get(i);
    const placed = cell !== undefined;
    square.setAttribute("class", `n ${placed ? "placed" : CLASS_OF[page.base[i]]}`);
    square.style.fill = placed ? colourOf(cell) : "";
  });
  cellsOfGrid.forEach((mark, cell) => { mark.style.fill = page.colours.domain[page.domain[cells[cell]]]; });
  listDomains(cells);
  listRanks();
  document.querySelectorAll("svg.cluster .note").forEach((note) => {
    note.textContent = page.runs[run].notes[note.dataset.frame];
  });
  document.querySelectorAll("[data-labels]").forEach((g) => g.toggleAttribute("hidden", Number(g.dataset.labels) !== run));
  document.querySelectorAll("[data-ring]").forEach((ring) => ring.toggleAttribute("hidden", Number(ring.dataset.ring) !== run));
  tell(page.runs[run]);
  if (select) select.value = String(run);
  document.querySelectorAll(".run-name").forEach((name) => { name.textContent = page.runs[run].name; });
  document.querySelectorAll("tr[data-run]").forEach((row) => {
    const on = Number(row.dataset.run) === run;
    row.classList.toggle("on", on);
    row.querySelector("button").setAttribute("aria-pressed", String(on));
  });
  showMode(mode);
}

// The sentence, the tiles and the spread at every level.
function tell(shown) {
  if (sentence.textContent !== shown.verdict) sentence.textContent = shown.verdict;
  document.querySelectorAll("[data-fact]").forEach((tile) => {
    const [value, name, small] = shown.facts[tile.dataset.fact];
    tile.querySelector("span").textContent = value;
    tile.querySelector("dt").textContent = name;
    tile.querySelector(".small").textContent = small;
  });
  document.querySelectorAll(".facts .seal").forEach((seal) => { seal.hidden = !shown.proved; });
  const numbers = shown.spreads.flatMap(([, families]) => families);
  document.querySelectorAll("[data-spread]").forEach((cell, i) => { cell.textContent = numbers[i]; });
}

function listDomains(cells) {
  const list = document.getElementById("domains");
  if (!list) return;
  const counts = new Map();
  for (const square of cells) counts.set(page.domain[square], (counts.get(page.domain[square]) || 0) + 1);
  list.replaceChildren(...[...counts.keys()].sort((a, b) => a - b).map((domain) => {
    const item = document.createElement("li");
    const swatch = document.createElement("span");
    swatch.className = "swatch";
    swatch.style.background = page.colours.domain[domain];
    const text = document.createElement("span");
    const count = document.createElement("b");
    count.textContent = counts.get(domain);
    text.append(page.domains[domain], " ", count);
    item.append(swatch, text);
    item.addEventListener("pointerenter", () => light((cell) => page.domain[cells[cell]] === domain, null));
    item.addEventListener("pointerleave", unlight);
    return item;
  }));
}

function listRanks() {
  if (!ranks.open) return;
  const cells = page.runs[run].cells;
  const columns = [...ranks.querySelectorAll("[data-column]")].map((header) => header.dataset.column);
  const cellOf = new Map(page.rank.map((rank, cell) => [rank, cell]));
  ranks.querySelector("tbody").replaceChildren(...[...cellOf.keys()].sort((a, b) => a - b).map((rank) => {
    const cell = cellOf.get(rank);
    const square = cells[cell];
    const said = { rank, node: page.names[square], place: page.places[page.place[square]], ...placeInJob(cell) };
    const row = document.createElement("tr");
    for (const column of columns) {
      const part = document.createElement(column === "rank" ? "th" : "td");
      if (column === "rank") part.scope = "row";
      part.textContent = said[column];
      row.append(part);
    }
    return row;
  }));
  reach();
}

function light(chosen, target) {
  const cells = page.runs[run].cells;
  document.body.classList.add("lit");
  cells.forEach((square, cell) => {
    const glow = chosen(cell);
    for (const element of [squares[square], cellsOfGrid[cell]]) {
      if (!element) continue;
      element.classList.toggle("glow", glow);
      element.classList.toggle("target", cell === target);
    }
  });
}

function unlight() {
  document.body.classList.remove("lit");
  litCell = null;
}

function cellUnder(element) {
  if (gridIndex.has(element)) return gridIndex.get(element);
  return positionOf.has(element) ? cellAt.get(positionOf.get(element)) : undefined;
}

function follow(event) {
  const cell = cellUnder(event.target);
  if (cell === undefined) {
    if (litCell !== null) unlight();
    return;
  }
  if (cell === litCell) return;
  litCell = cell;
  const row = Math.floor(cell / page.columns);
  const column = cell % page.columns;
  // a DP group is the cells of a column that have the same part of a TP group
  light((other) => {
    const otherRow = Math.floor(other / page.columns);
    return otherRow === row || (other % page.columns === column && otherRow % page.parts === row % page.parts);
  }, cell);
}

function placeInJob(cell) {
  const row = Math.floor(cell / page.columns);
  return { dp: Math.floor(row / page.parts), pp: cell % page.columns, part: row % page.parts };
}

function lineOfCell(cell) {
  const { dp, pp, part } = placeInJob(cell);
  return `cell: dp ${dp}, pp ${pp}${page.parts > 1 ? `, part ${part}` : ""}, node_rank ${page.rank[cell]}`;
}

function choose(number) {
  run = number;
  unlight();
  draw();
}

// Up to the map, with the tiles and the sentence above it where there is room; from the list of algorithms the arrow keys
// go on to the next one.
function goUp() {
  const map = document.getElementById("on-cluster").closest("section");
  const above = (part) => map.getBoundingClientRect().top - part.getBoundingClientRect().top;
  const first = [sentence, document.querySelector(".facts"), map].find((part) => above(part) < 0.4 * innerHeight);
  const still = matchMedia("(prefers-reduced-motion: reduce)").matches;
  first.scrollIntoView({ block: "start", behavior: still ? "auto" : "smooth" });
  select.focus({ preventScroll: true });
}

moreLines.push((i) => (cellAt.has(i) ? [lineOfCell(cellAt.get(i))] : []));
tipOf.push((element) => {
  if (!gridIndex.has(element)) return null;
  return linesOf(page.runs[run].cells[gridIndex.get(element)]);
});

document.addEventListener("pointermove", follow);
document.addEventListener("pointerdown", follow);
ranks.addEventListener("toggle", listRanks);
onMode((chosen) => { mode = chosen; draw(); });
document.querySelectorAll("tr[data-run]").forEach((row) => {
  row.addEventListener("click", () => {
    choose(Number(row.dataset.run));
    goUp();
  });
});
if (select) select.addEventListener("change", () => choose(Number(select.value)));
draw();
