// Which page an address opens.
import type { Component } from "svelte";
import Approvals from "./pages/approvals/Approvals.svelte";
import Alerts from "./pages/alerts/Alerts.svelte";
import Audit from "./pages/audit/Audit.svelte";
import Conversation from "./pages/conversations/Conversation.svelte";
import Conversations from "./pages/conversations/Conversations.svelte";
import Desktop from "./pages/desktop/Desktop.svelte";
import Fleet from "./pages/fleet/Fleet.svelte";
import NewDesktop from "./pages/new-desktop/NewDesktop.svelte";
import NewWorkspace from "./pages/new-workspace/NewWorkspace.svelte";
import Operation from "./pages/operations/Operation.svelte";
import Operations from "./pages/operations/Operations.svelte";
import Settings from "./pages/settings/Settings.svelte";
import Answer from "./pages/sign-in/Answer.svelte";
import Enrol from "./pages/sign-in/Enrol.svelte";
import SignIn from "./pages/sign-in/SignIn.svelte";
import Usage from "./pages/usage/Usage.svelte";
import Workspace from "./pages/workspaces/Workspace.svelte";
import Workspaces from "./pages/workspaces/Workspaces.svelte";
import Missing from "./pages/Missing.svelte";

export interface Route {
  page: Component<any>;
  /** What the navigation marks as current. */
  section: string;
  id: string;
  /** Open to whoever is not signed in. */
  open: boolean;
}

const PAGES: [RegExp, Component<any>, string][] = [
  [/^\/$/, Fleet, "/"],
  [/^\/new$/, NewDesktop, "/"],
  [/^\/new-workspace$/, NewWorkspace, "/workspaces"],
  [/^\/desktops\/([^/]+\/[^/]+)$/, Desktop, "/"],
  [/^\/conversations$/, Conversations, "/conversations"],
  [/^\/conversations\/([^/]+)$/, Conversation, "/conversations"],
  [/^\/operations$/, Operations, "/operations"],
  [/^\/operations\/([^/]+)$/, Operation, "/operations"],
  [/^\/workspaces$/, Workspaces, "/workspaces"],
  [/^\/workspaces\/([^/]+)$/, Workspace, "/workspaces"],
  [/^\/approvals$/, Approvals, "/approvals"],
  [/^\/alerts$/, Alerts, "/alerts"],
  [/^\/usage$/, Usage, "/usage"],
  [/^\/audit$/, Audit, "/audit"],
  [/^\/settings$/, Settings, "/settings"],
  [/^\/sign-in$/, SignIn, ""],
  [/^\/sign-in\/answer$/, Answer, ""],
  [/^\/enrol$/, Enrol, ""],
];

export const SECTIONS: [string, string][] = [
  ["/", "Fleet"],
  ["/conversations", "Conversations"],
  ["/approvals", "Approvals"],
  ["/operations", "Operations"],
  ["/workspaces", "Workspaces"],
  ["/alerts", "Alerts"],
  ["/usage", "Usage"],
  ["/audit", "Audit"],
  ["/settings", "Settings"],
];

export function routeOf(path: string): Route {
  for (const [pattern, page, section] of PAGES) {
    const found = pattern.exec(path);
    if (found) return { page, section, id: decodeURIComponent(found[1] ?? "").replace("/", "."), open: section === "" };
  }
  return { page: Missing, section: "", id: "", open: false };
}
