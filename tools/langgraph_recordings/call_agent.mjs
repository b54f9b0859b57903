// A conversation with AG-UI's LangGraph agent, which CopilotKit uses: a message, and an approval.
//
// See call_methods.py for the arguments.
import { readFileSync } from "node:fs";
import { LangGraphAgent } from "@ag-ui/langgraph";

const [deploymentUrl, script] = process.argv.slice(2);
const calls = JSON.parse(readFileSync(script, "utf-8"));
const number = calls.findIndex((each) => each.call === "ag_ui.run_agent");
const agent = new LangGraphAgent({ deploymentUrl, graphId: "assistant", threadId: crypto.randomUUID() });
const resume = { decisions: [{ type: "approve" }] };

await fetch(`${deploymentUrl}/call/${number}`, { method: "POST" });
agent.addMessage({ id: crypto.randomUUID(), role: "user", content: "hi" });
await agent.runAgent({});
await agent.runAgent({ forwardedProps: { command: { resume } } });
