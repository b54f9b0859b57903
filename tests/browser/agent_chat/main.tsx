// The pages of create-agent-chat-app without Next.js: agent-chat-ui with Agent Inbox's request view.
import { NuqsAdapter } from "nuqs/adapters/react";
import { createRoot } from "react-dom/client";
import Page from "@/app/page";

createRoot(document.getElementById("root")).render(
  <NuqsAdapter>
    <Page />
  </NuqsAdapter>,
);
