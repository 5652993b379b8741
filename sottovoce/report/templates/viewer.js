// Choosing, searching and showing discussions. Each is parsed, or asked for, when it is first needed.

const field = (name) => document.getElementById(name);
const data = (name) => JSON.parse(field(`data-${name}`).textContent);
const WORDS = data("words"), INDEX = data("index"), RUNS = data("runs");
const STORED = document.querySelectorAll("script.discussion");
const PARSED = new Map(), OPENED = new Set();
const HEADER = -1; // instead of an item: the row that names a discussion

const LIVE = document.documentElement.classList.contains("live");
const EXPLAINED = [...field("token").childNodes]; // the panel before anything is chosen

let rows = [], entries = [], order = [], run = null, chosen = null, beside = null;
let kept = null; // the message and the token that the panel shows
const keptOf = new Map(); // the same by discussion, for two side by side

// Where discussions come from: this page. A live page asks its server instead.
let source = {
  items: (d) => JSON.parse(STORED[d].textContent),
  search: (words) => INDEX.map((_, d) => d).filter((d) => items(d).some((item) => holds(item, words))),
  open: () => {},
};

function items(d) {
  if (!PARSED.has(d)) PARSED.set(d, source.items(d));
  return PARSED.get(d);
}

function sought() {
  return field("search").value.trim().toLowerCase();
}

function holds(item, words) {
  return item.text.toLowerCase().includes(words) || (item.answer || "").toLowerCase().includes(words);
}

// With an agent, outcomes are those of its own answer.
function fits(row) {
  const way = field("of-outcome").value, agent = field("of-agent").value, seed = field("of-seed").value;
  if (run !== null && row.run !== run) return false;
  if (seed !== "" && row.seed !== Number(seed)) return false;
  if (agent !== "" && !Object.hasOwn(row.votes, agent)) return false;
  if (way === "disagreed" || way === "watched") return row[way];
  return way === "" || way === (agent === "" ? row.outcome : row.votes[agent]);
}

// Offer what occurs in the index.
function offer(name, values) {
  const select = field(name), known = new Set([...select.options].map((option) => option.value));
  for (const value of new Set(values.map(String))) if (!known.has(value)) select.add(new Option(value, value));
  select.parentElement.hidden = select.options.length <= 2;
}

// `grown`: entries were added or changed, and what is in view stays.
async function filter(grown = false) {
  offer("of-agent", INDEX.flatMap((row) => Object.keys(row.votes)));
  offer("of-seed", INDEX.map((row) => row.seed));
  const words = sought(), hits = words ? new Set(await source.search(words)) : null;
  rows = INDEX.map((_, d) => d).filter((d) => fits(INDEX[d]) && (!hits || hits.has(d)));
  if (!rows.includes(chosen)) chosen = null;
  const filtered = words || ["of-agent", "of-outcome", "of-seed"].some((name) => field(name).value);
  document.querySelector(".finder").classList.toggle("choosing", LIVE && run === null && !filtered);
  field("found").textContent = `${rows.length.toLocaleString("en")} of ${INDEX.length.toLocaleString("en")} discussions`;
  list.active = chosen === null ? Math.min(list.active, rows.length - 1) : rows.indexOf(chosen);
  if (grown) list.grow(rows.length); else list.show(rows.length);
  fill(grown);
}

