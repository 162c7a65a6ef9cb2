import { createRequire } from 'node:module';
import { EvenkeelError } from '../../index.js';

/**
 * Throws EVENKEEL_OPTION where the package undici needs a newer Node and cannot be loaded by this one: undici 8 by Node 20, which says
 * "Cannot read properties of undefined". To be imported before undici is; hence a file of its own in what is published. Bundled into
 * somebody's app it does nothing: what lies in node_modules then is not what is loaded.
 */
function checkVersion(): void {
  if (!/\/check-version\.[jt]s$/.test(import.meta.url)) return;
  // biome-ignore lint/plugin: It must not throw, and must say which version it is.
  const load = createRequire(import.meta.url);
  const manifest = attempt(() => load('undici/package.json') as Manifest);
  const needed = /^>=(\d+)\.[\d.]+$/.exec(manifest?.engines?.node ?? '');
  // Newer minor versions than this Node's may be asked for without need.
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
