// A message's text token by token, and the panel that shows what lies under one of them, and under the message.

const SURE = 0.05, UNKNOWN = 65.5; // nats: a reply below the first is not shaded; from the second on no number was stored

// Where a reply's shades begin: at quarters of its highest entropy, which comes last; [] for a sure one.
function scaleOf(under) {
  const most = Math.max(0, ...(under.entropy || []).filter((each) => each < UNKNOWN));
  return most < SURE ? [] : [0.25, 0.5, 0.75, 1].map((part) => part * most);
}

function shade(entropy, scale) {
  return entropy < UNKNOWN ? scale.slice(0, 3).filter((limit) => entropy >= limit).length : 0;
}

// The scale of a message's shades, in nats.
function scaleShown(item) {
  const scale = item.tokens ? scaleOf(laid(item.tokens)) : [];
  if (!scale.length) return [];
  const from = scale.slice(0, 3).flatMap((limit, i) => [element("span", `e${i + 1}`, limit.toPrecision(2)), " "]);
  return [" · shaded from ", ...from, `to ${scale[3].toPrecision(2)} nats`];
}

function body(item, key) {
  const text = element("div", "body");
  if (item.begun) text.append(element("span", "begun", item.begun));
  if (!item.tokens) { text.append(item.text); return text; }
  const under = laid(item.tokens), scale = scaleOf(under);
  let at = 0;
  under.ends.forEach((end, i) => {
    const entropy = under.entropy ? under.entropy[i] : 0;
    const token = element("span", `t e${shade(entropy, scale)}`, item.text.slice(at, end));
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

// A table of two columns; a cell is a text, or nodes.
function table(headings, rows) {
  const made = element("table"), head = made.createTHead().insertRow(), cells = made.createTBody();
  for (const heading of headings) {
    const cell = head.appendChild(element("th", "", heading));
    cell.scope = "col";
  }
  for (const row of rows) {
    const made = cells.insertRow();
    for (const cell of row) made.insertCell().append(...[cell].flat());
  }
  return made;
}

function bar(share) {
  const made = element("span", "bar");
  made.style.width = `${4 * share}rem`;
  return made;
}

function listed(heading, pick, choice, name) {
  const places = [];
  for (let i = choice.starts[pick]; i < choice.starts[pick + 1]; i++) places.push(i);
  const rows = places.map((i) => [told(WORDS[choice.words[i]]), [bar(choice.parts[i]), ` ${choice.parts[i].toFixed(4)}`]]);
  return table([heading, name], rows);
}

function norms(under, i, name) {
  const n = under.ends.length, most = Math.max(...under.norm) || 1;
  return table(["layer", name], under.layers.map((layer, l) => {
    const value = under.norm[l * n + i];
    return [String(layer), [bar(value / most), ` ${value.toFixed(3)}`]];
  }));
}

function underToken(item, under, i) {
  const start = i ? under.ends[i - 1] : 0, found = [element("h3", "", told(item.text.slice(start, under.ends[i])))];
  found.push(element("p", "aside", `token ${i + 1} of ${under.ends.length}, ${item.who}`));
  if (under.entropy) found.push(element("p", "", `entropy ${under.entropy[i].toFixed(3)} nats`));
  if (under.logprob) found.push(element("p", "", `log-probability ${(-under.logprob[i]).toFixed(3)}`));
  if (under.alt) found.push(listed("alternatives", i, under.alt, "probability"));
  if (under.near) found.push(listed("sent: nearest words", i, under.near, "weight"));
  if (under.norm) found.push(norms(under, i, item.foot.startsWith("hidden") ? "length of the state" : "length of the delta"));
  return found;
}

// Keys and values, as the protocols kv and thoughts carry them.
function kept_positions(under) {
  const [first, last, count] = under.at, [bytes, origin] = under.carried;
  const rows = [["positions", count ? `${count} (${first} to ${last})` : "0"], ["layers", String(under.layers.length)]];
  return table(["keys and values", origin], [...rows, ["bytes", bytes.toLocaleString("en")]]);
}

function edges(heading, found) {
  if (!found) return [];
  const list = element("ul");
  for (const [who, place, form] of found) {
    const entry = list.appendChild(element("li"));
    entry.append(element("strong", "", who), ` ${place}: `, element("span", "aside", form));
  }
  return [element("h4", "", heading), list];
}

function underMessage(item, under) {
  const found = [element("h3", "", `${item.who}, ${item.place}`), element("p", "aside", item.foot)];
  if (under?.at) found.push(kept_positions(under));
  if (under?.think) {
    const words = element("p", "thought");
    for (const word of under.think) words.append(element("span", "", told(WORDS[word])), " ");
    found.push(element("h4", "", "tokens nearest to its latent steps"), words);
  }
  return [...found, ...edges("heard by", item.heard), ...edges("had heard", item.had)];
}

function panel(item, i) {
  const under = item.tokens && laid(item.tokens), token = i !== null && i < tokensOf(item);
  return [...(token ? underToken(item, under, i) : []), ...underMessage(item, under)];
}

function tokensOf(item) {
  return item.tokens ? laid(item.tokens).ends.length : 0;
}
