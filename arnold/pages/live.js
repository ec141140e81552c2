// The cluster as it is now: rows of tables by key, of which news bring those that changed.
const LARGEST_LIST = 200;
const SILENT = 7000; // milliseconds without a word after which nothing is known any more
const none = () => Object.create(null); // keys are names that others gave, __proto__ too
const rows = none(); // table -> key -> row
const lines = none(); // table -> key -> its line in the page
const keptText = sessionStorage.getItem("arnold.live");
let mode = "gang";
let lit = "";
let heard = 0; // when news came last, by the clock of this machine
let news = null; // the last ones

function row(table, key) {
  return (rows[table] || none())[key];
}

function gangAt(i) {
  const number = (row("nodes", i) || [0])[0];
  return number ? gangOf.get(number) : undefined;
}
let gangOf = new Map(); // number -> name

function paint(square, i) {
  const [number, used, kind] = row("nodes", i) || [0, 0, 1];
  const share = page.gpus[i] ? (100 * used) / page.gpus[i] : 0;
  page.free[i] = kind === 1 || number ? 0 : page.gpus[i] - used; // what is promised is free for nobody
  const flag = row("flags", page.names[i]);
  page.flags[i] = flag ? [flag[0], flag[1]].filter(Boolean).join(": ") : undefined;
  const away = kind === 1 && !(number && used);
  square.classList.toggle("away", away);
  square.classList.toggle("slow", kind !== 0 && !away);
  square.classList.toggle("idle", !away && !number && !used);
  square.classList.toggle("busy", !away && !number && used > 0 && mode === "gang");
  square.classList.toggle("promised", !away && number > 0 && !used && mode === "gang");
  square.classList.toggle("lit", lit !== "" && gangAt(i) === lit);
  let fill = "";
  if (!away && mode === "gang" && number) fill = hue(number);
  if (!away && mode === "use" && (used || number)) fill = `color-mix(in oklab, var(--accent) ${share}%, var(--box))`;
  square.style.fill = fill;
}

moreLines.push((i) => {
  const state = row("nodes", i);
  if (!state) return ["not in the cluster any more"];
  const gang = gangAt(i);
  return gang ? [`gang ${gang}${state[1] ? "" : ": promised, pods yet to come"}`] : [];
});

function moment(seconds) {
  return seconds === null ? "-" : new Date(1000 * seconds).toISOString().slice(0, 16).replace("T", " ");
}

function cellText(value, kind) {
  if (kind === "age") return value === null ? "-" : spoken(Math.max(1, Math.round(news.now - value)));
  if (kind === "time") return moment(value);
  if (value === null || value === "") return "-";
  return typeof value === "number" ? value.toLocaleString("en") : value;
}

const ORDERS = {
  waiting: (a, b) => b[4] - a[4] || (a[5] ?? Infinity) - (b[5] ?? Infinity),
  placed: (a, b) => b[3] - a[3],
  flags: () => 0,
  reservations: (a, b) => a[4] - b[4],
};

function line(table, key, kinds) {
  const of = (lines[table] ||= none());
  if (of[key]) return of[key];
  const made = document.createElement("tr");
  kinds.forEach((kind, i) => {
    const cell = document.createElement(i ? "td" : "th");
    if (!i) cell.scope = "row";
    cell.className = ["r", "age", "time"].includes(kind) ? "r nowrap" : kind;
    made.append(cell);
  });
  if (table === "placed") {
    const [swatch, button] = [document.createElement("span"), document.createElement("button")];
    swatch.className = "swatch";
    Object.assign(button, { type: "button", textContent: key });
    button.addEventListener("click", () => light(key));
    made.cells[0].append(swatch, button);
  } else {
    made.cells[0].textContent = key;
  }
  of[key] = made;
  return made;
}

