// What the names of workspaces and desktops look like, for the pattern of an input.
export const NAME = "[a-z]([a-z0-9\\-]*[a-z0-9])?";
