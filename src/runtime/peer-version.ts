import { createRequire } from 'node:module';
import { EvenkeelError } from '../errors.js';

interface Manifest {
  readonly version?: string;
  readonly peerDependencies?: Readonly<Record<string, string>>;
}

/**
 * Throws EVENKEEL_OPTION if the installed version of a peer is one that package.json excludes: an older one would be taken and fail
 * later, in words that say nothing ("invalid onError method"). What cannot be found is left to the import that needs it.
 *
 * @param importer Named in the error.
 * @param checkedBy The URL of the module that checks. To run before the peer is loaded, that is a file of its own in the package,
 * `check-version`. Bundled into an app it checks nothing, because the peer in node_modules is then not the one that is loaded.
 */
export function checkPeer(peer: string, importer: string, checkedBy: string): void {
  if (!/\/check-version(-[a-z0-9-]+)?\.[jt]s$/.test(checkedBy)) return;
  // biome-ignore lint/plugin: It must not throw, and must say which version it is.
  const load = createRequire(import.meta.url);
  const manifestOf = (name: string): Manifest | undefined => {
    try {
      return load(`${name}/package.json`) as Manifest;
    } catch {
      return undefined;
    }
  };
  const range = manifestOf('evenkeel')?.peerDependencies?.[peer];
  const version = manifestOf(peer)?.version;
  if (range === undefined || version === undefined || isInRange(version, range)) return;
  const [major] = numbersIn(range);
  throw new EvenkeelError(
    'EVENKEEL_OPTION',
    `${importer} does not work with ${peer} ${version}, it needs ${range}. Install one that does: npm install ${peer}@${major}`,
  );
}

/**
 * Whether a version is in a range. Of npm's ranges it knows what our package.json has: `^1.2.3`, `>=1.2 <2`, and several of them with
 * `||`. Anything else includes every version.
 */
export function isInRange(version: string, range: string): boolean {
  const number = numbersIn(version);
  return range.split('||').some((alternative) =>
    alternative
      .trim()
      .split(/\s+/)
      .every((bound) => {
        const difference = compare(number, numbersIn(bound));
        if (bound.startsWith('^')) return difference >= 0 && number[0] === numbersIn(bound)[0];
        if (bound.startsWith('>=')) return difference >= 0;
        if (bound.startsWith('<')) return difference < 0;
        return true;
      }),
  );
}

/** The numbers of a version, or of a bound of a range. */
function numbersIn(text: string): number[] {
  return (/\d+(\.\d+)*/.exec(text)?.[0] ?? '').split('.').map(Number);
}

function compare(a: readonly number[], b: readonly number[]): number {
  for (let at = 0; at < Math.max(a.length, b.length); at++) {
    const difference = (a[at] ?? 0) - (b[at] ?? 0);
    if (difference !== 0) return difference;
  }
  return 0;
}
