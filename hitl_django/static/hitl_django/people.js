/* Suggestions of people while typing: for mentions in comments, and for the assignee. The server
   returns only people who can view the request. Without the script, the names can be typed. */
"use strict";

(() => {
    const named = /(?<![\w.@+-])@([\w.@+-]*)$/;
    const delay = 150;
    let number = 0;

    const suggest = (field, parameters, read, choose) => {
        const list = document.createElement("div");
        let timer, asked = 0, current = -1;
        list.id = `hitl-people-${number += 1}`;
        list.className = "hitl-people";
        list.setAttribute("role", "listbox");
        list.setAttribute("aria-label", field.dataset.hitlPeopleLabel ?? "");
        list.hidden = true;
        field.after(list);
        field.setAttribute("aria-controls", list.id);
        field.setAttribute("aria-autocomplete", "list");
        field.setAttribute("autocomplete", "off");

        const options = () => [...list.children];
        const mark = (index) => {
            current = index;
            options().forEach((option, at) => option.setAttribute("aria-selected", String(at === index)));
            if (index < 0) return field.removeAttribute("aria-activedescendant");
            field.setAttribute("aria-activedescendant", options()[index].id);
            options()[index].scrollIntoView({ block: "nearest" });
        };
        const close = () => {
            clearTimeout(timer);
            asked += 1;
            list.hidden = true;
            list.replaceChildren();
            mark(-1);
        };
        const take = (person) => {
            choose(field, person.username);
            close();
            field.focus();
        };
        const show = (people) => {
            list.replaceChildren(...people.map((person, at) => {
                const option = document.createElement("div"), name = document.createElement("bdi");
                option.id = `${list.id}-${at}`;
                option.setAttribute("role", "option");
                name.textContent = person.name ? `${person.name} (${person.username})` : person.username;
                option.append(name);
                // The field keeps the focus.
                option.addEventListener("mousedown", (event) => event.preventDefault());
                option.addEventListener("click", () => take(person));
                option.person = person;
                return option;
            }));
            list.hidden = !people.length;
            mark(-1);
        };
        const ask = async (words) => {
            const own = asked += 1;
            try {
                const address = new URL(field.dataset.hitlPeople, location);
                Object.entries({ ...parameters, q: words }).forEach(([name, value]) => address.searchParams.set(name, value));
                const response = await fetch(address, { headers: { Accept: "application/json" } });
                if (!response.ok || response.redirected) return;
                const { people } = await response.json();
                if (own === asked) show(people);
            } catch { /* The name can be typed. */ }
        };
        const look = () => {
            const words = read(field);
            if (words === null) return close();
            clearTimeout(timer);
            timer = setTimeout(() => ask(words), delay);
        };
        field.addEventListener("input", (event) => event.isTrusted && look());
        field.addEventListener("blur", close);
        field.addEventListener("keydown", (event) => {
            if (list.hidden || event.isComposing || event.ctrlKey || event.metaKey) return;
            const count = options().length, step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
            if (step) mark((current + step + (step < 0 && current < 0 ? 1 : 0) + count) % count);
            else if (event.key === "Escape") close();
            else if (["Enter", "Tab"].includes(event.key) && current >= 0) take(options()[current].person);
            else return;
            event.preventDefault();
            event.stopPropagation();
        });
    };

    const tell = (field) => field.dispatchEvent(new Event("input", { bubbles: true }));
    const readMention = (field) => {
        const found = field.selectionStart === field.selectionEnd && named.exec(field.value.slice(0, field.selectionStart));
        return found ? found[1] : null;
    };
    const mention = (field, username) => {
        const end = field.selectionStart, start = end - readMention(field).length;
        field.setRangeText(`${username} `, start, end, "end");
        tell(field);
    };
    const assign = (field, username) => {
        field.value = username;
        tell(field);
    };
    const start = () => {
        document.querySelectorAll("textarea[data-hitl-people]").forEach((field) => suggest(field, {}, readMention, mention));
        document.querySelectorAll("input[data-hitl-people]").forEach((field) => suggest(field, { assign: 1 }, () => field.value, assign));
    };
    start();
    document.addEventListener("hitl:shown", start);
})();
