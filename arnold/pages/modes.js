// Buttons that choose how a drawing is coloured (data-mode), each with its legend (data-key).
function showMode(mode) {
  document.querySelectorAll("[data-key]").forEach((key) => { key.hidden = key.dataset.key !== mode; });
  document.querySelectorAll("[data-mode]").forEach((button) => {
    button.setAttribute("aria-pressed", String(button.dataset.mode === mode));
  });
}

function onMode(choose) {
  document.querySelectorAll("[data-mode]").forEach((button) => {
    button.addEventListener("click", () => choose(button.dataset.mode));
  });
}

// A colour of its own for each of many things that are numbered: neighbours lie far apart in hue.
function hue(number) {
  return `oklch(${[0.62, 0.74, 0.52][number % 3]} 0.13 ${((number * 137.508) % 360).toFixed(1)})`;
}
