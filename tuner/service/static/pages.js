// Copying a snippet. Where the browser has no clipboard for us, the buttons stay hidden.
(() => {
  "use strict";
  if (!navigator.clipboard) {
    return;
  }
  for (const button of document.querySelectorAll("button[data-copy]")) {
    button.hidden = false;
    button.addEventListener("click", async () => {
      const text = document.getElementById(button.dataset.copy).textContent;
      try {
        await navigator.clipboard.writeText(text);
        button.textContent = "Copied";
      } catch {
        button.textContent = "Select it by hand";
      }
      setTimeout(() => (button.textContent = "Copy"), 2000);
    });
  }
})();

// All digits of the figures, for who can't point at one: touch and keyboard.
(() => {
  "use strict";
  const button = document.getElementById("digits");
  const rounded = new WeakMap();

  function show() {
    const isWhole = button.getAttribute("aria-pressed") === "true";
    const figures = document.querySelectorAll("data[title]");
    button.hidden = figures.length === 0;
    for (const figure of figures) {
      if (!rounded.has(figure)) {
        rounded.set(figure, figure.textContent);
      }
      figure.textContent = isWhole ? figure.value : rounded.get(figure);
    }
  }

  button.addEventListener("click", () => {
    const isWhole = button.getAttribute("aria-pressed") === "true";
    button.setAttribute("aria-pressed", String(!isWhole));
    show();
  });
  // What is polled comes in rounded.
  document.addEventListener("htmx:load", show);
  show();
})();
