// A discussion as it is streamed by `langgraph dev`: tokens as they come, a column for each agent, votes and decision.
// Whatever a model says is data: it is set as text, never as HTML.
"use strict";

const SERVER = new URLSearchParams(location.search).get("server") ?? "http://127.0.0.1:2024";
const [form, stop, agents, decision, trouble] =
  ["ask", "stop", "agents", "decision", "trouble"].map(id => document.getElementById(id));
let columns = new Map(), messages = new Map(); // by agent; by the id that all tokens of a message bear
let running = null;

function clear() {
  columns = new Map();
  messages = new Map();
  agents.replaceChildren();
  decision.textContent = trouble.textContent = "";
}

function made(kind, parent, text = "") {
  const element = document.createElement("div");
  element.className = kind;
  element.textContent = text;
  parent.append(element);
  return element;
}

function column(agent) {
  if (!columns.has(agent)) {
    const element = made("agent", agents);
    element.dataset.agent = agent;
    made("name", element, agent);
    columns.set(agent, element);
    const inOrder = [...columns].sort(([one], [other]) => one.localeCompare(other, "en", { numeric: true }));
    agents.replaceChildren(...inOrder.map(([, each]) => each));
  }
  return columns.get(agent);
}

// What a token says: some hosted models send a list of parts.
const words = content => (Array.isArray(content) ? content.map(part => part.text ?? "").join("") : String(content));

// One event of the stream, by its name.
const take = {
  custom(progress) {
    if (progress.type === "act") column(progress.agent).classList.add("asked");
  },
  messages([token, about]) {
    if (!about.agent) return;
    column(about.agent).classList.remove("asked");
    if (!messages.has(token.id)) {
      messages.set(token.id, made("said", column(about.agent)));
      messages.get(token.id).dataset.when = `round ${about.round + 1}, ${about.act}`;
    }
    messages.get(token.id).append(words(token.content)); // a text node
  },
  updates(nodes) {
    const [asked] = nodes.__interrupt__ ?? [];
    if (asked) trouble.textContent = `${asked.value?.agent ?? "Somebody"} is a person's: this page cannot answer, Studio can.`;
    const found = nodes.decide?.decision;
    if (!found) return;
    for (const vote of found.votes) {
      made(vote.counts ? "vote" : "vote uncounted", column(vote.agent), `votes ${vote.answer ?? "for nothing"}`);
    }
    decision.textContent = `Decision: ${found.answer ?? "none"} (${found.why})`;
  },
  error(told) {
    trouble.textContent = told.message ?? JSON.stringify(told);
  },
};

// Server-sent events: fields by line, an empty line after each event; a line that begins with a colon is no field.
async function* events(body) {
  let text = "", fields = {};
  for await (const piece of body.pipeThrough(new TextDecoderStream())) {
    const lines = (text + piece).split(/\r?\n/);
    text = lines.pop();
    for (const line of lines) {
      const [, name, value] = line.match(/^(\w+): ?(.*)$/) ?? [];
      if (name) fields[name] = value;
      if (line === "" && fields.event) {
        yield [fields.event, JSON.parse(fields.data || "null")];
        fields = {};
      }
    }
  }
}

async function discuss(asked) {
  const body = {
    assistant_id: "debate",
    input: { question: asked.get("question") },
    context: { agents: +asked.get("agents"), rounds: +asked.get("rounds"), protocol: asked.get("protocol") },
    stream_mode: ["custom", "messages-tuple", "updates"],
    on_disconnect: "cancel",
  };
  const sent = { method: "POST", headers: { "content-type": "application/json" }, body: JSON.stringify(body) };
  const answer = await fetch(`${SERVER}/runs/stream`, { ...sent, signal: running.signal });
  if (!answer.ok) throw new Error(`the server answered ${answer.status}: ${await answer.text()}`);
  for await (const [name, data] of events(answer.body)) take[name]?.(data);
}

form.addEventListener("submit", async event => {
  event.preventDefault();
  running?.abort();
  const mine = (running = new AbortController());
  clear();
  stop.disabled = false;
  try {
    await discuss(new FormData(form));
  } catch (error) {
    const where = error instanceof TypeError ? `; is \`langgraph dev\` at ${SERVER}?` : ""; // fetch's, where none answers
    if (error.name !== "AbortError") trouble.textContent = error.message + where;
  }
  if (running !== mine) return;
  stop.disabled = true;
  for (const each of columns.values()) each.classList.remove("asked");
});
stop.addEventListener("click", () => running?.abort());
