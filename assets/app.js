// Niceties only: every page works without this file.
"use strict";

const all = (selector, root = document) => [...root.querySelectorAll(selector)];
const wait = (ms) => new Promise((done) => setTimeout(done, ms));

function make(tag, properties, ...children) {
  const node = Object.assign(document.createElement(tag), properties);
  node.append(...children);
  return node;
}

// What a script adds to elements, also to those that come later by a refresh.
function enliven(root) {
  for (const button of all("[data-copy], [data-reveal], [data-shortcuts]", root)) button.hidden = false;
  for (const button of all("[data-copy]", root)) button.setAttribute("aria-live", "polite");
  for (const form of all("form[data-passkey]", root)) form.hidden = !window.PublicKeyCredential;
  for (const time of all("time[datetime]", root)) localise(time);
}

// ---- times, in the visitor's zone

// What says how long ago something was stays as it is; what shows a clock is told again.
function localise(time) {
  const at = new Date(time.dateTime);
  const clock = /\d:\d\d(:\d\d)?/.exec(time.textContent);
  if (isNaN(at)) return;
  const format = { day: "numeric", month: "long", year: "numeric", hour: "2-digit", minute: "2-digit" };
  format.timeZoneName = "short";
  const exact = at.toLocaleString("en-GB", { ...format, second: "2-digit" }).replace(" at ", ", ");
  time.title = `${exact} (${time.dateTime})`;
  if (!clock) return;
  if (clock[1]) Object.assign(format, { month: "short", second: "2-digit" });
  time.textContent = at.toLocaleString("en-GB", format).replace(" at ", ", ");
}

// ---- copying, and showing a password

// Copying is asynchronous where the page is secure, and by selection elsewhere.
async function copy(node) {
  if (navigator.clipboard) return navigator.clipboard.writeText(node.textContent);
  getSelection().selectAllChildren(node);
  if (!document.execCommand("copy")) throw new Error("refused");
  getSelection().removeAllRanges();
}

async function copyBeside(button) {
  try {
    await copy(button.previousElementSibling);
    button.textContent = "Copied";
  } catch {
    button.textContent = "Not copied";
  }
  await wait(2000);
  button.textContent = "Copy";
}

function reveal(button, plain) {
  const input = document.getElementById(button.dataset.reveal);
  plain ??= input.type === "password";
  input.type = plain ? "text" : "password";
  button.textContent = plain ? "Hide" : "Show";
  button.setAttribute("aria-pressed", plain);
}

document.addEventListener("click", (event) => {
  const button = event.target.closest("button");
  if (button?.matches("[data-copy]")) copyBeside(button);
  if (button?.matches("[data-reveal]")) reveal(button);
  if (button?.matches("[data-shortcuts]")) showShortcuts();
});

// The size of a picture is a link; here it takes no page to change it.
document.addEventListener("click", (event) => {
  const link = event.target.closest("[data-zoom]");
  const drawing = link && document.querySelector("#picture > svg");
  if (!drawing || event.ctrlKey || event.metaKey || event.shiftKey) return;
  event.preventDefault();
  const { zoom } = link.dataset;
  const percent = Number(zoom) || 100;
  const { width, height } = drawing.viewBox.baseVal;
  drawing.setAttribute("width", (width * percent) / 100);
  drawing.setAttribute("height", (height * percent) / 100);
  drawing.setAttribute("class", zoom === "fit" ? "fit" : percent === 100 ? "" : "sized");
  for (const other of all("[data-zoom]")) other.toggleAttribute("aria-current", false);
  link.setAttribute("aria-current", "true");
  history.replaceState(null, "", link.href);
});

document.addEventListener("submit", (event) => {
  for (const button of all("[data-reveal]", event.target)) reveal(button, false);
});

// Counted from the server's figure: the visitor's clock may be wrong.
for (const note of all("[data-seconds]")) {
  const end = performance.now() + 1000 * Number(note.dataset.seconds);
  const words = note.querySelector("time");
  const tick = () => {
    const left = Math.floor((end - performance.now()) / 1000);
    if (left <= 0) {
      words.parentElement.textContent = "This request has expired. Start again from the app.";
      return;
    }
    words.textContent = left < 60 ? `in ${left} s` : `in ${Math.floor(left / 60)} min ${left % 60} s`;
    setTimeout(tick, 1000);
  };
  tick();
  // Back from where a decision led: what is kept of this page may have been answered since.
  addEventListener("pageshow", (event) => {
    if (event.persisted) location.reload();
  });
}

