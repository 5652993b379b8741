// The page of `view`: its server is asked for discussions when they are shown, and tells what changes in the logs.

const TOKEN = new URLSearchParams(location.search).get("token");
let version = data("version");

const address = (name, query) => `${name}?${new URLSearchParams({ ...query, token: TOKEN })}`;

async function asked(name, query, body) {
  const json = { method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify(body) };
  const answer = await fetch(address(name, query), body && json), found = await answer.json();
  if (!answer.ok) throw new Error(found.error);
  return found;
}

function trouble(why) {
  field("trouble").textContent = why ? String(why.message ?? why) : "";
}

async function bring(d) {
  const found = await asked("discussion", { d, words: WORDS.length }), [from, words] = found.words;
  words.forEach((word, i) => { WORDS[from + i] = word; });
  if (found.row.v < INDEX[d].v) return; // a newer answer is on its way
  INDEX[d] = found.row;
  PARSED.set(d, found.items);
  if (d === chosen || d === beside) fill(true); else messages.again();
  if (kept && place(kept[0])[0] === d) tell(...kept);
}

function changed(now) {
  version = Math.max(version, now.version);
  for (const [number, entry] of now.runs) {
    if (entry.trouble && RUNS[number]?.trouble !== entry.trouble) trouble(entry.trouble);
    RUNS[number] = entry;
  }
  for (const [d, row] of now.rows) {
    INDEX[d] = row;
    if (PARSED.has(d)) bring(d).catch(trouble);
  }
  if (now.runs.length) { sortRuns(); runList.grow(RUNS.length); }
  if (now.rows.length) filter(true);
}

source = {
  items: (d) => { bring(d).catch(trouble); return []; },
  search: (words) => asked("search", { words }),
  open: (n) => asked("run", { n, since: version }).then(changed).catch(trouble),
};

function listen() {
  const events = new EventSource(address("events", { since: version }));
  events.onmessage = (event) => { trouble(""); changed(JSON.parse(event.data)); };
  events.onerror = () => { events.close(); trouble("the server does not answer; trying again"); setTimeout(listen, 2000); };
}

field("ask").addEventListener("submit", async (event) => {
  event.preventDefault();
  const form = new FormData(event.target), documents = form.get("documents").split(/\n\s*\n/);
  const button = event.target.querySelector("button");
  button.disabled = true;
  trouble("");
  try {
    const { run: number } = await asked("start", {}, { ...Object.fromEntries(form), documents });
    field("start").open = false;
    changed(await asked("run", { n: number, since: version }));
    chooseRun(number);
  } catch (why) { trouble(why); }
  button.disabled = false;
});
addEventListener("DOMContentLoaded", listen);
