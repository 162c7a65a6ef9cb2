// @ts-check
/** The ordinary client: Node's own fetch, no option set. It keeps its connections alive, as everybody's does. */

/** @type {import('./client.js').CreateClient} */
export const createClient = async ({ serviceUrl }) => ({
  send: (path, init) => fetch(new URL(path, serviceUrl), init),
});
