/* Comfort for the review queue: keys, drafts, what a field was, and the line that follows a run.
   Every page works without it. No key decides by itself: "a" only moves the focus to a button. */
"use strict";

(() => {
    const all = (selector, root = document) => [...root.querySelectorAll(selector)];
    const seen = (element) => element && element.getClientRects().length > 0;
    const text = "input:not([type=checkbox], [type=radio], [type=hidden], [type=button]), textarea, select, [contenteditable]";
    const off = "hitl.keys.off";

    // Storage may be forbidden, or full: then there is nothing to remember.
    const remember = (store, key, value) => {
        try {
            value === null ? store.removeItem(key) : store.setItem(key, value);
        } catch { /* as if it had been turned off */ }
    };
    const recall = (store, key) => {
        try {
            return store.getItem(key);
        } catch {
            return null;
        }
    };

    /* Fields: what was there, and what was typed and not sent. */

    const isChanged = (field) => {
        if (field.type === "checkbox" || field.type === "radio") return field.checked !== field.defaultChecked;
        if (field.options) return [...field.options].some((option) => option.selected !== option.defaultSelected);
        return field.type !== "hidden" && field.value !== field.defaultValue;
    };
    const isTick = (field) => field.type === "checkbox" || field.type === "radio";
    const fields = (form) => [...form.elements].filter((field) => field.name && field.type !== "submit");

    // As it is sent: line ends are of two characters there, and each of six.
    const sizeOf = (form, button) => String(new URLSearchParams(new FormData(form, button))).replace(/(%0D)?%0A/g, "%0D%0A").length;

    document.addEventListener("input", (event) => {
        const was = event.target.closest(".form-row")?.querySelector("[data-hitl-was]");
        if (was) was.hidden = !isChanged(event.target);
    });

    all("form[data-hitl-sheet]").forEach((form) => {
        const key = `hitl.draft.${form.dataset.hitlSheet}`;
        let sent = false;
        const draft = JSON.parse(recall(sessionStorage, key) ?? "{}");
        if (!form.closest("article").querySelector(".errornote")) {
            for (const field of fields(form)) {
                const entry = draft[`${field.name} ${isTick(field) ? field.value : ""}`];
                if (entry === undefined) continue;
                isTick(field) ? (field.checked = entry) : (field.value = entry);
                const details = field.closest("details");
                if (details) details.open = true;
                field.dispatchEvent(new Event("input", { bubbles: true }));
            }
        }
        form.addEventListener("submit", (event) => {
            const large = form.querySelector("[data-hitl-most]");
            const most = large?.dataset.hitlMost;
            sent = !most || sizeOf(form, event.submitter) <= most;
            if (large) large.hidden = sent;
            if (sent) return;
            event.preventDefault();
            large.scrollIntoView({ block: "center" });
        });
        addEventListener("pageshow", () => (sent = false));
        addEventListener("pagehide", () => {
            const typed = sent ? [] : fields(form).filter(isChanged);
            const entries = typed.map((field) => isTick(field)
                ? [`${field.name} ${field.value}`, field.checked] : [`${field.name} `, field.value]);
            remember(sessionStorage, key, typed.length ? JSON.stringify(Object.fromEntries(entries)) : null);
        });
    });

    /* The line that follows a run after a decision. */

    const follow = async (line, tries) => {
        if (!document.hidden) {
            try {
                const response = await fetch(line.dataset.hitlFollow, { headers: { Accept: "application/json" } });
                if (!response.ok || response.redirected) return;
                const status = await response.json();
                if (line.textContent !== status.text) line.textContent = status.text;
                if (!status.moves) return;
            } catch { /* the network may be back next time */ }
        }
        if (tries < 300) setTimeout(follow, Math.min(500 + 250 * tries, 5000), line, tries + 1);
    };
    all("[data-hitl-follow]").forEach((line) => {
        if (!line.dataset.hitlFollow) return;
        line.setAttribute("role", "status");
        setTimeout(follow, 500, line, 1);
    });

    /* The list: all ticks at once. */

    all("[data-hitl-all]").forEach((button) => {
        button.hidden = false;
        button.addEventListener("click", () => {
            const ticks = all("#result_list input[name=item]");
            const some = ticks.some((tick) => !tick.checked);
            ticks.forEach((tick) => (tick.checked = some));
        });
    });

    all("#action-toggle").forEach((toggle) => {
        const ticks = all("#result_list .action-select");
        toggle.addEventListener("change", () => {
            ticks.forEach((tick) => (tick.checked = toggle.checked));
        });
    });

    /* Keys. */

    const help = document.querySelector("dialog[data-hitl-keys]");
    if (!help) return;
    const toggle = help.querySelector("input[type=checkbox]");
    toggle.checked = recall(localStorage, off) === null;
    toggle.addEventListener("change", () => remember(localStorage, off, toggle.checked ? null : "1"));
    all("[data-hitl-help]").forEach((button) => {
        button.hidden = false;
        button.addEventListener("click", () => help.showModal());
    });

    const stops = () => all("[data-hitl-stop], #result_list tbody tr").filter(seen);
    const within = () => document.activeElement.closest("[data-hitl-stop], #result_list tbody tr");
    const current = () => within() ?? document.querySelector("[data-hitl-stop]");
    const focus = (element) => {
        if (!element) return false;
        element.focus();
        element.scrollIntoView({ block: "nearest" });
        return true;
    };
    const move = (by) => {
        const found = stops(), at = found.indexOf(within()) + by;
        const next = found[within() || by > 0 ? at : -1];
        if (next) return focus(next.matches("tr") ? next.querySelector("a") : next);
        const beyond = document.querySelector(`a[rel=${by > 0 ? "next" : "prev"}]`);
        return Boolean(beyond?.click() ?? beyond);
    };
    const arm = (button) => {
        all(".hitl-armed").forEach((other) => other.classList.remove("hitl-armed"));
        button?.classList.add("hitl-armed");
    };
    // The reason that "r" led to: its button is Reject, also after a look into another window.
    let rejecting = null;
    const takeNext = () => {
        const form = document.querySelector("form[data-hitl-next]");
        if (form) form.requestSubmit();
        return Boolean(form);
    };
    const keys = {
        n: takeNext,
        j: () => move(1),
        k: () => move(-1),
        a: () => focus(current()?.querySelector(".hitl-bar .default")),
        r: () => focus(rejecting = current()?.querySelector("[name=reason]")),
        e: () => {
            const found = all(text, current() ?? undefined).filter((field) => !field.readOnly && field.closest("form[data-hitl-sheet]"));
            const first = found.find((field) => field.name !== "reason") ?? found[0];
            const details = first?.closest("details");
            if (details) details.open = true;
            return focus(first);
        },
        "?": () => !help.showModal(),
    };

    // Ctrl+Enter presses the button that is marked: the one of the part that is written in, or
    // Reject, where "r" led to the reason. Elsewhere it presses none.
    document.addEventListener("focusin", (event) => {
        if (event.target !== rejecting) rejecting = null;
        const part = event.target.closest("details.hitl-option, form[data-hitl-sheet]");
        if (rejecting) arm(part?.querySelector(".hitl-reject"));
        else if (event.target.matches(text)) arm(part?.querySelector(":scope > .hitl-bar [data-hitl-default], :scope:is(details) [data-hitl-default]"));
        else arm(null);
    });
    document.addEventListener("focusout", () => arm(null));
    document.addEventListener("keydown", (event) => {
        if (event.defaultPrevented || event.isComposing || event.keyCode === 229 || event.repeat) return;
        if (!toggle.checked || document.querySelector("dialog[open]") || event.altKey) return;
        const writing = event.target.matches(text);
        if (event.key === "Enter" && event.ctrlKey !== event.metaKey && !event.shiftKey) {
            const button = document.querySelector(".hitl-armed");
            if (writing && button?.form === event.target.form) {
                event.preventDefault();
                button.form.requestSubmit(button);
            }
            return;
        }
        // Out of a field, so that the keys are keys again.
        if (writing && event.key === "Escape") focus(current());
        if (writing || event.ctrlKey || event.metaKey || (event.shiftKey && event.key !== "?")) return;
        if (Object.hasOwn(keys, event.key) && keys[event.key]()) event.preventDefault();
    });
})();
