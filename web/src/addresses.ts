// The addresses of pages.

/** The page of a desktop. Its id has a dot, as files have: a server would look for one of that name. */
export function desktopPage(id: string): string {
  return `/desktops/${id.replace(".", "/")}`;
}
