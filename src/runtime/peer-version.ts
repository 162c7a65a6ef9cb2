import { createRequire } from 'node:module';
import { EvenkeelError } from '../errors.js';

interface Manifest {
  readonly version?: string;
  readonly peerDependencies?: Readonly<Record<string, string>>;
}

/**
 * Throws EVENKEEL_OPTION if a package is installed in a version that evenkeel's package.json does not allow. Without this check, an older
 * version would be used and would fail later with a message that explains nothing, such as "invalid onError method". If the package is not
 * found, nothing is thrown: the import that needs it will fail.
 *
 * @param importer The module that needs the package; it is named in the error.
 * @param checkedBy The URL of the module that calls this function, which must be a file called `check-version` that is imported before the
 * package. In an application that was bundled to one file, nothing is checked: the installed package may not be the one in the bundle.
 */
export function checkPeer(peer: string, importer: string, checkedBy: string): void {
  if (!/\/check-version(-[a-z0-9-]+)?\.[jt]s$/.test(checkedBy)) return;
  // An import would throw if the package is missing, and would not tell the version.
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
 * Whether a version is in a range. Only those forms of npm's ranges are known that evenkeel's package.json uses: `^1.2.3`, `>=1.2 <2`,
 * and several of them with `||`. Any other range includes every version.
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

/** Returns the numbers in a version, or in one part of a range. */
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
