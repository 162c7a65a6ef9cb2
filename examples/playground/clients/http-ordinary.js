// @ts-check
/** The ordinary client: Node's own fetch without options. Like everyone's, it keeps its connections alive. */
import { askOver } from './http.js';

/** @type {import('./client.js').CreateClient} */
export const createClient = async ({ servicePorts }) => ({
  ask: askOver((path, init) => fetch(new URL(path, `http://127.0.0.1:${servicePorts.http}`), init)),
});
