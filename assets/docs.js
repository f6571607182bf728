// Finding pages while one types; without this file the form leads to a page of results.
"use strict";

const form = document.querySelector("[data-search]");
const field = form.querySelector("input");
const list = form.querySelector("[data-results]");
let entries;

const split = (text) => text.toLowerCase().split(/[^\p{L}\p{N}_]+/u).filter(Boolean);

// As src/docs/search.rs weighs it.
function worth(entry, asked) {
  let sum = 0;
  for (const word of asked) {
    const starts = (words) => words.some((other) => other.startsWith(word));
    const parts = (starts(entry.title) && 12) + (starts(entry.place) && 5) + (starts(entry.words) && 2)
      + ((entry.w.includes(word) || entry.t.toLowerCase().includes(word)) && 1);
    if (!parts) return 0;
    sum += parts;
  }
  return sum;
}

async function load() {
  const answer = await fetch(form.dataset.search);
  if (!answer.ok) throw new Error(answer.status);
  const all = await answer.json();
  return all.map((one) => ({ ...one, title: split(one.t), place: split(one.p), words: one.w.split(" ") }));
}

function item(entry) {
  const link = document.createElement("a");
  link.href = form.dataset.docs + entry.u;
  link.textContent = entry.t;
  const place = document.createElement("small");
  place.textContent = entry.p;
  const line = document.createElement("li");
  link.append(place);
  line.append(link);
  return line;
}

function nothing() {
  const line = document.createElement("li");
  line.textContent = "Nothing found.";
  return line;
}

async function show() {
  const asked = split(field.value);
  if (asked.length === 0) return list.replaceChildren();
  try {
    entries ??= load();
    const all = await entries;
    const found = all.map((entry) => [worth(entry, asked), entry]).filter(([sum]) => sum > 0);
    found.sort((a, b) => b[0] - a[0]);
    if (asked.join() !== split(field.value).join()) return;
    list.replaceChildren(...found.slice(0, 8).map(([, entry]) => item(entry)));
    if (found.length === 0) list.append(nothing());
  } catch {
    entries = undefined; // Enter still leads to the page of results.
  }
}

field.addEventListener("input", show);
field.addEventListener("keydown", (event) => {
  if (event.key !== "Escape") return;
  field.value = "";
  list.replaceChildren();
});

// What used to stand on this page stands on pages of its own now.
const moved = document.querySelector(`[data-moved] [id="${CSS.escape(decodeURIComponent(location.hash.slice(1)))}"] a`);
if (location.hash && moved) location.replace(moved.href);
