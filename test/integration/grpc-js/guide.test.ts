import { type ChildProcess, fork } from 'node:child_process';
import { once } from 'node:events';
import { fileURLToPath } from 'node:url';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { buildPackage, guidePrograms, outputOf, outputOfProgram } from '../../support/programs/programs.js';
import { titleOf } from '../../support/title-of.js';

const example = fileURLToPath(new URL('../../../examples/grpc', import.meta.url));
const programs = guidePrograms('grpc');
const expected: Readonly<Record<string, RegExp>> = {
  '# gRPC: @grpc/grpc-js': /^paid\n$/,
  '# gRPC: @grpc/grpc-js, with require': /^paid\n$/,
  'Certificates that change': /^true\n$/,
  Options: /^\[\s*\{ address: '127\.0\.0\.1:\d+', state: '\w+', inFlight: 0 \}\s*\]\n$/,
  'Retries and hedging': /^paid\n$/,
  'Waiting and errors':
    /no endpoint can be reached \(1 backoff; no connection to 127.*EVENKEEL_NOT_READY\)\n\[ 'EVENKEEL_NOT_READY' \]\n$/,
};
// The package as it is built has the installed grpc-js for its peer.
const reason = 'the package as it is built has the installed grpc-js';
const otherVersion = '@grpc/grpc-js' in JSON.parse(process.env.EVENKEEL_PEERS ?? '{}');

let server: ChildProcess;
let port: number;

beforeAll(async () => {
  await buildPackage();
  const env = { ...process.env, PORT: '0' };
  server = fork('server.js', { cwd: example, env, stdio: ['ignore', 'ignore', 'inherit', 'ipc'], execArgv: [] });
  const [ready] = (await once(server, 'message')) as [{ port: number }];
  ({ port } = ready);
});
afterAll(() => server.kill('SIGKILL'));

it('has the expected programs', () => {
  expect(programs.map(({ heading }) => heading)).toEqual(Object.keys(expected));
});

it.skipIf(otherVersion).each(programs)(
  titleOf('$heading: the program runs and ends', !otherVersion, reason),
  async ({ heading, source, format }) => {
    const program = source.replaceAll('orders.shop:50051', `127.0.0.1:${port}`);
    const stdout = await outputOfProgram({ source: program, format }, example);
    expect(stdout).toMatch(expected[heading] as RegExp);
  },
);

it.skipIf(otherVersion)(titleOf('the example runs to its end', !otherVersion, reason), async () => {
  const stdout = await outputOf(['demo.js'], example);
  expect(stdout).toMatch(/^three pods: +\{ anna: \d+, bert: \d+, cleo: \d+ \}$/m);
  expect(stdout).toMatch(/^a fourth one joined: .*dora/m);
  expect(stdout).toMatch(/^a stream of that time: +paid \(\w+\), packed \(\w+\), shipped \(\w+\), delivered \(\w+\)$/m);
  expect(stdout).toMatch(/^after that: +\{ dora: \d+, emil: \d+ \}$/m);
});
