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
