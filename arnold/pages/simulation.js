// The cluster over time, the cursor of the charts, and the table of jobs with its search.
const LARGEST_LIST = 200;
const slider = document.getElementById("slider");
const cells = { owner: null, share: null, classes: null, named: new Map(), info: null };
let frame = 0;
let mode = "size";
let timer = 0;
let lit = 0;

async function unpack(text) {
  const bytes = Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0));
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate"));
  return new Response(stream).arrayBuffer();
}

async function unpackJson(text) {
  return JSON.parse(new TextDecoder().decode(await unpack(text)));
}

function paint(square, job, share) {
  square.classList.toggle("away", share === 255);
  square.classList.toggle("busy", share === 254);
  square.classList.toggle("idle", share < 254 && job === 0);
  for (let i = 0; i < 5; i += 1) {
    square.classList.toggle(`s${i}`, mode === "size" && share < 254 && job > 0 && cells.classes[job - 1] === i);
  }
  let fill = "";
  if (share < 254 && job > 0 && mode === "job") fill = hue(job);
  if (share < 254 && job > 0 && mode === "use") fill = `color-mix(in oklab, var(--accent) ${share}%, var(--box))`;
  square.style.fill = fill;
}

function slowAt(time) {
  return new Map(page.map.slow.filter(([, begin, end]) => begin <= time && time < end).map(([i, , , by]) => [i, by]));
}

function draw() {
  const count = squares.length;
  const start = frame * count;
  for (let i = 0; i < count; i += 1) {
    const job = cells.owner[start + i];
    const share = cells.share[start + i];
    page.free[i] = share >= 254 ? 0 : Math.floor(page.gpus[i] * (1 - share / 100) + 0.02);
    paint(squares[i], job, share);
    squares[i].classList.toggle("lit", lit > 0 && job === lit);
  }
  const time = page.map.times[frame];
  const slow = slowAt(time);
  squares.forEach((square, i) => square.classList.toggle("slow", slow.has(i)));
  const label = document.getElementById("time-label");
  label.textContent = clock(time);
  if (page.origin > 1e8) {
    const date = document.createElement("span");
    date.textContent = `${new Date((page.origin + time) * 1000).toISOString().slice(0, 16).replace("T", " ")} UTC`;
    label.append(date);
  }
  slider.setAttribute("aria-valuetext", clock(time));
  moveCursors(time);
  showMode(mode);
}

function moveCursors(time) {
  document.querySelectorAll("svg.time .cursor").forEach((line) => {
    const svg = line.closest("svg");
    if (page.charts[svg.dataset.chart].edges) return;
    const x = Number(svg.dataset.left) + (Number(svg.dataset.wide) * time) / page.length;
    line.setAttribute("x1", x);
    line.setAttribute("x2", x);
  });
}

moreLines.push((i) => {
  if (!cells.owner) return [];
  const share = cells.share[frame * squares.length + i];
  const job = cells.owner[frame * squares.length + i];
  if (share === 255) return ["away: no job may use it"];
  if (share === 254) return ["in use by others, as the cluster file says"];
  const by = slowAt(page.map.times[frame]).get(i);
  const flagged = by === undefined ? [] : [`flagged: ${short(by)} times slower`];
  if (!job) return ["idle", ...flagged];
  const place = cells.named.get(job - 1);
  if (place === undefined) return [`${share}% in use`, ...flagged];
  const info = cells.info;
  const lines = [...flagged, `${share}% in use`, `job ${info.id[place]}: ${short(info.gpus[place])} GPUs, waited ${spoken(info.wait[place])}`];
  if (info.spread[place]) lines.push(`DP spread ${info.spread[place]}`);
  return lines;
});

function show(number) {
  frame = Math.max(0, Math.min(page.map.times.length - 1, number));
  slider.value = String(frame);
  draw();
}

