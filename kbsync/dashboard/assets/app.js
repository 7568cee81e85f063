// What script adds to pages that work without it: the live state, holding updates, single keys, counts of ticked rows.
"use strict";

(() => {
  const $ = (selector, from = document) => from.querySelector(selector);
  const all = (selector, from = document) => [...from.querySelectorAll(selector)];

  // Live: the stream stamps the page once a second. Without a stamp for a while the page says how old it is.
  const SILENT_MS = 5000;
  const app = $(".app[sse-connect]");
  const live = $("#live");
  let held = false;
  let stamped = Date.now();

  function showLive() {
    if (!live) return;
    const on = Boolean(app) && !held && Date.now() - stamped < SILENT_MS;
    live.classList.toggle("is-held", !on);
    const word = $(".live-on", live);
    if (word) word.textContent = on ? "Live" : app ? "Not live, as of" : "As of";
  }

  // A part that somebody is busy with (ticked rows, an open sheet, a field with the focus) waits.
  function isBusy(target) {
    return target.contains(document.activeElement) && document.activeElement !== document.body && !target.matches("#live")
      || $("input:checked[name=job]", target) || $(":popover-open", target) || $("details[open]", target);
  }

  document.body.addEventListener("htmx:sseBeforeMessage", (event) => {
    if (event.target.id === "live") {
      stamped = Date.now();
      if (held) event.preventDefault();
      return;
    }
    if (held || isBusy(event.target)) event.preventDefault();
  });
  document.body.addEventListener("htmx:sseMessage", (event) => {
    const title = $("[data-title]", event.target);
    if (title) document.title = title.dataset.title + " · kbsync";
    showLive();
  });
  setInterval(showLive, 1000);
  showLive();

  // A hidden tab closes its stream; seen again, the page is read anew and streams on.
  document.addEventListener("visibilitychange", () => {
    if (!app || !window.htmx) return;
    const data = htmx.closest(app, ".app")["htmx-internal-data"];
    const source = data && data.sseEventSource;
    if (document.hidden && source) { source.close(); app.dataset.slept = "yes"; }
    else if (!document.hidden && app.dataset.slept) location.reload();
  });

  // Ticked rows are counted beside the actions.
  function countTicked() {
    for (const form of all("form[data-ticks]")) {
      const many = all("input:checked[name=job]", form).length;
      for (const output of all("output", form)) output.value = String(many);
    }
  }
  document.addEventListener("change", (event) => {
    if (event.target.matches("[data-tick-all]")) {
      for (const box of all("input[name=job]", event.target.form)) box.checked = event.target.checked;
    }
    countTicked();
  });
  countTicked();

  // Single keys: they move and open, and never act on data.
  if (document.body.dataset.keys !== "on") return;
  const rows = () => all("main tbody tr").filter((row) => $("a", row));
  let at = -1;
  let going = false;

  function mark(to) {
    const list = rows();
    if (!list.length) return;
    at = Math.max(0, Math.min(list.length - 1, to));
    all("tr.is-at").forEach((row) => row.classList.remove("is-at"));
    list[at].classList.add("is-at");
    $("a", list[at]).focus();
    list[at].scrollIntoView({ block: "nearest" });
  }

  document.addEventListener("keydown", (event) => {
    const field = event.target.closest("input, textarea, select, [contenteditable]");
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    if (event.key === "Escape") {
      if (field && field.type === "search") field.blur();
      all("input:checked[name=job]").forEach((box) => { box.checked = false; });
      countTicked();
      return;
    }
    if (field && !(field.type === "checkbox" && event.key !== " ")) return;
    if (going) {
      going = false;
      const link = $(`a[data-go="${CSS.escape(event.key)}"]`);
      if (link) { event.preventDefault(); location.href = link.href; }
      return;
    }
    if (event.key === "/") { event.preventDefault(); $("#find")?.focus(); }
    else if (event.key === "g") { going = true; setTimeout(() => { going = false; }, 1500); }
    else if (event.key === "j") mark(at + 1);
    else if (event.key === "k") mark(at - 1);
    else if (event.key === "x" && rows()[at]) {
      const box = $("input[name=job]", rows()[at]);
      if (box) { box.checked = !box.checked; countTicked(); }
    }
    else if (event.key === "p") { held = !held; showLive(); }
    else if (event.key === "?") $("#keys")?.togglePopover();
  });
})();
