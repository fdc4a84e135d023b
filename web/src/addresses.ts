// The addresses of pages.

/** The page of a desktop. Its id has a dot, as files have: a server would look for one of that name. */
export function desktopPage(id: string): string {
  return `/desktops/${id.replace(".", "/")}`;
}

/** All conversations of a workspace, as a file. */
export function exportOf(workspaceId: string): string {
  return `/api/workspaces/${encodeURIComponent(workspaceId)}/conversations/export`;
}