function play() {
  const button = document.getElementById("play");
  if (timer) {
    clearInterval(timer);
    timer = 0;
    button.textContent = "Play";
    return;
  }
  if (frame === page.map.times.length - 1) frame = 0;
  button.textContent = "Stop";
  timer = setInterval(() => {
    if (frame === page.map.times.length - 1) play(); else show(frame + 1);
  }, 60);
}

async function startMap() {
  const [table, classes, info] = await Promise.all([
    unpack(page.map.cells), unpackJson(page.map.classes), unpackJson(page.map.named),
  ]);
  const count = squares.length * page.map.times.length;
  const owner = new Int32Array(table, 0, count);
  for (let i = squares.length; i < count; i += 1) owner[i] += owner[i - squares.length];
  Object.assign(cells, { owner, share: new Uint8Array(table, 4 * count), classes, info });
  info.place.forEach((job, place) => cells.named.set(job, place));
  slider.addEventListener("input", () => show(Number(slider.value)));
  document.getElementById("play").addEventListener("click", play);
  onMode((chosen) => { mode = chosen; draw(); });
  document.querySelectorAll("svg.time .hit").forEach((hit) => hit.addEventListener("click", (event) => {
    const chart = page.charts[hit.closest("svg").dataset.chart];
    if (chart.edges) return;
    const box = hit.getBoundingClientRect();
    show(Math.floor((page.map.times.length * (event.clientX - box.left)) / box.width));
  }));
  squares.forEach((square, i) => square.addEventListener("click", () => {
    const job = cells.owner[frame * squares.length + i];
    lit = job === lit ? 0 : job;
    draw();
  }));
  show(page.map.start);
  document.body.dataset.map = "drawn";
}

async function startTable() {
  const jobs = await unpackJson(page.jobs);
  const body = document.getElementById("rows");
  const search = document.getElementById("search");
  const found = document.getElementById("found");
  const text = jobs.id.map((id, i) => `${id}\n${jobs.user[i]}\n${jobs.queue[i]}`.toLowerCase());
  let order = { column: "submit", down: false };

  function fill() {
    const wanted = search.value.trim().toLowerCase();
    const rows = jobs.id.map((_, i) => i).filter((i) => text[i].includes(wanted));
    const values = jobs[order.column];
    const least = (i) => (values[i] === null ? -1 : values[i]);
    rows.sort((a, b) => {
      const one = least(a);
      const other = least(b);
      const sign = one < other ? -1 : one > other ? 1 : 0;
      return (order.down ? -sign : sign) || a - b;
    });
    body.replaceChildren(...rows.slice(0, LARGEST_LIST).map(row));
    const shown = Math.min(rows.length, LARGEST_LIST);
    found.textContent = `${rows.length.toLocaleString("en")} found${shown < rows.length ? `, the first ${shown} shown` : ""}`;
    document.querySelectorAll("[data-sort]").forEach((button) => {
      const head = button.closest("th");
      if (button.dataset.sort === order.column) head.setAttribute("aria-sort", order.down ? "descending" : "ascending");
      else head.removeAttribute("aria-sort");
    });
  }

  function row(i) {
    const line = document.createElement("tr");
    const values = [jobs.id[i], jobs.user[i], jobs.queue[i], short(jobs.gpus[i]), clock(jobs.submit[i]),
      spoken(jobs.wait[i]), spoken(jobs.took[i]), jobs.spread[i] === null ? "-" : jobs.spread[i], jobs.restarts[i]];
    values.forEach((value, column) => {
      const cell = document.createElement("td");
      cell.textContent = value;
      if (column >= 3) cell.className = "r";
      if (column === 0) cell.className = "name";
      line.append(cell);
    });
    return line;
  }

  search.addEventListener("input", fill);
  document.querySelectorAll("[data-sort]").forEach((button) => button.addEventListener("click", () => {
    const column = button.dataset.sort;
    order = { column, down: order.column === column ? !order.down : column !== "submit" && column !== "id" };
    fill();
  }));
  fill();
  document.body.dataset.jobs = "listed";
}

if (slider) startMap();
startTable();
