// What a key may by each scope that is given by the web, in plain words; `admin` is given at the host alone.
export const SCOPES: Record<string, string> = {
  read: "see desktops, operations and conversations",
  "desktops:write": "create, start and stop desktops, and open their screens",
  "desktops:destroy": "destroy desktops with all their data",
  chat: "give agents tasks, and talk to them",
  "approvals:read": "see what desktops wait to be allowed",
  "approvals:decide": "allow desktops to reach names of the internet",
};
// For these a person signs with a passkey; a key just does them.
export const UNSIGNED = ["desktops:write", "desktops:destroy", "approvals:decide"];

/** The workspaces of a key or a person in the line that is signed for it. */
export function whereOf(workspaces: string[]): string {
  return workspaces.length ? `workspaces=${workspaces.toSorted().join(",")}` : "all workspaces";
}
