// Niceties only: every page works without this file.
"use strict";

const wait = (ms) => new Promise((done) => setTimeout(done, ms));

// Copying is asynchronous where the page is secure, and by selection elsewhere.
async function copy(node) {
  if (navigator.clipboard) return navigator.clipboard.writeText(node.textContent);
  getSelection().selectAllChildren(node);
  if (!document.execCommand("copy")) throw new Error("refused");
  getSelection().removeAllRanges();
}

for (const button of document.querySelectorAll("[data-copy]")) {
  button.hidden = false;
  button.setAttribute("aria-live", "polite");
  button.addEventListener("click", async () => {
    try {
      await copy(button.previousElementSibling);
      button.textContent = "Copied";
    } catch {
      button.textContent = "Not copied";
    }
    await wait(2000);
    button.textContent = "Copy";
  });
}

for (const button of document.querySelectorAll("[data-reveal]")) {
  const input = document.getElementById(button.dataset.reveal);
  const show = (plain) => {
    input.type = plain ? "text" : "password";
    button.textContent = plain ? "Hide" : "Show";
    button.setAttribute("aria-pressed", plain);
  };
  button.hidden = false;
  button.addEventListener("click", () => show(input.type === "password"));
  input.form.addEventListener("submit", () => show(false));
}

// Counted from the server's figure: the visitor's clock may be wrong.
for (const note of document.querySelectorAll("[data-seconds]")) {
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
}

// Enter in a box would press the form's first button; it should decide nothing.
document.addEventListener("keydown", (event) => {
  if (event.key === "Enter" && event.target.matches("[type=checkbox], [type=radio]")) event.preventDefault();
});

// The exact local time of every moment, on hovering.
for (const time of document.querySelectorAll("time[datetime]")) {
  const at = new Date(time.dateTime);
  if (!isNaN(at)) time.title = at.toLocaleString();
}

// Back from where a decision led: what is kept of this page may have been answered since.
addEventListener("pageshow", (event) => {
  if (event.persisted) location.reload();
});
