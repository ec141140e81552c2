// The drawing of the cluster made larger inside its frame: by two fingers, by the wheel with Ctrl, by buttons.
const LARGEST = 8;
const drawing = document.querySelector("svg.cluster");
let zoom = 1;
let between = 0; // fingers, pixels

// What stands at the place stays there.
function enlarge(factor, x, y) {
  const before = drawing.getBoundingClientRect();
  const own = before.width / zoom;
  zoom = Math.min(LARGEST, Math.max(1, zoom * factor));
  Object.assign(drawing.style, zoom === 1
    ? { width: "", minWidth: "", maxWidth: drawing.dataset.most }
    : { width: `${own * zoom}px`, minWidth: "0", maxWidth: "none" });
  const after = drawing.getBoundingClientRect();
  const grown = after.width / before.width;
  drawing.parentElement.scrollLeft += (x - before.left) * grown - (x - after.left);
  scrollBy(0, (y - before.top) * grown - (y - after.top));
  reach();
}

function onFingers(event) {
  if (event.touches.length !== 2) {
    between = 0;
    return;
  }
  event.preventDefault();
  const [one, other] = event.touches;
  const apart = Math.hypot(one.clientX - other.clientX, one.clientY - other.clientY);
  if (between) enlarge(apart / between, (one.clientX + other.clientX) / 2, (one.clientY + other.clientY) / 2);
  between = apart;
}

if (drawing) {
  const frame = drawing.parentElement;
  drawing.dataset.most = drawing.style.maxWidth;
  const buttons = document.createElement("div");
  buttons.className = "zoom";
  for (const [words, factor] of [["Smaller", 1 / 1.5], ["Larger", 1.5]]) {
    const button = document.createElement("button");
    Object.assign(button, { type: "button", textContent: words });
    button.addEventListener("click", () => {
      const { left, top, width } = frame.getBoundingClientRect();
      enlarge(factor, left + width / 2, top);
    });
    buttons.append(button);
  }
  frame.before(buttons);
  for (const kind of ["touchstart", "touchmove", "touchend", "touchcancel"]) {
    frame.addEventListener(kind, onFingers, { passive: false });
  }
  frame.addEventListener("wheel", (event) => {
    if (!event.ctrlKey) return;
    event.preventDefault();
    enlarge(Math.exp(-event.deltaY / 200), event.clientX, event.clientY);
  }, { passive: false });
}
