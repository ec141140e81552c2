// What charts over time say when the pointer rests on them, in numbers as ground/quantities.py writes them.  Times are
// seconds since the first submission.
function short(value) {
  return Math.abs(value) >= 100 || Number.isInteger(value)
    ? Math.round(value).toLocaleString("en") : String(Number(value.toPrecision(3)));
}

function spoken(seconds) {
  if (seconds === null) return "-";
  const units = [[86400, "d"], [3600, "h"], [60, "min"], [1, "s"], [0.001, "ms"]];
  const [size, unit] = units.find((one) => Math.abs(seconds) >= one[0]) || [1, "s"];
  return `${short(seconds / size)} ${unit}`;
}

function clock(seconds) {
  const whole = Math.floor(seconds);
  const two = (number) => String(number).padStart(2, "0");
  const time = `${two(Math.floor(whole / 3600) % 24)}:${two(Math.floor(whole / 60) % 60)}:${two(whole % 60)}`;
  return page.length < 86400 ? time : `day ${Math.floor(whole / 86400)}, ${time.slice(0, 5)}`;
}

function worth(value, kind) {
  if (value === null) return "-";
  if (kind === "share") return `${(100 * value).toFixed(1)}%`;
  return kind === "seconds" ? spoken(value) : short(value);
}

function bucketAt(edges, time) {
  let low = 0;
  let high = edges.length - 2;
  while (low < high) {
    const middle = (low + high + 1) >> 1;
    if (edges[middle] <= time) low = middle; else high = middle - 1;
  }
  return low;
}

document.addEventListener("pointermove", (event) => {
  const svg = event.target.closest ? event.target.closest("svg.time") : null;
  if (!svg || !event.target.classList.contains("hit")) return;
  const chart = page.charts[svg.dataset.chart];
  const edges = chart.edges || page.edges;
  const box = event.target.getBoundingClientRect();
  const time = (edges.at(-1) * (event.clientX - box.left)) / box.width;
  const bucket = bucketAt(edges, time);
  const lines = chart.lines.map(([name, values]) => `${name}: ${worth(values[bucket], chart.kind)}`);
  event.target.dataset.tip = [`${clock(edges[bucket])} to ${clock(edges[bucket + 1])}`, ...lines].join("\n");
}, true);
