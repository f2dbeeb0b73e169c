// SPDX-License-Identifier: Apache-2.0
// Keeps pages up to date. Every page works without it.
"use strict";

const live = document.querySelector("[data-run]");
if (live) follow(live);

function follow(section) {
  const find = (id) => document.getElementById(id);
  const source = new EventSource(`/api/v1/runs/${encodeURIComponent(section.dataset.run)}/events`);
  source.addEventListener("end", () => { source.close(); location.reload(); });
  source.addEventListener("status", (event) => {
    const status = JSON.parse(event.data);
    const badge = find("state").firstElementChild;
    badge.className = `badge ${status.state}`;
    badge.textContent = status.state;
    set(find("where"), where(status));
    const p = status.progress;
    if (p) {
      find("bar").max = p.cells;
      find("bar").value = p.cells_done;
      set(find("count"), `${p.cells_done} of ${p.cells} cells, ${p.lives_done} of ${p.lives} server starts`);
      find("cells").replaceChildren(...(p.now ? p.now.cells : []).map(([name, done]) => {
        const item = document.createElement("li");
        item.textContent = name;
        item.className = done ? "done" : "";
        return item;
      }));
    }
    const said = find("said");
    const atEnd = said.scrollTop + said.clientHeight >= said.scrollHeight - 8;
    set(said, status.said.join("\n"));
    if (atEnd) said.scrollTop = said.scrollHeight;
  });
}

function where(status) {
  if (status.state === "queued") return `Number ${status.place} in the queue`;
  if (status.state === "ending") return "Ending its engines";
  const now = status.progress && status.progress.now;
  return now ? `Block ${now.block} of ${status.progress.blocks}: ${now.contender}` : "Starting";
}

// Unchanged text is left alone, so that screen readers say only what is new.
function set(element, text) {
  if (element.textContent !== text) element.textContent = text;
}

const form = document.getElementById("new");
if (form) {
  let last = 0;
  form.querySelector(".fields").addEventListener("input", async () => {
    const mine = ++last;
    const answer = await fetch("/new/yaml", { method: "POST", body: new URLSearchParams(new FormData(form)) });
    if (!answer.ok || mine !== last) return;
    const made = await answer.json();
    if (made.config !== null) document.getElementById("config").value = made.config;
    set(document.getElementById("yaml-trouble"), made.errors.join("\n"));
  });
}

const trouble = document.getElementById("trouble");
if (trouble) trouble.focus();

const fresh = document.querySelector("[data-reload]");
if (fresh) {
  setInterval(async () => {
    if (document.hidden || fresh.contains(document.activeElement)) return;
    const answer = await fetch(location.href);
    if (!answer.ok) return;
    const page = new DOMParser().parseFromString(await answer.text(), "text/html");
    const now = page.getElementById(fresh.id);
    if (now && now.innerHTML !== fresh.innerHTML) fresh.replaceChildren(...now.childNodes);
  }, 1000 * Number(fresh.dataset.reload));
}
