// Choosing, searching and showing discussions. Each is parsed when it is first needed.

function data(name) {
  return JSON.parse(document.getElementById(`data-${name}`).textContent);
}

const WORDS = data("words"), INDEX = data("index"), RUNS = Object.keys(data("cards"));
const STORED = document.querySelectorAll("script.discussion");
const PARSED = new Map(), OPENED = new Set();
const HEADER = -1; // instead of an item: the row that names a discussion
const field = (name) => document.getElementById(name);

let rows = [], entries = [], chosen = null, beside = null, kept = null;

function items(discussion) {
  if (!PARSED.has(discussion)) PARSED.set(discussion, JSON.parse(STORED[discussion].textContent));
  return PARSED.get(discussion);
}

function sought() {
  return field("search").value.trim().toLowerCase();
}

function holds(item, words) {
  return item.text.toLowerCase().includes(words) || (item.answer || "").toLowerCase().includes(words);
}

function fits(row) {
  const way = field("of-outcome").value, run = field("of-run").value, seed = field("of-seed").value;
  if (run !== "" && row.run !== Number(run)) return false;
  if (seed !== "" && row.seed !== Number(seed)) return false;
  if (way === "disagreed" || way === "watched") return row[way];
  return way === "" || row.outcome === way;
}

function filter() {
  const words = sought();
  rows = INDEX.map((_, d) => d).filter((d) => fits(INDEX[d]) && (!words || items(d).some((item) => holds(item, words))));
  if (!rows.includes(chosen)) chosen = null;
  field("found").textContent = `${rows.length.toLocaleString("en")} of ${INDEX.length.toLocaleString("en")} discussions`;
  list.show(rows.length);
  fill();
}

// The entries on the right: the chosen discussion, else the search results, else all listed discussions.
function fill() {
  const words = sought();
  entries = [];
  if (chosen === null || !others(chosen).includes(beside)) beside = null;
  if (beside !== null) entries = pairs(chosen, beside);
  else for (const d of chosen === null ? rows : [chosen]) {
    entries.push([d, HEADER]);
    for (let i = 0; i < INDEX[d].items; i++) {
      if (chosen !== null || !words || holds(items(d)[i], words)) entries.push([d, i]);
    }
  }
  messages.show(entries.length);
  if (chosen !== null && beside === null && words) messages.go(Math.max(0, entries.findIndex(([d, i]) => i >= 0 && holds(items(d)[i], words))));
}

// Discussions of the same question and seed in other runs.
function others(d) {
  const same = (row) => row.asked === INDEX[d].asked && row.seed === INDEX[d].seed && row.run !== INDEX[d].run;
  const found = INDEX.map((_, other) => other).filter((other) => same(INDEX[other]));
  const named = found.filter((other) => INDEX[other].id === INDEX[d].id); // a run may ask the same of other documents
  return found.filter((other) => named.includes(other) || !named.some((each) => INDEX[each].run === INDEX[other].run));
}

// Rows of two discussions side by side, aligned by their headings.
function pairs(one, other) {
  const [left, right] = [sections(one), sections(other)], found = [];
  for (let s = 0; s < Math.max(left.length, right.length); s++) {
    const [a, b] = [left[s] || [], right[s] || []];
    for (let i = 0; i < Math.max(a.length, b.length); i++) found.push([one, a[i] ?? null, other, b[i] ?? null]);
  }
  return found;
}

function sections(d) {
  const found = [[HEADER]];
  items(d).forEach((item, i) => { if (item.k === "head") found.push([]); found.at(-1).push(i); });
  return found;
}

function header(d) {
  const made = element("div", "item head");
  made.append(...swatch(INDEX[d]), named(INDEX[d]));
  if (d !== chosen) return made;
  for (const other of others(d)) {
    const on = other === beside, button = element("button", "", `${on ? "without" : "beside"} ${RUNS[INDEX[other].run]}${INDEX[other].id === INDEX[d].id ? "" : ` · ${INDEX[other].id}`}`);
    button.type = "button";
    button.className = "beside";
    button.setAttribute("aria-pressed", String(on));
    button.addEventListener("click", () => { beside = on ? null : other; fill(); });
    made.append(" ", button);
  }
  return made;
}

// A dot in the color that the run has in the plots; none if there is only one run.
function swatch(row) {
  return RUNS.length > 1 ? [element("span", `swatch c${row.run % 10}`)] : [];
}

