// @ts-check
/** Reads the rules of the Role in manifests/rbac.yaml, so that this program has those permissions and no others. */
import { readFileSync } from 'node:fs';

/** @typedef {import('../../test/servers/index.js').Grant} Grant */

/** @param {string} manifest the text of the file @param {string} namespace @returns {Grant[]} */
export function grantsOf(manifest, namespace) {
  const role = manifest.split(/^---$/m).find((document) => /^kind: Role$/m.test(document)) ?? '';
  const rules = role.matchAll(/^ {4}resources: \[(.*)\]\n {4}verbs: \[(.*)\]$/gm);
  const words = (/** @type {string} */ list) => list.split(',').map((word) => word.trim().replaceAll('"', ''));
  return [...rules].map(([, resources = '', verbs = '']) => ({
    namespace,
    resources: /** @type {Grant['resources']} */ (words(resources)),
    verbs: /** @type {Grant['verbs']} */ (words(verbs)),
  }));
}

/** The grants of the example's own Role. */
export const exampleGrants = () =>
  grantsOf(readFileSync(new URL('manifests/rbac.yaml', import.meta.url), 'utf8'), 'shop');
