/** That tests wait for states and not for a time: no test file has a timer, but those named here with a reason. */
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, it } from 'vitest';

const root = join(import.meta.dirname, '../..');
const TIMER = /(?<![.\w'])(?:setTimeout|setInterval|sleep|pause|elapsed)\(|from 'node:timers\/promises'/;

/** What a test plays, or a pace; nothing is concluded from how long it took. */
const exceptions = {
  'integration/amqp/rollout.test.ts': 'messages come at a rate, for a while',
  'integration/grpc-js/faults.test.ts': 'calls come at a rate',
  'integration/kubernetes/contract.test.ts': 'steps of virtual time, between which sockets get a turn',
  'integration/kubernetes/outages.test.ts': 'steps of virtual time, between which sockets get a turn',
  'integration/kubernetes/streams.test.ts': 'keeps a program of its own from ending',
  'integration/mysql2/pool-surface.test.ts': 'what Node tells at the end of a turn',
  'integration/mysql2/guide.test.ts': 'a program of its own looks for a state every few ms',
  'integration/mysql2/world.test.ts': 'keeps a program of its own from ending',
  'integration/node-http/service-clients.test.ts': 'a program of its own looks for a state every few ms',
  'integration/metrics/board/board.test.ts': 'the board shows a second before anything happens',
  'integration/node-http/keep-alive.test.ts': 'pauses about as long as idle connections live are what it is about',
  'integration/opentelemetry/ends.test.ts': 'callers give up at random',
  'integration/scripts/scripts.test.ts': 'servers take their time to answer',
  'integration/server/admission.test.ts': 'callers give up at every moment in turn',
  'integration/undici/deferred-end.test.ts': 'a reader that is slow',
  'integration/undici/keep-alive.test.ts': 'pauses about as long as idle connections live are what it is about',
  'integration/undici/streams.test.ts': 'readers and writers that are slow',
  'integration/undici/web-socket-leaving.test.ts': 'a client pauses before it connects again',
  'integration/ws/rollout.test.ts': 'in the proof, connections rest for a while',
  'integration/ws/web-sockets.test.ts': 'a client pauses before it connects again',
  'integration/tcp/connector.test.ts': 'a client pauses before it connects again',
  'unit/adapter/undici/app-agent.test.ts': 'a server that takes its time to answer',
  'unit/scripts/imports.test.mjs': 'sources that are checked',
  'unit/scripts/timers.test.mjs': 'this list',
};

const tests = readdirSync(root, { recursive: true, encoding: 'utf8' })
  .map((file) => file.replaceAll('\\', '/'))
  .filter((file) => /\.test\.(ts|mjs)$/.test(file));

it('only named tests have a timer', () => {
  const timed = tests.filter((file) => TIMER.test(readFileSync(join(root, file), 'utf8')));
  expect(timed.sort()).toEqual(Object.keys(exceptions).sort());
});

it('a timer is found, while that of a socket and a fake one are none', () => {
  expect(TIMER.test('await new Promise((resolve) => setTimeout(resolve, 50));')).toBe(true);
  expect(TIMER.test('await sleep(50);')).toBe(true);
  expect(TIMER.test('stream.setTimeout(20);')).toBe(false);
  expect(TIMER.test('clock.timer(() => {}, 50);')).toBe(false);
});
