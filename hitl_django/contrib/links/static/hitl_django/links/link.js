/* Copying a new review link. Without this script, the link can be selected and copied by hand. */

"use strict";

for (const button of document.querySelectorAll("[data-hitl-copy]")) {
    const section = button.closest("section");
    const field = section.querySelector("[data-hitl-link]");
    const status = section.querySelector("[data-hitl-copied]");

    button.hidden = false;
    field.addEventListener("focus", () => field.select());
    button.addEventListener("click", async () => {
        field.focus();
        field.select();
        try {
            await navigator.clipboard.writeText(field.value);
        } catch {
            // The clipboard needs HTTPS and permission. The older command copies the selection.
            if (!document.execCommand("copy")) {
                return;
            }
        }
        status.textContent = status.dataset.hitlCopied;
    });
}
