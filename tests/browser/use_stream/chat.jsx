// A chat as the users of LangGraph's React hook write it. It keeps its thread in the address, and
// goes on by itself where somebody decides elsewhere what its run has asked.
import { useStream } from "@langchain/langgraph-sdk/react";
import { useEffect, useState } from "react";
import { createRoot } from "react-dom/client";

const PAUSE = 200;
const MODES = ["values", "messages-tuple"];

const apiUrl = new URL("/agent", location.href).href;
const token = document.cookie.match(/csrftoken=([^;]+)/)[1];
const defaultHeaders = { "X-CSRFToken": token };
const address = new URL(location.href).searchParams;

function useThreadInAddress() {
  const [threadId, setThreadId] = useState(address.get("thread"));
  const keep = (id) => {
    setThreadId(id);
    history.replaceState(null, "", `?thread=${id}`);
  };
  return [threadId, keep];
}

/** Looks at a thread that waits until it doesn't, and joins its run where that goes on. */
function useDecisionsElsewhere(stream, threadId, question) {
  const isAtRest = !stream.isLoading && stream.error === undefined;
  const waits = threadId !== null && isAtRest && question !== undefined;
  useEffect(() => {
    if (!waits) return undefined;
    let timer;
    let isOver = false;
    const look = async () => {
      const { status } = await stream.client.threads.get(threadId);
      if (isOver) return;
      if (status === "interrupted") {
        timer = setTimeout(look, PAUSE);
        return;
      }
      const [run] = await stream.client.runs.list(threadId, { limit: 1 });
      // Without the number of an event the stream begins where the run last went on.
      if (!isOver) stream.joinStream(run.run_id, "", { streamMode: MODES });
    };
    timer = setTimeout(look, PAUSE);
    return () => {
      isOver = true;
      clearTimeout(timer);
    };
  }, [waits, threadId]);
}

function Chat() {
  const [threadId, onThreadId] = useThreadInAddress();
  const stream = useStream({
    apiUrl,
    assistantId: "chat",
    messagesKey: "messages",
    defaultHeaders,
    threadId,
    onThreadId,
    reconnectOnMount: true,
  });
  // For the hook a run that is under way when the page is loaded stops at a breakpoint, without
  // a value, until it has joined that.
  const question = stream.interrupt?.value;
  useDecisionsElsewhere(stream, threadId, question);
  const begin = () => stream.submit({ messages: [{ type: "human", content: "Hello." }] });
  const resume = () => stream.submit(undefined, { command: { resume: true } });

  return (
    <main>
      <ol>
        {stream.messages.map((message) => (
          <li key={message.id}>{message.content}</li>
        ))}
      </ol>
      {question && <p id="question">{question.title}</p>}
      {stream.error !== undefined && <p role="alert">{String(stream.error)}</p>}
      <p id="state">{stream.isLoading ? "at work" : "at rest"}</p>
      <button onClick={begin}>Begin</button>
      <button onClick={resume}>Continue</button>
    </main>
  );
}

createRoot(document.getElementById("root")).render(<Chat />);
