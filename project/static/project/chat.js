/* A chat with the agent "support" over the LangGraph-compatible API.
   The page reads the stream of a run. The stream ends when the run waits for review. The page then
   polls the thread until a decision was made, and joins the stream again after the last event. */
"use strict";

(() => {
    const form = document.getElementById("chat");
    const field = document.getElementById("words");
    const log = document.getElementById("log");
    const status = document.getElementById("status");
    const base = form.dataset.url.replace(/ok$/, "");
    const token = form.elements.csrfmiddlewaretoken.value;
    const assistant = "support";
    const pause = 2000;

    let thread = new URLSearchParams(location.search).get("thread");
    let run = null;
    let last = null;
    let attempts = new Map();

    const wait = () => new Promise((resolve) => setTimeout(resolve, pause));
    const rest = () => new Promise((done) => setTimeout(done, 250));

    const call = async (path, body, headers = {}) => {
        const given = body === undefined ? {} : {
            method: "POST",
            body: JSON.stringify(body),
            headers: { "Content-Type": "application/json", "X-CSRFToken": token },
        };
        const answer = await fetch(base + path, { ...given, headers: { ...given.headers, ...headers } });
        if (answer.ok) return answer;
        const problem = await answer.json().catch(() => ({}));
        throw new Refusal(problem.detail || `The server returned ${answer.status}.`, answer.status);
    };
    class Refusal extends Error {
        constructor(message, code) {
            super(message);
            this.isFinal = code < 500 && code !== 429;
        }
    }

    /* Display */

    const say = (text, waits = false) => {
        status.textContent = text;
        status.classList.toggle("waits", waits);
    };
    const textOf = (content) => typeof content === "string"
        ? content
        : content.map((block) => block.text ?? "").join("");
    const describe = (call) => `${call.name}(${Object.entries(call.args)
        .map(([name, value]) => `${name}: ${JSON.stringify(value)}`).join(", ")})`;

    const find = (id, type) => {
        let item = document.getElementById(`message-${id}`);
        if (item) return item;
        item = document.createElement("li");
        item.id = `message-${id}`;
        item.className = type;
        item.append(document.createElement("span"));
        log.append(item);
        return item;
    };
    const addWords = (message, metadata) => {
        const place = metadata.langgraph_checkpoint_ns;
        const before = attempts.get(place);
        // Another worker has taken over the task, and its model starts again: drop the earlier text.
        if (before && before.attempt > metadata.run_attempt) return;
        if (before && before.attempt < metadata.run_attempt) document.getElementById(before.id)?.remove();
        const type = message.type.replace(/MessageChunk$/, "").toLowerCase();
        const text = textOf(message.content);
        if (!text) return;
        const item = find(message.id, type);
        attempts.set(place, { attempt: metadata.run_attempt, id: item.id });
        item.firstChild.textContent += text;
    };
    const showMessages = (messages) => {
        const known = new Set();
        for (const message of messages) {
            const item = find(message.id, message.type);
            known.add(item.id);
            item.firstChild.textContent = textOf(message.content);
            for (const code of item.querySelectorAll("code")) code.remove();
            for (const each of message.tool_calls ?? []) {
                item.append(Object.assign(document.createElement("code"), { textContent: describe(each) }));
            }
            log.append(item);
        }
        for (const item of [...log.children]) if (!known.has(item.id)) item.remove();
    };
    const showInterrupts = (interrupts) => {
        const calls = interrupts.flatMap((interrupt) => interrupt.value?.action_requests ?? []);
        say(`Waiting for review: ${calls.map(describe).join(", ") || "a request"}`, true);
    };

    /* Streams */

    const take = (frame) => {
        const lines = frame.split("\n").map((line) => line.split(/: ?(.*)/s, 2));
        const { id, event, data } = Object.fromEntries(lines);
        if (id) last = id;
        if (!event) return false; // a keep-alive of the server
        const value = JSON.parse(data);
        if (event === "metadata") run = value.run_id;
        if (event === "messages") addWords(...value);
        if (event === "values" && value.messages) showMessages(value.messages);
        if (event === "error") say(value.message);
        return event === "end";
    };
    /** Read one response. Return whether the stream has ended, and not only the response. */
    const read = async (answer) => {
        const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
        let rest = "";
        let ended = false;
        for (;;) {
            const { value, done } = await reader.read();
            if (done) return ended;
            const frames = (rest + value).split("\n\n");
            rest = frames.pop();
            for (const frame of frames) ended = take(frame) || ended;
        }
    };
    const join = () => call(
        `threads/${thread}/runs/${run}/stream?stream_mode=messages-tuple&stream_mode=values`,
        undefined,
        last === null ? {} : { "Last-Event-ID": last },
    );
    /** Repeat a call until it succeeds or fails for good. */
    const insist = async (act) => {
        for (;;) {
            try {
                return await act();
            } catch (error) {
                if (error.isFinal || run === null) throw error;
                say("Connection lost. Reconnecting …");
                await wait();
            }
        }
    };

    /** Follow the run to its end, across lost connections and interrupts. */
    const follow = async (answer) => {
        const works = () => say("The agent is working …");
        works();
        let next = answer;
        const readToEnd = async () => {
            for (;;) {
                const ended = await insist(async () => {
                    const given = next;
                    next = null;
                    return read(given ?? await join());
                });
                if (ended) return;
                await rest(); // a server without open streams sends its events at once
            }
        };
        await readToEnd();
        for (;;) {
            const now = await insist(async () => (await call(`threads/${thread}`)).json());
            if (now.status === "busy") works();
            // The run may have resumed and ended since the last event, so read on in any case.
            await readToEnd();
            if (now.status === "interrupted") {
                showInterrupts(Object.values(now.interrupts).flat());
                await wait();
            } else if (now.status !== "busy") return now.status;
        }
    };
    const converse = async (begin) => {
        form.querySelector("button").disabled = true;
        try {
            if (await follow(await begin()) !== "error") say("");
        } catch (error) {
            say(error.message);
        }
        form.querySelector("button").disabled = false;
    };

    form.addEventListener("submit", (event) => {
        event.preventDefault();
        const words = field.value;
        converse(async () => {
            if (thread === null) {
                thread = (await (await call("threads", {})).json()).thread_id;
                history.replaceState(null, "", `?thread=${encodeURIComponent(thread)}`);
            }
            run = last = null;
            attempts = new Map();
            const answer = await call(`threads/${thread}/runs/stream`, {
                assistant_id: assistant,
                input: { messages: [{ role: "user", content: words }] },
                stream_mode: ["messages-tuple", "values"],
            });
            field.value = "";
            return answer;
        });
    });
    form.hidden = false;

    // If the page is opened again, show the thread and follow its run.
    if (thread !== null) {
        converse(async () => {
            const runs = await (await call(`threads/${thread}/runs?limit=1`)).json();
            const { values } = await (await call(`threads/${thread}/state`)).json();
            showMessages(values?.messages ?? []);
            run = runs[0]?.run_id ?? null;
            return run === null ? new Response("event: end\ndata: null\n\n") : join();
        });
    }
})();
