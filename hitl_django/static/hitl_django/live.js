/* Live pages: requests the open page again and replaces the regions that have changed. */
(() => {
    const page = document.querySelector("[data-hitl-live]");
    if (!page) return;
    const regions = (from) => new Map([...from.querySelectorAll("[data-hitl-region]")].map((region) => [region.dataset.hitlRegion, region]));
    // Each response has other CSRF tokens, and the reader opens details.
    const contentOf = (region) => {
        const copy = region.cloneNode(true);
        copy.querySelectorAll("[name=csrfmiddlewaretoken]").forEach((field) => field.remove());
        copy.querySelectorAll("details").forEach((details) => details.removeAttribute("open"));
        return copy.innerHTML;
    };
    const replace = (old, region) => {
        if (contentOf(old) === contentOf(region)) return;
        const open = [...old.querySelectorAll("details")].map((details) => details.open);
        const status = old.querySelector("[role=status]"), news = region.querySelector("[role=status]");
        if (status && news) {
            // Screen readers announce changes of an element that stays in the page.
            status.replaceChildren(...news.childNodes);
            news.replaceWith(status);
        }
        old.replaceChildren(...region.childNodes);
        old.querySelectorAll("details").forEach((details, number) => (details.open ||= open[number] ?? false));
    };
    let seconds = Number(page.dataset.hitlLive), tries = 0, failures = 0, timer;
    const wait = () => {
        clearTimeout(timer);
        const slow = Math.min(1 + tries / 30, 4) * 2 ** Math.min(failures, 6);
        if (seconds && tries < 300) timer = setTimeout(ask, 1000 * Math.min(seconds * slow, 300));
    };
    const ask = async () => {
        if (document.hidden) return;
        tries += 1;
        try {
            const response = await fetch(location.href, { headers: { Accept: "text/html" } });
            if (response.redirected || [401, 403, 404].includes(response.status)) return (seconds = 0);
            if (!response.ok) throw new Error(response.statusText);
            const fresh = new DOMParser().parseFromString(await response.text(), "text/html");
            const shown = regions(document);
            // A region with the focus is replaced by a later update.
            let isComplete = true;
            regions(fresh).forEach((region, name) => {
                const old = shown.get(name);
                if (!old) isComplete = false;
                else if (old.contains(document.activeElement)) isComplete &&= contentOf(old) === contentOf(region);
                else replace(old, region);
            });
            const next = Number(fresh.querySelector("[data-hitl-live]")?.dataset.hitlLive ?? 0);
            if (next !== seconds) tries = 0;
            seconds = next || (isComplete ? 0 : seconds);
            failures = 0;
        } catch {
            failures += 1;
        }
        wait();
    };
    wait();
    document.addEventListener("visibilitychange", () => {
        if (document.hidden || !seconds) return;
        tries = 0;
        ask();
    });
})();
