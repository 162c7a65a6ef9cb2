import { createRequire } from 'node:module';
import { EvenkeelError } from '../../index.js';
import { checkPeer } from '../kit/index.js';

/**
 * Throws EVENKEEL_OPTION if the installed undici needs a newer Node than the running one: undici 8 on Node 20 would otherwise fail with
 * "Cannot read properties of undefined". This file must be imported before undici, so it is a file of its own in the package. Bundled into
 * an app it does nothing, because the undici in node_modules is then not the one that is loaded.
 */
function checkVersion(): void {
  if (!/\/check-version(-[a-z0-9-]+)?\.[jt]s$/.test(import.meta.url)) return;
  // Not an import: loading undici must not throw here, and its version must be read.
  const load = createRequire(import.meta.url);
  const manifest = attempt(() => load('undici/package.json') as Manifest);
  const needed = /^>=(\d+)\.[\d.]+$/.exec(manifest?.engines?.node ?? '');
  // The minor version is ignored, because a package may require a newer minor version of Node without really needing it.
  if (manifest === undefined || needed === null || Number.parseInt(process.versions.node, 10) >= Number(needed[1]))
    return;
  try {
    load('undici');
  } catch (error) {
    const node = process.versions.node;
    throw new EvenkeelError(
      'EVENKEEL_OPTION',
      `undici ${manifest.version} does not run on Node.js ${node}, it needs ${needed[0].slice(2)}. Install one that does: npm install undici@7`,
      { cause: error },
    );
  }
}

/**
 * Throws EVENKEEL_OPTION in runtimes where requests would silently bypass the dispatcher: Bun replaces the package undici with functions of
 * its own, and the `fetch` of Deno ignores dispatchers.
 */
export function checkRuntime(name: string, versions: NodeJS.Dict<string> = process.versions): void {
  const bypassReason =
    versions.bun !== undefined
      ? 'Bun puts functions of its own in place of the package undici'
      : versions.deno !== undefined
        ? "Deno's fetch passes over dispatchers"
        : undefined;
  if (bypassReason === undefined) return;
  throw new EvenkeelError(
    'EVENKEEL_OPTION',
    `${name} works on Node.js only: ${bypassReason}. evenkeel/node-http works there`,
  );
}

interface Manifest {
  readonly version: string;
  readonly engines?: { readonly node?: string };
}

function attempt<T>(work: () => T): T | undefined {
  try {
    return work();
  } catch {
    return undefined;
  }
}

checkVersion();
checkPeer('undici', 'evenkeel/undici', import.meta.url);
