/* Enhancements of the review queue: keyboard shortcuts, drafts, original values of fields, and live
   updates. Every page works without it. No shortcut submits a decision: "a" only focuses a
   button. */
"use strict";

(() => {
    const all = (selector, root = document) => [...root.querySelectorAll(selector)];
    const seen = (element) => element && element.getClientRects().length > 0;
    const text = "input:not([type=checkbox], [type=radio], [type=hidden], [type=button]), textarea, select, [contenteditable]";
    const off = "hitl.keys.off";
    const focus = (element) => {
        if (!element) return false;
        element.focus();
        element.scrollIntoView({ block: "nearest" });
        return true;
    };

    // Storage may be blocked or full; then nothing is stored.
    const remember = (store, key, value) => {
        try {
            value === null ? window[store].removeItem(key) : window[store].setItem(key, value);
        } catch { /* same as blocked */ }
    };
    const recall = (store, key) => {
        try {
            return window[store].getItem(key);
        } catch {
            return null;
        }
    };

    /* Fields: original and changed values. */

    const isTick = (field) => field.type === "checkbox" || field.type === "radio";
    const isChanged = (field) => {
        if (isTick(field)) return field.checked !== field.defaultChecked;
        if (field.options) {
            // Without a selected option, the browser selects the first one of a single choice.
            const said = field.multiple || [...field.options].some((option) => option.defaultSelected);
            return [...field.options].some((option, index) => option.selected !== (said ? option.defaultSelected : !index));
        }
        return field.type !== "hidden" && field.value !== field.defaultValue;
    };
    // A draft has neither secrets nor selected rows.
    const isTyped = (field) => field.type !== "password" && !("hitlSecret" in field.dataset) && field.name !== "item";
    const fields = (form) => [...form.elements].filter((field) => field.name && field.type !== "submit");
    const nameOf = (field) => isTick(field) ? `${field.name} ${field.value}` : field.name;
    const labelOf = (field) => field.labels?.[0]?.textContent.trim().replace(/:$/, "") ?? "";
    const partOf = (field) => field.closest("[data-hitl-part]")?.dataset.hitlPart ?? "answer";
    const stateOf = (field) => {
        if (isTick(field)) return field.checked;
        if (field.options) return [...field.selectedOptions].map((option) => option.value);
        return field.value;
    };
    const restore = (field, state) => {
        if (isTick(field)) field.checked = state;
        else if (field.options) for (const option of field.options) option.selected = state.includes(option.value);
        else field.value = state;
        const details = field.closest("details");
        if (details) details.open = true;
        tell(field);
    };
    const tell = (field) => field.dispatchEvent(new Event("input", { bubbles: true }));

    // As a form is submitted: line ends are CR LF.
    const encode = (form, button) => String(new URLSearchParams(new FormData(form, button))).replace(/(%0D)?%0A/g, "%0D%0A");

    document.addEventListener("input", (event) => {
        const was = event.target.closest(".hitl-field")?.querySelector("[data-hitl-was]");
        if (was) was.hidden = !isChanged(event.target);
        event.target.classList?.toggle("is-changed", Boolean(was) && !was.hidden);
        labelApproval(event.target.form);
    });
    // The button says "Approve with changes" as soon as a response field has changed.
    const labelApproval = (form) => all("[data-hitl-label]", form ?? undefined).forEach((label) => {
        label.dataset.hitlPlain ??= label.textContent;
        const own = fields(label.closest("form")).filter((field) => field.name.startsWith("answer"));
        label.textContent = own.some(isChanged) ? label.dataset.hitlLabel : label.dataset.hitlPlain;
    });
    /* Drafts: typed text that is not yet recorded, per user and browser tab. A draft is kept until
       a page confirms that the form with its key was recorded. As long as the decision can be
       undone, the submitted values are kept, too, for the page of the interrupt that is pending
       again. */

    const frame = document.querySelector("[data-hitl-user]");
    const drafts = "hitl.draft/", own = `${drafts}${encodeURIComponent(frame?.dataset.hitlUser)}/`;
    const draftsOf = (whose) => {
        try {
            return Object.keys(sessionStorage).filter((key) => key.startsWith(whose));
        } catch {
            return [];
        }
    };
    const forget = (keys) => keys.forEach((key) => remember("sessionStorage", key, null));
    const read = (key) => JSON.parse(recall("sessionStorage", key) ?? "null");
    const write = (key, draft) => remember("sessionStorage", key, draft.typed.length || draft.sent?.length ? JSON.stringify(draft) : null);

    // Remove drafts of another user, and all drafts on logout.
    forget(draftsOf("hitl.draft").filter((key) => !key.startsWith(own)));
    let leaves = false;
    addEventListener("submit", (event) => {
        // A form field named like the property would hide it.
        const action = event.target.getAttribute("action") ?? "";
        if (new URL(action, location).pathname !== frame?.dataset.hitlLogout) return;
        leaves = true;
        forget(draftsOf(drafts));
    });
    addEventListener("pageshow", () => (leaves = false));

    const forgetRecorded = () => all("[data-hitl-recorded]").forEach(({ dataset }) => draftsOf(own).forEach((key) => {
        const draft = read(key);
        if (draft.key !== dataset.hitlRecorded) return;
        const isSent = (one) => one.part === dataset.hitlPart;
        const sent = document.querySelector("form[data-hitl-undo]") ? draft.typed.filter(isSent) : [];
        write(key, { ...draft, typed: draft.typed.filter((one) => !isSent(one)), sent });
    }));

    const copyOf = (name) => document.querySelector(`template[data-hitl-${name}]`).content.firstElementChild.cloneNode(true);
    const momentOf = (time) => {
        const date = new Date(time), today = date.toDateString() === new Date().toDateString();
        const day = today ? {} : { day: "numeric", month: "short" };
        return date.toLocaleString(document.documentElement.lang || [], { ...day, hour: "2-digit", minute: "2-digit" });
    };

    const keepDraft = (form, signal) => {
        const key = own + form.dataset.hitlDraft, of = form.dataset.hitlVersion;
        const kept = form.hasAttribute("data-hitl-kept");
        const isUndone = document.querySelector(`[data-hitl-undone="${form.dataset.hitlDraft}"]`) !== null;
        let { at, typed, sent } = read(key) ?? { typed: [] };
        if (isUndone) typed = [...typed, ...sent ?? []];
        let unplaced = kept ? typed : [];
        const shown = [];

        // Submitted values shown by the page take precedence. Drafts of another version are not
        // restored.
        const place = (fits) => {
            const there = new Map(fields(form).map((field) => [nameOf(field), field]));
            unplaced = typed.filter(({ name, state, part }) => {
                const field = part !== "answer" || fits ? there.get(name) : undefined;
                if (field) restore(field, state);
                return !field && typeof state === "string" && state.trim();
            });
            shown.push(copyOf("unsent"));
            shown[0].querySelector("time").textContent = momentOf(at);
            shown[0].querySelector("button").addEventListener("click", discard);
            (form.querySelector(".hitl-body") ?? form).prepend(shown[0]);
            if (!unplaced.length) return;
            shown.push(copyOf("unplaced"));
            for (const { label, state } of unplaced) {
                const row = document.createElement("div"), name = document.createElement("dt"), words = document.createElement("dd");
                row.className = "is-wide";
                words.className = "hitl-text";
                name.dir = words.dir = "auto";
                [name.textContent, words.textContent] = [label, state];
                row.append(name, words);
                shown[1].querySelector("dl").append(row);
            }
            form.prepend(shown[1]);
        };
        const discard = () => {
            form.reset();
            fields(form).forEach(tell);
            typed = unplaced = [];
            forget([key]);
            shown.forEach((element) => element.remove());
            focus(form.closest("[data-hitl-stop]") ?? form.querySelector(text));
        };
        if (typed.length && !kept) place(isUndone || read(key).of === of);

        form.addEventListener("input", () => (at = Date.now()));
        const keep = () => {
            if (leaves) return;
            const changed = fields(form).filter((field) => isTyped(field) && isChanged(field)).map((field) => (
                { name: nameOf(field), state: stateOf(field), label: labelOf(field), part: partOf(field) }));
            const names = new Set(changed.map(({ name }) => name));
            typed = [...unplaced.filter(({ name }) => !names.has(name)), ...changed];
            write(key, { at: at ?? Date.now(), of, key: form.elements.key?.value || form.dataset.hitlDraft, typed });
        };
        addEventListener("pagehide", keep, { signal });
        signal.addEventListener("abort", keep);
        document.addEventListener("visibilitychange", () => document.hidden && keep(), { signal });
    };

    /* A bulk operation in several parts: submit the form for the next part. After the Back button,
       the user decides. */

    const isBack = performance.getEntriesByType("navigation")[0]?.type === "back_forward";
    if (!isBack) all("form[data-hitl-continue]").forEach((form) => setTimeout(() => form.requestSubmit(), 50));

    /* Countdown until a decision can no longer be undone. */

    const countDown = (form, signal) => {
        const count = form.querySelector("[data-hitl-seconds]");
        if (!count) return;
        const end = performance.now() + 1000 * Number(count.textContent);
        const tick = setInterval(() => {
            const left = Math.ceil((end - performance.now()) / 1000);
            if (left > 0 && !signal.aborted) {
                count.textContent = left;
                return;
            }
            clearInterval(tick);
            form.remove();
        }, 250);
    };

    /* Live updates: the state of a run, changed interrupts, other viewers, new rows of the list.
       The response contains the delay of the next request. The delay grows on idle or hidden pages
       and after failures. A logout stops the updates. */

    const say = (line, text, lead) => {
        const words = lead ? `${text} · ` : text;
        if (!line.firstChild) line.append("");
        if (line.firstChild.data !== words) line.firstChild.data = words;
        const link = line.querySelector("a") ?? document.createElement("a");
        if (!lead) return link.remove();
        [link.href, link.textContent] = [lead.url, lead.label];
        if (!link.parentNode) line.append(link);
    };
    const mark = (interrupt, words) => {
        const notice = document.querySelector(`[data-hitl-changed="${interrupt}"]`);
        const row = document.querySelector(`[data-hitl-row="${interrupt}"]`);
        if (notice?.hidden) {
            notice.querySelector("strong").textContent = words;
            notice.hidden = false;
        }
        if (!row) return;
        row.classList.add("is-gone");
        row.querySelector(".hitl-row-facts").textContent = words;
        all("input[name=item]", row).forEach((tick) => (tick.disabled = !(tick.checked = false)));
        countTicks();
    };
    // A decision whose run failed isn't a success.
    const warn = (line) => {
        line.classList.add("is-late");
        line.closest(".hitl-toast")?.classList.add("is-warning");
    };
    const take = (line, { text, lead, problem, interrupts, counts, total }) => {
        say(line, text, lead);
        if (problem) warn(line);
        Object.entries(interrupts ?? {}).forEach(([interrupt, words]) => mark(interrupt, words));
        if (!counts) return;
        all("[data-hitl-count]").forEach((count) => (count.textContent = counts[count.dataset.hitlCount]));
        all("[data-hitl-total]").forEach((count) => (count.textContent = total ?? count.textContent));
        const title = document.title.replace(/^\(\S+\) /, "");
        document.title = counts[""] === "0" ? title : `(${counts[""]}) ${title}`;
    };
    const watch = (line, signal) => {
        let tries = 0, failures = 0, again = 0.5, last = 0, timer;
        const wait = () => {
            const slow = Math.min(1 + tries / 30, 2) * (document.hidden ? 4 : 1) * 2 ** failures;
            const pause = Math.min(again * slow, Math.max(again, 300)) * 1000;
            clearTimeout(timer);
            if (!signal.aborted) timer = setTimeout(ask, Math.max(0, last + pause - Date.now()));
        };
        const ask = async () => {
            if (signal.aborted || (document.hidden && !("hitlUnseen" in line.dataset))) return;
            [tries, last] = [tries + 1, Date.now()];
            try {
                const response = await fetch(line.dataset.hitlWatch, { headers: { Accept: "application/json" } });
                if (response.redirected || [401, 403, 404].includes(response.status)) return (again = 0);
                const news = response.ok && await response.json();
                failures = news ? 0 : failures + 1;
                if (news && !signal.aborted) take(line, news);
                if (news) again = news.again ?? 0;
            } catch {
                failures += 1; // the network may recover
            }
            if (again && tries < 300) wait();
        };
        line.setAttribute("role", "status");
        last = Date.now();
        wait();
        // Update when the page becomes visible again.
        document.addEventListener("visibilitychange", () => {
            if (!document.hidden) tries = 0;
            if (again) wait();
        }, { signal });
    };

    /* The list: number of selected rows, select all, and closing of filters. */

    const ticks = () => all("input[type=checkbox][name=item]");
    const countTicks = () => {
        const ticked = ticks().filter((tick) => tick.checked).length;
        all("[data-hitl-ticked]").forEach((count) => (count.textContent = ticked ? ` (${ticked})` : ""));
        // The rows beyond this page are selected, too.
        all("[data-hitl-selected]").forEach((count) => (count.textContent = ticked + Number(count.dataset.hitlSelected)));
        all("[data-hitl-all] input").forEach((whole) => {
            whole.checked = ticked > 0 && ticked === ticks().length;
            whole.indeterminate = ticked > 0 && !whole.checked;
        });
    };
    document.addEventListener("change", countTicks);
    // Clearing a row's checkbox ends the selection of all matching rows.
    document.addEventListener("change", ({ target }) => {
        if (target.matches("input[name=item]:not(:checked)")) all("[data-hitl-matching]").forEach((whole) => (whole.checked = false));
    });
    addEventListener("pageshow", countTicks);

    const selectAll = (whole) => {
        const tick = whole.querySelector("input");
        whole.hidden = false;
        (tick ?? whole).addEventListener(tick ? "change" : "click", () => {
            const some = ticks().some((tick) => !tick.checked);
            ticks().forEach((tick) => (tick.checked = some));
            countTicks();
        });
    };

    const fold = (event) => all(".hitl-menu[open]").forEach((menu) => {
        // A suggestion that was clicked is no longer in the document.
        const inside = menu.contains(event.target) || !event.target.isConnected;
        if (event.key === "Escape" && inside) menu.querySelector("summary").focus();
        if (event.key === "Escape" || !inside) menu.open = false;
    });
    document.addEventListener("click", fold);
    document.addEventListener("keydown", (event) => event.key === "Escape" && fold(event));

    /* The shown page: the part of the document that a decision replaces. Its listeners and timers
       end with the signal. */

    const start = (signal) => {
        forgetRecorded();
        all("form[data-hitl-draft]").forEach((form) => keepDraft(form, signal));
        all("[data-hitl-undo]").forEach((form) => countDown(form, signal));
        all("[data-hitl-watch]").forEach((line) => watch(line, signal));
        all("[data-hitl-all]").forEach(selectAll);
        all("[data-hitl-reset]").forEach((button) => {
            const field = button.closest(".hitl-field").querySelector("input:not([type=hidden]), textarea, select");
            button.hidden = isTick(field);
            button.addEventListener("click", () => {
                if (field.options) [...field.options].forEach((option) => (option.selected = option.defaultSelected));
                else field.value = field.defaultValue;
                tell(field);
                field.focus();
            });
        });
        all("[data-hitl-most]").forEach((large) => {
            const form = large.closest("form");
            form.addEventListener("submit", (event) => {
                const { hitlMost: most } = large.dataset;
                large.hidden = !most || encode(form, event.submitter).length <= most;
                if (large.hidden) return;
                event.preventDefault();
                large.scrollIntoView({ block: "center" });
            });
        });
        all("#action-toggle").forEach((toggle) => {
            const ticks = all("#result_list .action-select");
            toggle.addEventListener("change", () => {
                ticks.forEach((tick) => (tick.checked = toggle.checked));
            });
        });
    };

    /* A decision and Skip are sent as the same form, and the response replaces the shown page
       without a full load. Meanwhile the page that probably comes next has been prefetched: if it
       does come next, the response contains only its messages. A prefetched page claims nothing. */

    const KEEP = 60_000, prefetchDelay = 300;
    const parse = (text) => new DOMParser().parseFromString(text, "text/html");
    const messagesIn = (from) => from.querySelector("[data-hitl-messages]");
    const shownIn = (from) => from.querySelector("[data-hitl-shown]");
    let page = new AbortController(), here = location.pathname + location.search;
    let ahead = null, isSending = false;

    const prefetch = (signal) => {
        const part = document.querySelector("[data-hitl-prefetch]");
        if (!part || navigator.connection?.saveData) return;
        let at = Date.now();
        const look = async () => {
            if (signal.aborted || isSending || document.hidden) return;
            [at, ahead] = [Date.now(), null];
            try {
                const response = await fetch(part.dataset.hitlPrefetch, { headers: { Accept: "text/html" }, signal });
                const fresh = response.ok && !response.redirected && parse(await response.text());
                const form = fresh && fresh.querySelector("form[data-hitl-draft]");
                if (form) ahead = { at, fresh, version: `${form.dataset.hitlDraft}.${form.dataset.hitlVersion}` };
            } catch { /* The page is loaded when it is needed. */ }
        };
        setTimeout(look, prefetchDelay);
        // A page that was read for long is prefetched again before the decision.
        for (const kind of ["focusin", "pointerover"]) part.addEventListener(kind, () => Date.now() - at > KEEP && look(), { signal });
    };
    // Scripts of a parsed document don't run, but copies of them do.
    const revive = (script) => {
        const copy = document.createElement("script");
        [...script.attributes].forEach(({ name, value }) => copy.setAttribute(name, value));
        copy.textContent = script.textContent;
        script.replaceWith(copy);
    };
    const replaceShown = (fresh) => {
        page.abort();
        [page, ahead] = [new AbortController(), null];
        const part = shownIn(fresh);
        if (!part) return document.replaceChild(fresh.documentElement, document.documentElement);
        const sheets = (from) => all("link[rel=stylesheet]", from);
        const known = new Set(sheets(document).map((sheet) => sheet.href));
        document.head.append(...sheets(fresh.head).filter((sheet) => !known.has(sheet.href)));
        messagesIn(document).replaceChildren(...messagesIn(fresh).childNodes);
        shownIn(document).replaceWith(part);
        all("script", part).forEach(revive);
        document.title = fresh.title;
        start(page.signal);
        prefetch(page.signal);
        document.dispatchEvent(new Event("hitl:shown"));
        // Screen readers read the element with the focus, and then the new messages.
        const target = part.querySelector("[autofocus]"), heading = part.querySelector("h1");
        heading?.setAttribute("tabindex", "-1");
        scrollTo(0, 0);
        target ? target.focus() : heading?.focus({ preventScroll: true });
    };
    // The result is null without a connection.
    const submit = async (form, button, next) => {
        try {
            const response = await fetch(form.getAttribute("action"), {
                method: "POST",
                headers: { Accept: "text/html", "Content-Type": "application/x-www-form-urlencoded", ...next && { "X-Hitl-Prefetched": next.version } },
                body: encode(form, button),
            });
            return { response, text: await response.text() };
        } catch {
            return null;
        }
    };
    const show = (fresh, url, isOther) => {
        replaceShown(fresh);
        history[isOther ? "pushState" : "replaceState"](null, "", url);
        here = location.pathname + location.search;
    };
    const send = async (form, button) => {
        const next = ahead && Date.now() - ahead.at < KEEP ? ahead : null;
        const { response, text } = await submit(form, button, next) ?? {};
        if (!response) {
            // The next attempt is an ordinary one. It decides nothing twice, because the form has
            // a key.
            plain.add(form);
            return refuse(form, button);
        }
        if (response.headers.get("Content-Type")?.startsWith("application/json")) {
            const { url, messages } = JSON.parse(text);
            messagesIn(next.fresh).replaceChildren(...parse(messages).body.childNodes);
            return show(next.fresh, url, true);
        }
        const fresh = parse(text);
        // The address of a page of another kind, for example the login, is loaded.
        if (response.redirected && !shownIn(fresh)) return location.assign(response.url);
        show(fresh, response.url, response.redirected);
    };
    addEventListener("popstate", () => here === location.pathname + location.search || location.reload());

    /* A form submitted without a connection stays on the page. */

    const plain = new WeakSet();
    const refuse = (form, submitter) => {
        all("[data-hitl-unsubmitted]").forEach((notice) => notice.remove());
        const notice = copyOf("offline"), retry = notice.querySelector("button");
        retry.addEventListener("click", () => {
            notice.remove();
            form.requestSubmit(submitter?.isConnected ? submitter : null);
        });
        (submitter?.closest(".hitl-drawer-panel, .hitl-bar") ?? form).prepend(notice);
        focus(retry);
    };
    addEventListener("submit", async (event) => {
        const form = event.target, { submitter } = event;
        const isPost = form.getAttribute("method")?.toLowerCase() === "post";
        if (event.defaultPrevented || !isPost) return;
        if (!navigator.onLine) {
            event.preventDefault();
            return refuse(form, submitter);
        }
        const isDecision = form.matches("[data-hitl-sheet]") && submitter?.name === "decision";
        if (plain.has(form) || !(isDecision || form.id === "hitl-skip-form")) return;
        event.preventDefault();
        if (isSending) return;
        isSending = true;
        await send(form, submitter).finally(() => (isSending = false));
    });

    start(page.signal);
    prefetch(page.signal);

    /* Keyboard shortcuts. */

    const help = document.querySelector("dialog[data-hitl-keys]");
    if (!help) return;
    const toggle = help.querySelector("input[type=checkbox]");
    toggle.checked = recall("localStorage", off) === null;
    const showHints = () => {
        document.querySelector("#hitl").classList.toggle("is-without-keys", !toggle.checked);
        all("[data-hitl-key]").forEach((button) => {
            button.dataset.hitlTitle ??= button.title;
            button.title = button.dataset.hitlTitle + (toggle.checked ? ` (${button.dataset.hitlKey})` : "");
        });
    };
    showHints();
    document.addEventListener("hitl:shown", showHints);
    toggle.addEventListener("change", () => {
        remember("localStorage", off, toggle.checked ? null : "1");
        showHints();
    });
    all("[data-hitl-help]").forEach((button) => {
        button.hidden = false;
        button.addEventListener("click", () => help.showModal());
    });

    const stop = "[data-hitl-stop], .hitl-row[data-hitl-row], #result_list tbody tr";
    const stops = () => all(stop).filter(seen);
    const within = () => document.activeElement.closest(stop);
    const current = () => within() ?? document.querySelector("[data-hitl-stop]");
    const move = (by) => {
        const found = stops(), at = found.indexOf(within()) + by;
        const next = found[within() || by > 0 ? at : -1];
        if (next) return focus(next.matches("[data-hitl-stop]") ? next : next.querySelector("a"));
        const beyond = document.querySelector(`a[rel=${by > 0 ? "next" : "prev"}]`);
        return Boolean(beyond?.click() ?? beyond);
    };
    const arm = (button) => {
        all(".hitl-armed").forEach((other) => other.classList.remove("hitl-armed"));
        button?.classList.add("hitl-armed");
    };
    const opened = (field) => {
        const details = field?.closest("details");
        if (details) details.open = true;
        return field;
    };
    const press = (selector, root = current() ?? document) => {
        const button = root.querySelector(selector);
        button?.click();
        return Boolean(button);
    };
    const takeNext = () => {
        const form = document.querySelector("form[data-hitl-next]");
        if (form) form.requestSubmit();
        return Boolean(form);
    };
    const keys = {
        n: takeNext,
        j: () => move(1),
        k: () => move(-1),
        a: () => {
            all(".hitl-drawer[open]", current() ?? undefined).forEach((drawer) => (drawer.open = false));
            return focus(current()?.querySelector(".hitl-bar > [data-hitl-default]"));
        },
        c: () => press("[data-hitl-claim]"),
        m: () => focus(opened(current()?.querySelector("[data-hitl-part=comment] textarea"))),
        r: () => focus(opened(current()?.querySelector("[name=reason]"))),
        s: () => press("[data-hitl-skip]", document),
        e: () => {
            const found = all(text, current() ?? undefined).filter((field) => !field.readOnly && field.closest("form[data-hitl-sheet]") && partOf(field) === "answer");
            return focus(opened(found.find((field) => field.name.startsWith("answer") || field.name.startsWith("action")) ?? found[0]));
        },
        x: () => {
            const tick = within()?.querySelector("input[name=item]");
            tick?.click();
            return Boolean(tick);
        },
        "/": () => focus(document.querySelector("#searchbar")),
        z: () => {
            const form = document.querySelector("form[data-hitl-undo]");
            form?.requestSubmit();
            return Boolean(form);
        },
        "?": () => !help.showModal(),
    };

    // Ctrl+Enter presses the marked button: that of the open drawer or of the part with the focus.
    document.addEventListener("focusin", (event) => {
        const part = event.target.closest("[data-hitl-part], .hitl-drawer, form[data-hitl-sheet]");
        const bar = part?.matches("form") ? part.querySelector(".hitl-bar > [data-hitl-default]") : part?.querySelector("[data-hitl-default]");
        arm(event.target.matches(text) ? bar : null);
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
        // Leave the field, so that shortcuts work again.
        if (writing && event.key === "Escape") focus(current());
        if (writing || event.ctrlKey || event.metaKey || (event.shiftKey && event.key !== "?")) return;
        if (Object.hasOwn(keys, event.key) && keys[event.key]()) event.preventDefault();
    });
})();
