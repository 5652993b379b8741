// A list of any length: only its visible entries are in the page. Heights are estimated, and measured when shown.

const BEYOND = 3; // extra entries above and below the visible ones

class LongList {
  constructor(box, guess, make) {
    this.box = box;
    this.guess = guess;
    this.make = make;
    this.sizer = box.appendChild(element("div", "sizer"));
    this.shown = new Map();
    this.asked = false;
    this.heights = new Float64Array(0);
    box.addEventListener("scroll", () => this.soon());
    new ResizeObserver(() => this.again()).observe(box);
    this.show(0);
  }

  show(count) {
    this.heights = new Float64Array(0);
    this.box.scrollTop = 0;
    this.grow(count);
  }

  // Entries were added or changed; what is in view stays, and the end stays in view.
  grow(count) {
    const atEnd = this.box.scrollTop > 0 && this.box.scrollTop + this.box.clientHeight > this.box.scrollHeight - 40;
    const known = this.heights.subarray(0, count);
    this.heights = new Float64Array(count).fill(this.guess);
    this.heights.set(known);
    this.tops = new Float64Array(count + 1);
    this.sum(0);
    this.again();
    if (atEnd) { this.box.scrollTop = this.box.scrollHeight; this.draw(); }
  }

  // Rebuild the visible entries, e.g. after one was expanded.
  again() {
    for (const node of this.shown.values()) node.remove();
    this.shown.clear();
    this.draw();
  }

  go(entry) {
    this.box.scrollTop = this.tops[entry];
    this.draw();
  }

  // Scroll only as far as needed to see an entry.
  reveal(entry) {
    const above = this.box.scrollTop, height = this.box.clientHeight;
    if (this.tops[entry] < above) this.go(entry);
    else if (this.tops[entry + 1] > above + height) {
      this.box.scrollTop = Math.min(this.tops[entry], this.tops[entry + 1] - height);
      this.draw();
    }
  }

  soon() {
    if (this.asked) return;
    this.asked = true;
    requestAnimationFrame(() => { this.asked = false; this.draw(); });
  }

  // The last entry that begins at or above a height.
  at(height) {
    let low = 0, high = this.heights.length - 1;
    while (low < high) {
      const middle = (low + high + 1) >> 1;
      if (this.tops[middle] <= height) low = middle; else high = middle - 1;
    }
    return low;
  }

  sum(from) {
    for (let i = from; i < this.heights.length; i++) this.tops[i + 1] = this.tops[i] + this.heights[i];
    this.sizer.style.height = `${this.tops[this.heights.length]}px`;
  }

  draw() {
    if (!this.box.clientHeight) return; // hidden: entries would have no height
    const count = this.heights.length, above = this.box.scrollTop, anchor = this.at(above);
    const first = Math.max(0, anchor - BEYOND);
    const last = Math.min(count - 1, this.at(above + this.box.clientHeight) + BEYOND);
    for (const [entry, node] of this.shown) {
      if (entry < first || entry > last) { node.remove(); this.shown.delete(entry); }
    }
    for (let entry = first; entry <= last; entry++) if (!this.shown.has(entry)) this.add(entry);
    const changed = this.measure();
    if (changed < count) {
      const before = this.tops[anchor];
      this.sum(changed);
      if (this.tops[anchor] !== before) this.box.scrollTop = above + this.tops[anchor] - before; // the text in view stays
      this.soon();
    }
    for (const [entry, node] of this.shown) node.style.transform = `translateY(${this.tops[entry]}px)`;
  }

  add(entry) {
    const node = element("div", "placed");
    node.appendChild(this.make(entry));
    this.shown.set(entry, this.sizer.appendChild(node));
  }

  measure() {
    let changed = this.heights.length;
    for (const [entry, node] of this.shown) {
      const height = node.offsetHeight;
      if (height !== this.heights[entry]) { this.heights[entry] = height; changed = Math.min(changed, entry); }
    }
    return changed;
  }
}

// A list to choose from. It is one tab stop: the box has the focus, and names the entry that the keys have reached.
class ListBox extends LongList {
  // `pick` chooses an entry, or with `again` releases a chosen one; `follows`: the keys choose where they go.
  constructor(box, guess, make, pick, follows) {
    super(box, guess, (entry) => this.option(make(entry), entry));
    this.pick = pick;
    this.active = -1;
    box.addEventListener("keydown", (event) => this.key(event, follows));
    box.addEventListener("click", (event) => {
      const option = event.target.closest("[role=option]");
      if (option) { this.active = Number(option.dataset.entry); pick(this.active, true); }
    });
  }

  option(made, entry) {
    made.id = `${this.box.id}-${entry}`;
    made.dataset.entry = entry;
    made.classList.toggle("active", entry === this.active);
    const said = { role: "option", "aria-posinset": entry + 1, "aria-setsize": this.heights.length };
    for (const name in said) made.setAttribute(name, said[name]);
    return made;
  }

  key(event, follows) {
    const last = this.heights.length - 1, page = Math.max(1, Math.floor(this.box.clientHeight / this.guess));
    const by = { ArrowDown: 1, ArrowUp: -1, PageDown: page, PageUp: -page, Home: -Infinity, End: Infinity }[event.key];
    const chooses = event.key === "Enter" || event.key === " ";
    if (last < 0 || !(by || chooses)) return;
    event.preventDefault();
    this.active = Math.max(0, Math.min(last, this.active + (by || 0)));
    if (follows || chooses) this.pick(this.active, chooses);
    this.reveal(this.active);
    this.again();
    this.box.setAttribute("aria-activedescendant", `${this.box.id}-${this.active}`);
  }
}
