"use strict";
// Tooltips and the light/dark switch.  Squares stand in the order of the page's data: the i-th square is the i-th node.
const page = JSON.parse(document.getElementById("data").textContent);
const squares = [...document.querySelectorAll("svg.cluster .n")];
const positionOf = new Map(squares.map((square, i) => [square, i]));
const tip = document.getElementById("tip");
const moreLines = []; // functions that add lines to the tooltip of the i-th node
const tipOf = []; // functions that give the lines of an element, or null
const root = document.documentElement;

function linesOf(i) {
  const kind = page.types[page.type[i]];
  const gpus = `${page.free[i]} of ${page.gpus[i]} ${kind ? `${kind} GPUs` : "GPUs"} free`;
  const lines = [page.names[i], page.places[page.place[i]], gpus];
  if (page.flags[i]) lines.push(page.flags[i]);
  return lines.concat(...moreLines.map((more) => more(i)));
}

tipOf.push((element) => (positionOf.has(element) ? linesOf(positionOf.get(element)) : null));
tipOf.push((element) => (element.dataset && element.dataset.tip ? element.dataset.tip.split("\n") : null));

function showTip(event) {
  const lines = tipOf.reduce((found, give) => found || give(event.target), null) || [];
  tip.classList.toggle("on", lines.length > 0);
  if (!lines.length) return;
  tip.replaceChildren(...lines.filter(Boolean).map((line) => {
    const row = document.createElement("div");
    row.textContent = line;
    return row;
  }));
  const { width, height } = tip.getBoundingClientRect();
  const x = event.clientX + 14 + width > innerWidth ? event.clientX - 14 - width : event.clientX + 14;
  const y = event.clientY + 16 + height > innerHeight ? event.clientY - 12 - height : event.clientY + 16;
  tip.style.transform = `translate(${Math.max(4, x)}px, ${Math.max(4, y)}px)`;
}

document.addEventListener("pointermove", showTip);
document.addEventListener("pointerdown", showTip);
document.addEventListener("scroll", () => tip.classList.remove("on"), { passive: true });

// What is larger than its frame shows that it goes on, and can be scrolled from the keyboard too, under the name of its
// section.
function reach() {
  document.querySelectorAll(".scroll, .list").forEach((frame) => {
    const cut = frame.scrollWidth > frame.clientWidth + 1;
    const deep = frame.scrollHeight > frame.clientHeight + 1;
    const heading = frame.closest("section")?.querySelector("h2");
    frame.classList.toggle("cut", cut);
    frame.classList.toggle("deep", deep);
    if (!cut && !deep) {
      ["tabindex", "role", "aria-label"].forEach((name) => frame.removeAttribute(name));
      return;
    }
    frame.tabIndex = 0;
    frame.setAttribute("role", "group");
    frame.setAttribute("aria-label", heading ? heading.textContent.trim() : "Drawing");
  });
}
addEventListener("resize", reach);
reach();

document.getElementById("theme").addEventListener("click", () => {
  const dark = matchMedia("(prefers-color-scheme: dark)").matches;
  const now = root.dataset.theme || (dark ? "dark" : "light");
  root.dataset.theme = now === "dark" ? "light" : "dark";
});