// Back to a page that the browser has kept: it is shown, with what was typed, only to whoever is still signed in.
if (document.body.classList.contains("room")) {
  addEventListener("pageshow", async (event) => {
    if (!event.persisted) return;
    document.documentElement.hidden = true;
    const answer = await fetch(location.href, { redirect: "manual", cache: "no-store" }).catch(() => null);
    if (!answer?.ok) return location.reload();
    document.documentElement.hidden = false;
  });
}

// Enter in a box would press the form's first button; it should decide nothing.
document.addEventListener("keydown", (event) => {
  if (event.key === "Enter" && event.target.matches("[type=checkbox], [type=radio]")) event.preventDefault();
});

// ---- passkeys: forms with fields that an authenticator fills in, in base64url

const toBytes = (text) =>
  Uint8Array.from(atob(text.replace(/-/g, "+").replace(/_/g, "/")), (char) => char.charCodeAt(0));
const toText = (bytes) =>
  btoa(String.fromCharCode(...new Uint8Array(bytes))).replace(/\+/g, "-").replace(/\//g, "_").replace(/=+$/, "");

async function askPasskey({ passkey, question, host, ids, user, name }) {
  const known = ids.split(" ").filter(Boolean).map((id) => ({ type: "public-key", id: toBytes(id) }));
  const challenge = toBytes(question);
  if (passkey === "get") {
    const publicKey = { challenge, rpId: host, allowCredentials: known };
    const { rawId, response } = await navigator.credentials.get({ publicKey });
    const { clientDataJSON, authenticatorData, signature } = response;
    return { credential: rawId, client_data: clientDataJSON, authenticator_data: authenticatorData, signature };
  }
  const publicKey = {
    challenge,
    rp: { id: host, name: "Posthorn" },
    user: { id: toBytes(user), name, displayName: name },
    pubKeyCredParams: [-7, -8, -257].map((alg) => ({ type: "public-key", alg })),
    excludeCredentials: known,
    attestation: "none",
  };
  const { response } = await navigator.credentials.create({ publicKey });
  const [authenticator_data, public_key] = [response.getAuthenticatorData(), response.getPublicKey()];
  return { client_data: response.clientDataJSON, authenticator_data, public_key };
}

document.addEventListener("submit", async (event) => {
  const form = event.target;
  if (!form.dataset.passkey) return;
  event.preventDefault();
  const note = form.querySelector("[role=alert]");
  note.textContent = "";
  try {
    for (const [name, value] of Object.entries(await askPasskey(form.dataset))) form.elements[name].value = toText(value);
  } catch (error) {
    const isKnown = error.name === "InvalidStateError";
    note.textContent = isKnown ? "This passkey is here already." : "Nothing came of it: you declined, or it took too long.";
    return;
  }
  form.submit();
});

// ---- what was typed and not sent yet: it survives a reload, in this tab, unless there is a secret in it

const kept = (form) => `posthorn-typed ${location.pathname}${location.search} ${form.getAttribute("action")}`;
const unsent = () => all("main form[method=post]").filter((form) => !form.querySelector("[type=password], [data-secret]"));
const fieldsOf = (form) => [...form.elements].filter((field) => field.name && field.matches("input:not([type=hidden], [type=file]), textarea, select"));
const stateOf = (field) => (field.matches("[type=checkbox], [type=radio]") ? field.checked : field.value);

function setState(field, state) {
  if (field.matches("[type=checkbox], [type=radio]")) field.checked = state;
  else field.value = state;
}

function keepTyped() {
  const { type } = performance.getEntriesByType("navigation")[0] || {};
  try {
    for (const form of unsent()) {
      const fields = fieldsOf(form);
      const before = fields.map(stateOf);
      const saved = JSON.parse(sessionStorage.getItem(kept(form)) || "null");
      sessionStorage.removeItem(kept(form));
      // Only where the page is the one in which it was typed.
      if (type === "reload" && saved && JSON.stringify(saved.before) === JSON.stringify(before)) {
        fields.forEach((field, at) => setState(field, saved.typed[at]));
        sessionStorage.setItem(kept(form), JSON.stringify(saved));
      }
      form.addEventListener("input", () => {
        sessionStorage.setItem(kept(form), JSON.stringify({ before, typed: fields.map(stateOf) }));
      });
      form.addEventListener("submit", () => sessionStorage.removeItem(kept(form)));
    }
  } catch {
    // Without a place to keep it, a reload asks for it again.
  }
}

// ---- parts of a page that are kept up to date: `<div id="…" data-refresh="2">`, in seconds

const isTyped = (node) =>
  node === document.activeElement ||
  (node.matches("input, textarea") && (node.value !== node.defaultValue || node.checked !== node.defaultChecked)) ||
  (node.matches("select") && [...node.options].some((option) => option.selected !== option.defaultSelected));

// Makes an element what the other one is, and leaves alone what somebody is at.
function morph(old, fresh) {
  if (old.nodeType === Node.TEXT_NODE) {
    if (old.data !== fresh.data) old.data = fresh.data;
    return;
  }
  if (old.nodeType !== Node.ELEMENT_NODE) return;
  if (old.matches("input, textarea, select") && isTyped(old)) return;
  for (const { name } of [...old.attributes]) {
    if (!fresh.hasAttribute(name) && name !== "open") old.removeAttribute(name);
  }
  for (const { name, value } of [...fresh.attributes]) {
    if (name !== "open" && old.getAttribute(name) !== value) old.setAttribute(name, value);
  }
  morphChildren(old, fresh);
}

const isAlike = (a, b) => a.nodeType === b.nodeType && a.nodeName === b.nodeName && (a.id || "") === (b.id || "");

function morphChildren(old, fresh) {
  let next = old.firstChild;
  for (const wanted of [...fresh.childNodes]) {
    const kept = wanted.id && [...old.children].find((child) => child.id === wanted.id);
    if (kept && kept !== next) old.insertBefore(kept, next);
    const here = kept || next;
    if (here && isAlike(here, wanted)) {
      next = here.nextSibling;
      morph(here, wanted);
    } else {
      old.insertBefore(document.importNode(wanted, true), next);
    }
  }
  while (next) {
    const gone = next;
    next = next.nextSibling;
    if (!gone.contains(document.activeElement)) gone.remove();
  }
}

function keepFresh() {
  const parts = () => all("[data-refresh][id]");
  if (!parts().length) return;
  const note = make("span", { className: "refresh-note" });
  note.setAttribute("role", "status");
  const button = make("button", { type: "button", className: "button small", textContent: "Pause updates" });
  const line = make("p", { className: "refresh-line" }, button, note);
  parts()[0].before(line);
  let paused = false;
  let failures = 0;
  let timer;

  const refresh = async () => {
    const answer = await fetch(location.href, { redirect: "manual", cache: "no-store" });
    if (!answer.ok) throw new Error(answer.status);
    const page = new DOMParser().parseFromString(await answer.text(), "text/html");
    if (paused) return;
    for (const part of parts()) {
      const fresh = page.getElementById(part.id);
      if (!fresh) continue;
      morph(part, fresh);
      enliven(part);
    }
  };
  const plan = () => {
    clearTimeout(timer);
    if (!parts().length) return line.remove();
    const seconds = Math.min(...parts().map((part) => Number(part.dataset.refresh) || 30));
    timer = setTimeout(look, 1000 * Math.min(60, Math.max(1, seconds) * 2 ** failures));
  };
  const look = async () => {
    if (paused || document.hidden) return;
    try {
      await refresh();
      failures = 0;
      note.textContent = "";
    } catch {
      failures = Math.min(failures + 1, 5);
      if (failures > 1) note.textContent = "This may be out of date: the server does not answer, or you were signed out.";
    }
    plan();
  };
  button.addEventListener("click", () => {
    paused = !paused;
    button.textContent = paused ? "Resume updates" : "Pause updates";
    paused ? clearTimeout(timer) : look();
  });
  document.addEventListener("visibilitychange", () => document.hidden || look());
  plan();
}

// ---- counting while a form is filled in: `<form data-live-count="#…">`, whose answer says it in `[data-counted]`

function countLive(form) {
  const note = document.querySelector(form.dataset.liveCount);
  let timer;
  let asked;
  let isStale = false;

  const stop = () => {
    clearTimeout(timer);
    asked?.abort();
  };
  const plan = () => {
    stop();
    isStale = true;
    if (!document.hidden) timer = setTimeout(count, 500);
  };
  const count = async () => {
    const { signal } = (asked = new AbortController());
    const body = new URLSearchParams([...new FormData(form)].filter(([, value]) => typeof value === "string"));
    body.set("act", "preview");
    try {
      const answer = await fetch(form.getAttribute("action"), { method: "POST", body, redirect: "manual", signal });
      const page = new DOMParser().parseFromString(await answer.text(), "text/html");
      if (signal.aborted) return;
      isStale = false;
      const counted = page.querySelector("[data-counted]");
      // What was counted before belongs to other rules.
      document.getElementById("tried")?.remove();
      note.textContent = counted?.textContent ?? (answer.status === 422 ? "These rules are not complete yet." : "");
    } catch {
      // The button counts, and says what is wrong.
    }
  };
  form.addEventListener("input", ({ target }) => target.name !== "name" && plan());
  form.addEventListener("submit", stop);
  document.addEventListener("visibilitychange", () => (document.hidden ? stop() : isStale && plan()));
}

// ---- shortcuts: the palette, the search field, and the list of both

const storage = {
  get off() {
    try {
      return localStorage.getItem("posthorn-shortcuts") === "off";
    } catch {
      return false;
    }
  },
  set off(value) {
    try {
      localStorage.setItem("posthorn-shortcuts", value ? "off" : "on");
    } catch {
      // Then they come back with the next page.
    }
  },
};

function openDialog(label, ...children) {
  document.querySelector("dialog.quick")?.remove();
  const close = make("button", { type: "button", className: "button small", textContent: "Close" });
  const dialog = make("dialog", { className: "quick" }, make("h2", { textContent: label }), ...children, close);
  dialog.setAttribute("aria-label", label);
  close.addEventListener("click", () => dialog.close());
  dialog.addEventListener("click", (event) => event.target === dialog && dialog.close());
  dialog.addEventListener("close", () => dialog.remove());
  document.body.append(dialog);
  dialog.showModal();
  return dialog;
}

function showPalette() {
  const known = new Set();
  const links = all(".rail nav a, .rail-foot a, main a.button, main table a, main .pager a")
    .filter((link) => link.textContent.trim() && !known.has(link.href) && known.add(link.href))
    .map((link) => make("a", { href: link.href, textContent: link.textContent.trim().replace(/\s+/g, " ") }));
  const input = make("input", { type: "search", autocomplete: "off", id: "palette" });
  const list = make("ul", {}, ...links.map((link) => make("li", {}, link)));
  const label = make("label", { htmlFor: "palette", textContent: "Where to? Type a part of the name." });
  const count = make("p", { className: "unseen" });
  count.setAttribute("role", "status");
  const dialog = openDialog("Go to", label, input, count, list);
  const shown = () => links.filter((link) => !link.parentElement.hidden);
  input.addEventListener("input", () => {
    const words = input.value.toLowerCase().split(/\s+/);
    for (const link of links) {
      link.parentElement.hidden = !words.every((word) => link.textContent.toLowerCase().includes(word));
    }
    count.textContent = `${shown().length} places`;
  });
  dialog.addEventListener("keydown", (event) => {
    const places = [input, ...shown()];
    const at = places.indexOf(document.activeElement);
    const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (step && at >= 0) {
      event.preventDefault();
      places[(at + step + places.length) % places.length].focus();
    } else if (event.key === "Enter" && at === 0) {
      event.preventDefault();
      places[1]?.click();
    }
  });
  input.focus();
}

function showShortcuts() {
  const row = (keys, what) => [make("dt", {}, make("kbd", { textContent: keys })), make("dd", { textContent: what })];
  const list = make(
    "dl",
    { className: "keys" },
    ...row("Ctrl K or ⌘ K", "Go to any page"),
    ...row("/", "Search on this page"),
    ...row("?", "This list"),
    ...row("Esc", "Close what is open"),
  );
  const box = make("input", { type: "checkbox", checked: !storage.off });
  box.addEventListener("change", () => (storage.off = !box.checked));
  openDialog("Shortcuts", list, make("label", { className: "tick" }, box, " Use these shortcuts in this browser"));
}

document.addEventListener("keydown", (event) => {
  if (storage.off || event.isComposing || document.querySelector("dialog[open]")) return;
  const command = event.ctrlKey || event.metaKey;
  if (command && !event.altKey && !event.shiftKey && event.key.toLowerCase() === "k") {
    if (!document.querySelector(".rail")) return;
    event.preventDefault();
    return showPalette();
  }
  if (command || event.altKey || event.target.closest("input, textarea, select, [contenteditable]")) return;
  if (event.key === "?") return showShortcuts();
  if (event.key !== "/") return;
  const search = document.querySelector("main input[type=search]");
  if (!search) return;
  event.preventDefault();
  search.focus();
});

enliven(document);
keepTyped();
keepFresh();
all("form[data-live-count]").forEach(countLive);
