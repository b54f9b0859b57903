// LangGraph's JavaScript client goes the whole way: start, stream, resume, join, read.
// Prints what it saw as one line of JSON.
import { Client } from "@langchain/langgraph-sdk";

const [apiUrl, authorization] = process.argv.slice(2);
const client = new Client({ apiUrl, apiKey: null, defaultHeaders: { Authorization: authorization } });

async function read(stream) {
  const parts = [];
  for await (const part of stream) parts.push(part);
  return parts;
}

const assistants = await client.assistants.search({ graphId: "chat" });
const thread = await client.threads.create({ metadata: { from: "node" } });
const first = await read(
  client.runs.stream(thread.thread_id, "chat", {
    input: { log: ["hello"] },
    streamMode: ["values", "updates"],
    streamResumable: true,
    onDisconnect: "continue",
  }),
);
const paused = await client.threads.getState(thread.thread_id);
const resumed = await read(
  client.runs.stream(thread.thread_id, "chat", {
    command: { resume: { [paused.tasks[0].interrupts[0].id]: { approved: true } } },
    streamMode: "values",
  }),
);
const run = first[0].data.run_id;
const joined = await read(
  client.runs.joinStream(thread.thread_id, run, {
    lastEventId: first.at(-2).id,
    streamMode: ["values", "updates"],
  }),
);
const history = await client.threads.getHistory(thread.thread_id, { limit: 100 });
const found = await client.threads.search({ metadata: { from: "node" }, status: "idle" });
const answer = await client.runs.wait(thread.thread_id, "chat", { input: { log: ["again"] } });
const queued = await client.runs.create(thread.thread_id, "chat", {
  input: { log: ["later"] },
  multitaskStrategy: "enqueue",
});
await client.runs.wait(thread.thread_id, "chat", { command: { resume: { approved: true } } });
const later = await client.runs.join(thread.thread_id, queued.run_id);

console.log(
  JSON.stringify({
    assistants: assistants.map((each) => each.graph_id),
    first: first.map((part) => part.event),
    resumed: resumed.map((part) => part.event),
    joined: joined.map((part) => part.event),
    last: resumed.at(-2).data,
    history: history.length,
    found: found.length,
    asks: answer.__interrupt__.length,
    queued: queued.status,
    later: [later.log.at(-2), later.__interrupt__.length],
  }),
);
