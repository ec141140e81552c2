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