// The entries in the middle: the chosen discussion, else the search results, else all listed discussions.
function fill(grown = false) {
  const words = sought();
  entries = [];
  if (chosen === null || !others(chosen).includes(beside)) beside = null;
  if (beside !== null) entries = pairs(chosen, beside);
  else for (const d of chosen === null ? rows : [chosen]) {
    entries.push([d, HEADER]);
    for (let i = 0; i < INDEX[d].items; i++) {
      if (chosen !== null || !words || !PARSED.get(d)?.[i] || holds(items(d)[i], words)) entries.push([d, i]);
    }
  }
  if (grown) { messages.grow(entries.length); return; }
  messages.show(entries.length);
  if (chosen !== null && beside === null && words) messages.go(Math.max(0, entries.findIndex(([d, i]) => i >= 0 && items(d)[i] && holds(items(d)[i], words))));
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

function title(d) {
  const made = element("div", "item head");
  made.append(...swatch(INDEX[d].run), named(INDEX[d]));
  return made;
}

function header(d) {
  const made = title(d);
  if (d !== chosen) return made;
  for (const other of others(d)) {
    const on = other === beside, same = INDEX[other].id === INDEX[d].id;
    const button = element("button", "beside", `${on ? "without" : "beside"} ${RUNS[INDEX[other].run].name}${same ? "" : ` · ${INDEX[other].name}`}`);
    button.type = "button";
    button.setAttribute("aria-pressed", String(on));
    button.addEventListener("click", () => { beside = on ? null : other; fill(); });
    made.append(" ", button);
  }
  return made;
}

// A dot in the color that the run has in the plots; none if there is only one run.
function swatch(number) {
  return RUNS.length > 1 ? [element("span", `swatch c${number % 10}`)] : [];
}

function named(row, withRun = true) {
  return `${withRun && RUNS.length > 1 ? `${RUNS[row.run].name} · ` : ""}${row.name}${field("of-seed").options.length > 2 ? ` · seed ${row.seed}` : ""}`;
}

function listRow(entry) {
  const d = rows[entry], row = INDEX[d], made = element("div", "row");
  made.setAttribute("aria-selected", String(d === chosen));
  made.append(...swatch(row.run), element("span", "aside", named(row, run === null)), " ", element("span", `way ${row.outcome}`, row.outcome));
  if (row.disagreed) made.append(" ", element("span", "aside", "disagreed"));
  made.append(element("span", "text", row.text));
  return made;
}

const DATED = /^\d{4}-\d\d-\d\d-/; // a run's name, if it was not chosen

// How runs are sorted; of two that are equal the newer one is first. Unknown shares come last.
const newer = (one, other) => (other.started || "").localeCompare(one.started || "");
const SORTS = {
  date: newer,
  scheme: (one, other) => one.about.localeCompare(other.about) || newer(one, other),
  right: (one, other) => (other.right ?? -1) - (one.right ?? -1) || newer(one, other),
};

function sortRuns() {
  const by = SORTS[field("sort").value];
  order = RUNS.map((_, number) => number);
  if (by) order.sort((one, other) => by(RUNS[one], RUNS[other]));
  runList.active = run === null ? Math.min(runList.active, order.length - 1) : order.indexOf(run);
}

function runRow(entry) {
  const number = order[entry], each = RUNS[number], made = element("div", "row"), going = each.status === "running";
  made.setAttribute("aria-selected", String(number === run));
  const name = made.appendChild(element("span", "text")), about = made.appendChild(element("span", "text aside"));
  name.append(element("span", `swatch c${number % 10}`), each.name);
  if (each.status !== "done") about.append(element("span", going ? "way running" : "way", going ? "live" : each.status), " ");
  if (each.of) about.append(element("span", "way", `${Number((100 * each.right).toFixed(1))}% of ${each.of.toLocaleString("en")}`), " ");
  about.append(each.about);
  if (each.started && !DATED.test(each.name)) name.append(element("span", "aside", ` ${each.started.slice(5, 16).replace("T", " ")}`));
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
  if (!item) return element("div", "item aside", "…"); // the server has been asked for it
  if (item.k === "head") return element("div", "item head", item.text);
  return item.k === "line" ? line(item) : said(item, `${d}/${i}`);
}

function line(item) {
  const made = element("div", `item line ${item.style}`);
  if (item.answer) made.append(element("strong", "", item.answer), "  ");
  made.append(item.text);
  return made;
}

// Messages whose panel is the same as an earlier one's, each with that one: of its agent, else of its section.
const SAME = new WeakMap(), WORTH = 40; // letters; a shorter text is no longer than the words for it

function sameAs(d, i) {
  const listed = items(d);
  if (!SAME.has(listed)) {
    const found = new Map(), own = new Map();
    let section = new Map();
    listed.forEach((item, at) => {
      if (item.k === "head") section = new Map();
      if (item.k !== "said" || item.mark || item.text.length < WORTH) return;
      const panel = JSON.stringify([item.text, item.begun, item.public, item.thoughts]);
      const before = own.get(item.who), first = section.get(panel);
      if (before?.panel === panel) found.set(at, found.get(before.at) ?? before.at); else if (first !== undefined) found.set(at, first);
      own.set(item.who, { panel, at });
      if (first === undefined) section.set(panel, at);
    });
    SAME.set(listed, found);
  }
  return SAME.get(listed).get(i);
}

// The message that one is folded into, or undefined.
function foldedInto(d, i) {
  return OPENED.has(`${d}/${i}/same`) ? undefined : sameAs(d, i);
}

function said(item, key) {
  const outer = element("div", "item"), made = outer.appendChild(element("div", item.mark ? "said marked" : "said"));
  const [d, i] = place(key), same = sameAs(d, i), earlier = items(d)[same];
  made.dataset.key = key;
  made.append(element("span", "who", item.who), " ", element("span", "place", item.place));
  if (earlier) {
    const open = OPENED.has(`${key}/same`), other = earlier.who === item.who ? `in ${earlier.place}` : earlier.who;
    made.append(element("span", "place", ` · the same as ${other} `), toggle(`${key}/same`, open ? "fold" : "show"));
    if (!open) { mark(made); return outer; }
  }
  if (item.mark) made.append(" ", element("span", "mark", item.mark));
  if (item.thoughts) made.append(...folded([["thinks", item.thoughts]], `${key}/thoughts`, "the thoughts"));
  made.append(body(item, key));
  if (item.public) made.append(element("div", "line aside", `others hear: ${item.public}`));
  const foot = made.appendChild(element("div", "foot", item.foot));
  foot.append(...scaleShown(item));
  if (item.asked) {
    const [button, ...turns] = folded(item.asked, key, "the prompt");
    foot.append(" ", button);
    made.append(...turns);
  }
  mark(made);
  return outer;
}

function toggle(key, name) {
  const open = OPENED.has(key), button = element("button", "", name);
  button.type = "button";
  button.setAttribute("aria-expanded", String(open));
  button.addEventListener("click", () => { if (open) OPENED.delete(key); else OPENED.add(key); messages.again(); });
  return button;
}

// A button, and what it has opened.
function folded(turns, key, name) {
  const open = OPENED.has(key), made = [toggle(key, `${open ? "hide" : "show"} ${name}`)];
  for (const [role, text] of open ? turns : []) {
    const turn = element("div", "asked");
    turn.append(element("span", "role", `${role}: `), text);
    made.push(turn);
  }
  return made;
}

function place(key) {
  return key.split("/").map(Number);
}

function itemOf(key) {
  const [d, i] = place(key);
  return items(d)[i];
}

// Show what lies under a token or a message; of two discussions side by side, what was kept of both.
function tell(key, token) {
  const pair = beside === null ? [] : [chosen, beside].map((d) => keptOf.get(d)).filter(Boolean);
  const told = pair.length && kept ? pair : [[key, token]];
  const whose = (key) => (told.length > 1 ? [title(place(key)[0])] : []);
  const known = told.filter(([each]) => itemOf(each));
  field("token").replaceChildren(...known.flatMap(([each, i]) => [...whose(each), ...panel(itemOf(each), i)]));
}

// Mark what is kept within a part of the page.
function mark(part) {
  for (const each of part.querySelectorAll(".kept")) each.classList.remove("kept");
  if (!kept) return null;
  const [key, token] = kept, of = `[data-key="${key}"]`;
  const found = token === null ? [part, ...part.querySelectorAll(".said")].find((each) => each.matches?.(of)) : part.querySelector(`.t${of}[data-token="${token}"]`);
  found?.classList.add("kept");
  return found;
}

function keep(key, token) {
  kept = [key, token];
  keptOf.set(place(key)[0], kept);
  const [d, i] = place(key), at = entries.findIndex((entry) => entry[0] === d && entry[1] === i || entry[2] === d && entry[3] === i);
  if (!messages.shown.has(at)) messages.reveal(at);
  mark(field("items"))?.scrollIntoView({ block: "nearest" });
  tell(key, token);
}

function release() {
  kept = null;
  mark(field("items"));
  field("token").replaceChildren(...EXPLAINED);
}

// A folded message is kept as a whole.
function tokensShown(d, i) {
  return foldedInto(d, i) === undefined ? tokensOf(items(d)[i]) : 0;
}

// Go to the first or last token of the next message before or after; one without tokens is kept as a whole.
function goOn(d, i, by) {
  const listed = beside === null ? [...new Set(entries.map((entry) => entry[0]))] : [d];
  for (let at = listed.indexOf(d); at >= 0 && at < listed.length; at += by) {
    const known = items(listed[at]), from = listed[at] === d ? i + by : by > 0 ? 0 : known.length - 1;
    for (let next = from; next >= 0 && next < known.length; next += by) {
      const n = known[next].k === "said" ? tokensShown(listed[at], next) : null;
      if (n !== null) return [`${listed[at]}/${next}`, n === 0 ? null : by > 0 ? 0 : n - 1];
    }
  }
  return null;
}

// The next token, or with `whole` the next message; at first what is in view.
function next(by, whole) {
  if (!kept) {
    const [d, i] = place(document.querySelector("#items .said")?.dataset.key || "-1/0");
    return goOn(d, i - 1, 1);
  }
  const [key, token] = kept, n = tokensShown(...place(key));
  if (!whole && token !== null && token + by >= 0 && token + by < n) return [key, token + by];
  const found = goOn(...place(key), by);
  return found && whole && found[1] !== null ? [found[0], 0] : found;
}

function choose(d, again) {
  chosen = again && d === chosen ? null : d;
  list.again();
  release();
  fill();
}

// On a live page the discussions of a run take the place of the list of runs.
async function chooseRun(number, again) {
  run = again && number === run ? null : number;
  if (run !== null) source.open(run);
  runList.again();
  const from = document.activeElement;
  await filter();
  if (LIVE && [field("runs"), field("back")].includes(from)) field(run === null ? "runs" : "discussions").focus();
}

const runList = new ListBox(field("runs"), 52, runRow, (entry, again) => chooseRun(order[entry], again), false);
const list = new ListBox(field("discussions"), 52, listRow, (entry, again) => choose(rows[entry], again), true);
const messages = new LongList(field("items"), 110, itemRow);
const under = (event) => {
  const token = event.target.closest(".t"), message = event.target.closest("button, .asked") ? null : event.target.closest(".said");
  return token ? [token.dataset.key, Number(token.dataset.token)] : message && [message.dataset.key, null];
};

field("items").addEventListener("mouseover", (event) => { const at = under(event); if (at && !kept) tell(...at); });
field("items").addEventListener("click", (event) => { const at = under(event); if (at) keep(...at); });
field("items").addEventListener("keydown", (event) => {
  const by = { ArrowLeft: -1, ArrowRight: 1, ArrowUp: -1, ArrowDown: 1 }[event.key];
  if (event.key === "Escape") release();
  if (!by || event.target.closest("button") || event.altKey || event.ctrlKey || event.metaKey) return;
  event.preventDefault();
  const at = next(by, event.key === "ArrowUp" || event.key === "ArrowDown");
  if (at) keep(...at);
});
let waiting = 0;
field("find").addEventListener("submit", (event) => event.preventDefault());
field("back").addEventListener("click", () => { field("find").reset(); chooseRun(null); });
field("sort").addEventListener("input", () => { sortRuns(); runList.show(RUNS.length); });
field("find").addEventListener("input", () => { clearTimeout(waiting); waiting = setTimeout(filter, 150); });
addEventListener("DOMContentLoaded", () => {
  for (const part of [field("runs"), field("sort").parentElement]) part.hidden = RUNS.length < 2 && !LIVE;
  sortRuns();
  runList.show(RUNS.length);
  filter();
});