function named(row) {
  return `${RUNS.length > 1 ? `${RUNS[row.run]} · ` : ""}${row.id} · seed ${row.seed}`;
}

function listRow(entry) {
  const d = rows[entry], row = INDEX[d], made = element("button", d === chosen ? "row chosen" : "row");
  made.type = "button";
  made.setAttribute("role", "option");
  made.setAttribute("aria-selected", String(d === chosen));
  made.append(...swatch(row), element("span", "aside", named(row)), " ", element("span", `way ${row.outcome}`, row.outcome));
  made.append(element("span", "text", row.text));
  made.addEventListener("click", () => { chosen = d === chosen ? null : d; list.again(); fill(); });
  return made;
}

function itemRow(entry) {
  const [d, i, other, j] = entries[entry];
  if (other === undefined) return itemOrHeader(d, i);
  const made = element("div", "pair");
  made.append(itemOrHeader(d, i), itemOrHeader(other, j));
  return made;
}

function itemOrHeader(d, i) {
  if (i === null) return element("div", "item");
  if (i === HEADER) return header(d);
  const item = items(d)[i];
  if (item.k === "head") return element("div", "item head", item.text);
  return item.k === "line" ? line(item) : said(item, `${d}/${i}`);
}

function line(item) {
  const made = element("div", `item line ${item.style}`);
  if (item.answer) made.append(element("strong", "", item.answer), "  ");
  made.append(item.text);
  return made;
}

function said(item, key) {
  const outer = element("div", "item"), made = outer.appendChild(element("div", item.mark ? "said marked" : "said"));
  made.append(element("span", "who", item.who), " ", element("span", "place", item.place));
  if (item.mark) made.append(" ", element("span", "mark", item.mark));
  if (item.thoughts) made.append(folded([["thinks", item.thoughts]], `${key}/thoughts`, "the thoughts"));
  made.append(body(item, key));
  if (item.public) made.append(element("div", "line aside", `others hear: ${item.public}`));
  made.append(element("div", "foot", item.foot));
  if (item.asked) made.append(folded(item.asked, key, "the prompt"));
  return outer;
}

function folded(turns, key, name) {
  const open = OPENED.has(key), made = element("div"), button = element("button", "", `${open ? "hide" : "show"} ${name}`);
  button.type = "button";
  button.setAttribute("aria-expanded", String(open));
  button.addEventListener("click", () => { if (open) OPENED.delete(key); else OPENED.add(key); messages.again(); });
  made.append(button);
  for (const [role, text] of open ? turns : []) {
    const turn = made.appendChild(element("div", "asked"));
    turn.append(element("span", "role", `${role}: `), text);
  }
  return made;
}

function itemOf(key) {
  const [d, i] = key.split("/").map(Number);
  return items(d)[i];
}

function tell(key, token) {
  field("token").replaceChildren(...panel(itemOf(key), token));
}

// Choose the first visible token, so that the arrow keys work without a mouse.
function first() {
  const at = document.querySelector("#items .t")?.dataset;
  if (at) keep(at.key, Number(at.token));
}

function keep(key, token) {
  const item = itemOf(key);
  if (token < 0 || token >= laid(item.tokens).ends.length) return;
  kept = [key, token];
  document.querySelectorAll(".t.chosen").forEach((each) => each.classList.remove("chosen"));
  document.querySelector(`.t[data-key="${key}"][data-token="${token}"]`)?.classList.add("chosen");
  tell(key, token);
}

const list = new LongList(field("discussions"), 60, listRow);
const messages = new LongList(field("items"), 110, itemRow);
const under = (event) => event.target.closest?.(".t")?.dataset;

field("items").addEventListener("mouseover", (event) => { const at = under(event); if (at && !kept) tell(at.key, Number(at.token)); });
field("items").addEventListener("click", (event) => { const at = under(event); if (at) keep(at.key, Number(at.token)); });
document.addEventListener("keydown", (event) => {
  const step = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
  if (event.target.closest?.("form")) return;
  if (!kept) { if (step && event.target === field("items")) first(); return; }
  if (event.key === "Escape") { kept = null; document.querySelector(".t.chosen")?.classList.remove("chosen"); }
  if (step) { event.preventDefault(); keep(kept[0], kept[1] + step); }
});
let waiting = 0;
field("find").addEventListener("submit", (event) => event.preventDefault());
field("find").addEventListener("input", () => { clearTimeout(waiting); waiting = setTimeout(filter, 150); });
filter();
