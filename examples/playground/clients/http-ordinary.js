// @ts-check
/**
 * The ordinary client: Node's own fetch without options. Like everyone's, it keeps its connections alive.
 * A second process runs this file too, started with `--require evenkeel/register`.
 */
import { askOver } from './http.js';

/** @type {import('./client.js').CreateClient} */
export const createClient = async ({ service, namespace, servicePorts }) => ({
  ask: askOver((path, init) => fetch(new URL(path, `http://${service}.${namespace}:${servicePorts.http}`), init)),
});
