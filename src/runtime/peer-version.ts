import { createRequire } from 'node:module';
import { EvenkeelError } from '../errors.js';

/**
 * The versions of each client library that its entry point works with. package.json says `*` for all of them: npm would refuse to install
 * evenkeel in an app that has another version of a library for something else.
 */
export const peerRanges: Readonly<Record<string, string>> = {
  '@grpc/grpc-js': '>=1.14 <2',
  '@kubernetes/client-node': '^1.3.0 || ^2.0.1',
  '@opentelemetry/api': '^1.9.0',
  'amqp-connection-manager': '^5.0.0',
  amqplib: '^0.10.3 || ^1.0.0 || ^2.0.0',
  ioredis: '^5.4.0 || ^6.0.0',
  mysql2: '^3.9.0',
  pg: '^8.11.0',
  'rabbitmq-client': '^5.0.0',
  redis: '^5.0.0 || ^6.0.0',
  undici: '^7.0.0 || ^8.0.0',
  ws: '^8.0.0',
};

/**
 * Throws EVENKEEL_OPTION if a package is installed in a version that its entry point does not work with. Without this check, an older
 * version would be used and would fail later with a message that explains nothing, such as "invalid onError method". If the package is not
 * found, nothing is thrown: the import that needs it will fail.
 *
 * @param importer The module that needs the package; it is named in the error.
 * @param checkedBy The URL of the module that calls this function, which must be a file called `check-version` that is imported before the
 * package. In an application that was bundled to one file, nothing is checked: the installed package may not be the one in the bundle.
 */
export function checkPeer(peer: string, importer: string, checkedBy: string): void {
  if (!/\/check-version(-[a-z0-9-]+)?\.[jt]s$/.test(checkedBy)) return;
  const range = Object.hasOwn(peerRanges, peer) ? peerRanges[peer] : undefined;
  const version = installedVersion(peer);
  if (range === undefined || version === undefined || isInRange(version, range)) return;
  const [major] = numbersIn(range);
  throw new EvenkeelError(
    'EVENKEEL_OPTION',
    `${importer} does not work with ${peer} ${version}, it needs ${range}. Install one that does: npm install ${peer}@${major}`,
  );
}

function installedVersion(peer: string): string | undefined {
  try {
    // An import would throw if the package is missing, and would not tell the version.
    return (createRequire(import.meta.url)(`${peer}/package.json`) as { readonly version?: string }).version;
  } catch {
    return undefined;
  }
}

/**
 * Whether a version is in a range. Only those forms of npm's ranges are known that `peerRanges` uses: `^1.2.3`, `>=1.2 <2`,
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
