import { drawIndex, type Rng } from '../../src/runtime/rng.js';
import { seededRng } from '../../src/testing/seeded-rng.js';

/** Cases of each input: a million in `npm run proof -- fuzz`, enough to notice a slip in the tests. */
export const CASES: number = process.env.EVENKEEL_PROOF === undefined ? 3_000 : 1_000_000;

/** `EVENKEEL_SEED=7 npx vitest run --project=unit test/fuzz` runs one case of each. */
const only: number | undefined =
  process.env.EVENKEEL_SEED === undefined ? undefined : Number(process.env.EVENKEEL_SEED);

/** Throws unless so many of 10,000 cases went one way: a test whose every case is refused at once shows nothing. */
export function enough(count: number, least: number): void {
  const wanted = least * Math.min(1, CASES / 10_000);
  if (only === undefined && count < wanted) throw new Error(`${count} cases, fewer than ${wanted}`);
}

/** Timeout of a test; guards against hanging, also at full counts. */
export const LIMIT_MS = 1_800_000;

/**
 * Runs one case after the other, each with chance of its own, so that the seed in a failure's message is enough to see it
 * again alone.
 */
export async function eachCase(run: (rng: Rng, seed: number) => Promise<void> | void): Promise<void> {
  for (let seed = only ?? 1; seed <= (only ?? CASES); seed++) {
    try {
      // A case that does not wait costs no turn.
      const pending = run(seededRng(seed), seed);
      if (pending !== undefined) await pending;
    } catch (error) {
      throw new Error(`seed ${seed}: ${error instanceof Error ? error.message : String(error)}`, { cause: error });
    }
  }
}

export function oneOf<T>(rng: Rng, values: readonly T[]): T {
  return values[drawIndex(rng, values.length)] as T;
}

/** Numbers at which code slips. */
export const oddNumbers: readonly number[] = [
  0,
  -0,
  1,
  -1,
  0.5,
  65_535,
  65_536,
  2 ** 31,
  2 ** 32,
  2 ** 53,
  1e-320,
  1e308,
  Number.MAX_VALUE,
  Number.POSITIVE_INFINITY,
  Number.NEGATIVE_INFINITY,
  Number.NaN,
];

/** Addresses of every kind: of pods, of no pod, hidden ones, and none at all. */
export const oddAddresses: readonly string[] = [
  '10.0.0.1',
  '10.0.0.2',
  '192.168.1.1',
  'fd00::1',
  '2001:db8::1',
  '127.0.0.1',
  '169.254.169.254',
  '100.100.100.200',
  '0.0.0.0',
  '224.0.0.1',
  '255.255.255.255',
  '::',
  '::1',
  '::ffff:127.0.0.1',
  '::ffff:0:7f00:1',
  '64:ff9b:1::7f00:1',
  '2002:7f00:1::1',
  'fd00:ec2::254',
  'fe80::1%eth0',
  'ff02::1',
  '010.000.000.001',
  '1.2.3',
  '1.2.3.4.5',
  '',
  'example.com',
  `${'1'.repeat(300)}.0.0.1`,
];

/** Bytes changed, lost, doubled, moved, and pieces put in that mean something to a parser. */
export function mutated(rng: Rng, bytes: Buffer, pieces: readonly string[]): Buffer {
  let result = Buffer.from(bytes);
  for (let changes = 1 + drawIndex(rng, 4); changes > 0; changes--) {
    const at = drawIndex(rng, result.length + 1);
    const end = Math.min(result.length, at + drawIndex(rng, 20));
    const [head, middle, tail] = [result.subarray(0, at), result.subarray(at, end), result.subarray(end)];
    switch (drawIndex(rng, 6)) {
      case 0:
        if (at < result.length) result[at] = drawIndex(rng, 256);
        break;
      case 1:
        result = Buffer.concat([head, tail]);
        break;
      case 2:
        result = Buffer.concat([head, middle, middle, tail]);
        break;
      case 3:
        result = Buffer.concat([head, Buffer.from(oneOf(rng, pieces)), tail]);
        break;
      case 4:
        result = Buffer.concat([head, Buffer.from(oneOf(rng, pieces).repeat(1 + drawIndex(rng, 100))), middle, tail]);
        break;
      default:
        result = Buffer.from(result.subarray(0, at));
    }
  }
  return result;
}

/** One value of any kind. */
export function anything(rng: Rng, depth = 3): unknown {
  const kind = drawIndex(rng, depth === 0 ? 6 : 8);
  switch (kind) {
    case 0:
      return undefined;
    case 1:
      return null;
    case 2:
      return rng.next() < 0.5;
    case 3:
      return oneOf(rng, oddNumbers);
    case 4:
      return oneOf(rng, oddAddresses);
    case 5:
      return oneOf(rng, ['', 'x', '__proto__', 'constructor', '\u0000', 'é😀', 'x'.repeat(1_000)]);
    case 6:
      return Array.from({ length: drawIndex(rng, 4) }, () => anything(rng, depth - 1));
    default: {
      const names = ['name', 'uid', 'port', 'addresses', 'ready', '__proto__', 'zone'];
      return Object.fromEntries(
        Array.from({ length: drawIndex(rng, 4) }, () => [oneOf(rng, names), anything(rng, depth - 1)]),
      );
    }
  }
}
