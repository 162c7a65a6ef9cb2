import { type ChildProcess, fork } from 'node:child_process';
import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { runProgram } from '../../support/consumer.js';

const example = fileURLToPath(new URL('../../../examples/grpc', import.meta.url));
const guide = readFileSync(new URL('../../../docs/guide/grpc.md', import.meta.url), 'utf8');
/** The programs of the guide, each with the heading it stands under. */
const programs = guide.split(/^## /m).flatMap((section) => {
  const [heading = ''] = section.split('\n', 1);
  return [...section.matchAll(/^```js\n([\s\S]*?)^```/gm)].map(([, source]) => ({ heading, source: source as string }));
});
const expected: Readonly<Record<string, RegExp>> = {
  'Two words in front of what you have': /^paid\n$/,
  Options: /^\[\s*\{ address: '127\.0\.0\.1:\d+', state: '\w+', inFlight: 0 \}\s*\]\n$/,
  'Retries and hedging': /^paid\n$/,
  'Waiting and errors':
    /no endpoint can be reached \(1 backoff; no connection to 127.*EVENKEEL_NOT_READY\)\n\[ 'EVENKEEL_NOT_READY' \]\n$/,
};
// The package as it is built has the installed grpc-js for its peer.
const otherVersion = '@grpc/grpc-js' in JSON.parse(process.env.EVENKEEL_PEERS ?? '{}');

let server: ChildProcess;
let port: number;

beforeAll(async () => {
  const built = await runProgram(process.execPath, ['../../scripts/build.mjs'], example);
  expect(built.code, built.stdout + built.stderr).toBe(0);
  const env = { ...process.env, PORT: '0' };
  server = fork('server.js', { cwd: example, env, stdio: ['ignore', 'ignore', 'inherit', 'ipc'], execArgv: [] });
  const [ready] = (await once(server, 'message')) as [{ port: number }];
  ({ port } = ready);
});
afterAll(() => server.kill('SIGKILL'));

it('has the programs expected here', () => {
  expect(programs.map(({ heading }) => heading)).toEqual(Object.keys(expected));
});

it.skipIf(otherVersion).each(programs)('$heading: the program runs and ends', async ({ heading, source }) => {
  const program = source.replaceAll('orders.shop:50051', `127.0.0.1:${port}`);
  const { code, stdout, stderr } = await runProgram(process.execPath, ['--input-type=module', '-e', program], example);
  expect(stderr).toBe('');
  expect(code).toBe(0);
  expect(stdout).toMatch(expected[heading] as RegExp);
});

it.skipIf(otherVersion)('the example tells its story to the end', async () => {
  const { code, stdout, stderr } = await runProgram(process.execPath, ['main.js'], example);
  expect(stderr).toBe('');
  expect(code).toBe(0);
  expect(stdout).toMatch(/^three pods: +\{ anna: \d+, bert: \d+, cleo: \d+ \}$/m);
  expect(stdout).toMatch(/^a fourth one joined: .*dora/m);
  expect(stdout).toMatch(/^a stream of that time: +paid \(\w+\), packed \(\w+\), shipped \(\w+\), delivered \(\w+\)$/m);
  expect(stdout).toMatch(/^after that: +\{ dora: \d+, emil: \d+ \}$/m);
});
