// Not drawn yet.

export function start(root, app) {}