function showTable(table) {
  const element = document.querySelector(`[data-table="${table}"]`);
  const body = element.tBodies[0];
  const kinds = [...element.tHead.rows[0].cells].map((head) => head.dataset.kind);
  const of = rows[table] || {};
  const wanted = ["placed", "waiting"].includes(table) ? document.getElementById("search").value.trim().toLowerCase() : "";
  const keys = Object.keys(of).filter((key) => key.toLowerCase().includes(wanted));
  keys.sort((a, b) => ORDERS[table](of[a], of[b]) || (a < b ? -1 : 1));
  const shown = keys.slice(0, LARGEST_LIST);
  document.getElementById(`${table}-none`).hidden = Object.keys(of).length > 0;
  element.parentElement.hidden = Object.keys(of).length === 0;
  const many = keys.length > shown.length ? `${keys.length.toLocaleString("en")}, the first ${shown.length} shown` : String(keys.length);
  document.getElementById(`${table}-count`).textContent = many;
  shown.forEach((key, place) => {
    const made = line(table, key, kinds);
    const values = table === "placed" ? of[key].slice(1) : of[key];
    values.forEach((value, i) => {
      const text = cellText(value, kinds[i + 1]);
      if (made.cells[i + 1].textContent !== text) made.cells[i + 1].textContent = text;
    });
    if (table === "placed") {
      made.querySelector(".swatch").style.background = hue(of[key][0]);
      made.querySelector("button").setAttribute("aria-pressed", String(lit === key));
    }
    if (body.rows[place] !== made) body.insertBefore(made, body.rows[place] || null);
  });
  while (body.rows.length > shown.length) body.lastChild.remove();
  Object.keys(lines[table] || {}).forEach((key) => { if (!of[key]) delete lines[table][key]; });
}

function light(gang) {
  lit = gang === lit || gang === undefined ? "" : gang;
  squares.forEach(paint);
  showTable("placed");
}

function showFacts() {
  Object.entries(rows.facts || {}).forEach(([i, [value, small]]) => {
    const tile = document.querySelector(`[data-fact="${i}"]`);
    tile.querySelector("dd > span").textContent = value;
    tile.querySelector(".small").textContent = small;
  });
  const notes = Object.keys(rows.notes || {});
  document.getElementById("notes-card").hidden = notes.length === 0;
  document.getElementById("notes").replaceChildren(...notes.map((note) => {
    const item = document.createElement("li");
    item.textContent = note;
    return item;
  }));
}

// What was last seen is never shown as what is: neither where the cluster is lost to the server, nor the server to us.
function showState() {
  const silent = performance.now() - heard > SILENT;
  const lost = silent ? "this page has lost its server" : (row("state", "lost") || ["not read yet"])[0];
  const element = document.getElementById("state");
  const words = lost === "" ? "Live" : `Not known now: ${lost}`;
  if (element.textContent !== words) element.textContent = words;
  element.className = lost === "" ? "live" : "lost";
  const seen = news && news.seen !== null ? new Date(1000 * news.seen).toISOString().slice(0, 19).replace("T", " ") : null;
  document.getElementById("seen").textContent = seen ? `${lost === "" ? "as of" : "last seen at"} ${seen} UTC` : "";
  document.body.classList.toggle("away-from-us", lost !== "");
}

function take(message) {
  news = message;
  heard = performance.now();
  if (message.shape !== page.shape) {
    sessionStorage.setItem("arnold.live", JSON.stringify({ mode, lit, theme: root.dataset.theme || "" }));
    location.reload();
    return;
  }
  if (message.all) Object.keys(rows).forEach((table) => { rows[table] = none(); });
  Object.entries(message.gone).forEach(([table, keys]) => keys.forEach((key) => { delete (rows[table] || {})[key]; }));
  Object.entries(message.rows).forEach(([table, some]) => { rows[table] = Object.assign(rows[table] || none(), some); });
  gangOf = new Map(Object.entries(rows.placed || {}).map(([name, of]) => [of[0], name]));
  if (lit && !row("placed", lit)) lit = "";
  const drawn = new Set(message.all || message.rows.flags || message.gone.flags ? squares.keys() : []);
  for (const key of [...Object.keys(message.rows.nodes || {}), ...(message.gone.nodes || [])]) drawn.add(Number(key));
  drawn.forEach((i) => paint(squares[i], i));
  const touched = Object.keys(ORDERS).filter((table) => message.all || message.rows[table] || message.gone[table]);
  new Set([...touched, "waiting"]).forEach(showTable); // how long a gang waits changes by itself
  showFacts();
  showState();
  if (touched.length) reach();
}

function start() {
  if (keptText) {
    const kept = JSON.parse(keptText);
    sessionStorage.removeItem("arnold.live");
    ({ mode, lit } = kept);
    if (kept.theme) root.dataset.theme = kept.theme;
  }
  showMode(mode);
  onMode((chosen) => { mode = chosen; showMode(mode); squares.forEach(paint); });
  squares.forEach((square, i) => square.addEventListener("click", () => light(gangAt(i))));
  document.getElementById("search").addEventListener("input", () => { showTable("placed"); showTable("waiting"); });
  squares.forEach(paint);
  new EventSource("events").addEventListener("message", (event) => take(JSON.parse(event.data)));
  setInterval(showState, 1000);
}

start();
