"use strict";
// Arrays of numbers, as viewer.py packs them: base64 of little-endian words of 16 or 32 bits, times a step.

function unpacked(packed) {
  const bytes = Uint8Array.from(atob(packed.b), (letter) => letter.charCodeAt(0));
  const whole = packed.wide ? new Uint32Array(bytes.buffer) : new Uint16Array(bytes.buffer);
  return packed.x === 1 ? whole : Float64Array.from(whole, (value) => value * packed.x);
}

// Words with their probabilities, one token after another; `n` has the number of words of each token.
function choices(packed) {
  const counts = unpacked(packed.n), starts = [0];
  for (const count of counts) starts.push(starts[starts.length - 1] + count);
  return { starts, words: unpacked(packed.word), parts: unpacked(packed.p) };
}

const LAID = new WeakMap();

// The payload of a message, unpacked when it is first shown.
function laid(tokens) {
  if (!LAID.has(tokens)) {
    const found = { ends: unpacked(tokens.end), layers: tokens.layers || [], at: tokens.at, carried: tokens.carried };
    for (const name of ["entropy", "logprob", "norm"]) found[name] = tokens[name] && unpacked(tokens[name]);
    found.think = tokens.think && unpacked(tokens.think);
    for (const name of ["alt", "near"]) found[name] = tokens[name] && choices(tokens[name]);
    LAID.set(tokens, found);
  }
  return LAID.get(tokens);
}

function element(tag, classes, text) {
  const made = document.createElement(tag);
  if (classes) made.className = classes;
  if (text !== undefined) made.textContent = text; // never as HTML: texts of models are data
  return made;
}
