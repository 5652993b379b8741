// A message's text token by token, and the panel that shows the payload of one of them.

const LIMITS = [0.2, 0.7, 1.4]; // nats, as on the terminal

function shade(entropy) {
  return LIMITS.filter((limit) => entropy >= limit).length;
}

function body(item, key) {
  const text = element("div", "body");
  if (item.begun) text.append(element("span", "begun", item.begun));
  if (!item.tokens) { text.append(item.text); return text; }
  const under = laid(item.tokens);
  let at = 0;
  under.ends.forEach((end, i) => {
    const entropy = under.entropy ? under.entropy[i] : 0;
    const token = element("span", `t e${shade(entropy)}`, item.text.slice(at, end));
    token.dataset.token = i;
    token.dataset.key = key;
    text.append(token);
    at = Math.max(at, end);
  });
  text.append(item.text.slice(at));
  return text;
}

function told(word) {
  return JSON.stringify(word);
}

function listed(heading, pick, choice, name) {
  const table = element("table"), head = table.createTHead().insertRow();
  for (const cell of [heading, name]) head.append(element("th", "", cell));
  const rows = table.createTBody();
  for (let i = choice.starts[pick]; i < choice.starts[pick + 1]; i++) {
    const row = rows.insertRow();
    row.append(element("td", "", told(WORDS[choice.words[i]])), element("td", "", choice.parts[i].toFixed(4)));
  }
  return table;
}

function norms(under, i, protocol) {
  const table = element("table"), head = table.createTHead().insertRow();
  for (const cell of ["layer", protocol]) head.append(element("th", "", cell));
  const rows = table.createTBody(), n = under.ends.length, most = Math.max(...under.norm);
  under.layers.forEach((layer, l) => {
    const row = rows.insertRow(), value = under.norm[l * n + i], bar = element("span", "bar");
    bar.style.width = `${(6 * value) / (most || 1)}rem`;
    const cell = element("td");
    cell.append(bar, ` ${value.toFixed(3)}`);
    row.append(element("td", "", layer), cell);
  });
  return table;
}

function panel(item, i) {
  const under = laid(item.tokens), start = i ? under.ends[i - 1] : 0, found = [];
  found.push(element("h3", "", told(item.text.slice(start, under.ends[i]))));
  found.push(element("p", "aside", `token ${i + 1} of ${under.ends.length}, ${item.who}`));
  if (under.entropy) found.push(element("p", "", `entropy ${under.entropy[i].toFixed(3)} nats`));
  if (under.logprob) found.push(element("p", "", `log-probability ${(-under.logprob[i]).toFixed(3)}`));
  if (under.alt) found.push(listed("alternatives", i, under.alt, "probability"));
  if (under.near) found.push(listed("sent: nearest words", i, under.near, "weight"));
  if (under.norm) found.push(norms(under, i, item.foot.startsWith("hidden") ? "length of the state" : "length of the delta"));
  return found;
}
