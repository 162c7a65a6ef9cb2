import { execFile } from 'node:child_process';
import { readFile } from 'node:fs/promises';
import { promisify } from 'node:util';
import { expect, it } from 'vitest';

interface File {
  readonly file: string;
}

const root = new URL('../../../', import.meta.url);
/** The sections of the page, by what `npm run call-path` calls the entry point. */
const sections = {
  'HTTP (undici)': 'One HTTP request',
  'HTTP (node:http)': 'One request of `http.request`',
  gRPC: 'One gRPC call',
  'SQL (mysql2)': 'One SQL statement',
};

/**
 * It depends on the moment: node:http looks whether a connection that was idle for some milliseconds is still open, and holds the request
 * until it knows; the load compares endpoints every 100 ms, as the page says above its tables.
 */
const sometimes = [
  ...['runtime/turn.ts', 'adapter/http/pending-request.ts'],
  ...['load/latency-survey.ts', 'load/median.ts', 'load/counted-calls.ts'],
];

const page = await readFile(new URL('docs/life-of-a-call.md', root), 'utf8');
/** The files in the first column of the tables under a heading. */
function filesUnder(heading: string): string[] {
  const section = page.split('\n## ').find((text) => text.startsWith(`${heading}\n`)) ?? '';
  const cells = section.split('\n').flatMap((line) => /^\| (`.*?`) \|/.exec(line)?.[1] ?? []);
  return cells.flatMap((cell) => [...cell.matchAll(/`([^`]+)`/g)].map(([, file = '']) => file));
}

it('a warm call runs through the files that docs/life-of-a-call.md names', async () => {
  const { stdout } = await promisify(execFile)(process.execPath, ['scripts/call-path.mjs', '--json'], { cwd: root });
  const measured = JSON.parse(stdout) as Record<string, readonly File[]>;
  expect(Object.keys(measured)).toEqual(Object.keys(sections));
  const shared = filesUnder('What every call runs through');
  for (const [name, heading] of Object.entries(sections)) {
    const files = measured[name] as readonly File[];
    // gRPC's retries are grpc-js's own.
    const common = shared.filter((file) => name !== 'gRPC' || file !== 'call/attempts.ts');
    const always = (all: readonly string[]): string[] => all.filter((file) => !sometimes.includes(file)).sort();
    const met = files.map(({ file }) => file);
    expect(always(met), name).toEqual(always([...common, ...filesUnder(heading)]));
  }
});
