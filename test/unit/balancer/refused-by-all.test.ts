import { afterEach, expect, it } from 'vitest';
import { createBalancer } from '../../../src/balancer/balancer.js';
import { EvenkeelError } from '../../../src/errors.js';
import { markLasting } from '../../../src/pool/lasting-error.js';
import type { Transport } from '../../../src/pool/transport.js';
import { staticEndpoints } from '../../../src/resolver/static.js';
import { FakeClock, settle } from '../../../src/testing/fake-clock.js';
import { FakeTransport } from '../../../src/testing/fake-transport.js';
import { seededRng } from '../../../src/testing/seeded-rng.js';

/** Three endpoints; what refuses to be connected to, and with what, is up to a test. */
function world() {
  const clock = new FakeClock();
  const accepting = new FakeTransport();
  const refusals = new Map<string, () => Error>();
  const transport: Transport<unknown> = {
    connect: async (endpoint, signal) => {
      const refusal = refusals.get(endpoint.address);
      if (refusal !== undefined) throw refusal();
      return accepting.connect(endpoint, signal);
    },
  };
  const addresses = ['10.0.0.1', '10.0.0.2', '10.0.0.3'];
  const start = () => {
    const resolver = staticEndpoints(addresses.map((address) => ({ address, port: 80 })));
    const balancer = createBalancer({ resolver, transport, clock, rng: seededRng(1), waitTimeoutMs: 60_000 });
    open.push(balancer);
    return balancer;
  };
  return { clock, refusals, addresses, start };
}

const open: AsyncDisposable[] = [];
afterEach(async () => {
  for (const balancer of open.splice(0)) await balancer[Symbol.asyncDispose]();
});

const denied = () => markLasting(new Error('access denied'));
const passing = () => new Error('too many connections');

it('calls that wait fail once every endpoint has refused for good, and later ones at once', async () => {
  const { clock, refusals, addresses, start } = world();
  for (const address of addresses) refusals.set(address, denied);
  const balancer = start();
  const waiting = expect(balancer.acquire()).rejects.toMatchObject({
    code: 'EVENKEEL_CONNECT',
    message: expect.stringMatching(
      /no endpoint can be connected to \(no connection to 10\.0\.0\.\d:80: access denied\)/,
    ),
    cause: { message: 'access denied' },
    endpoint: expect.stringMatching(/^10\.0\.0\.\d:80$/),
  });
  await clock.advanceAsync(100);
  await waiting;
  await expect(balancer.acquire()).rejects.toMatchObject({ code: 'EVENKEEL_CONNECT' });
});

it.each([
  ['refuses for a reason that may pass', passing],
  ['accepts', undefined],
])('calls still wait while one endpoint %s', async (_what, other) => {
  const { clock, refusals, addresses, start } = world();
  for (const address of addresses) refusals.set(address, denied);
  if (other === undefined) refusals.delete('10.0.0.2');
  else refusals.set('10.0.0.2', other);
  const balancer = start();
  let told: unknown;
  const leases = balancer.acquire().then(
    (lease) => lease.end({ kind: 'success' }),
    (error) => {
      told = error;
    },
  );
  await clock.advanceAsync(100);
  await settle();
  expect(told).toBeUndefined();
  await balancer.close();
  await leases;
});

it('calls succeed again after the configuration was corrected: connecting goes on', async () => {
  const { clock, refusals, addresses, start } = world();
  for (const address of addresses) refusals.set(address, denied);
  const balancer = start();
  await clock.advanceAsync(100);
  await expect(balancer.acquire()).rejects.toMatchObject({ code: 'EVENKEEL_CONNECT' });
  refusals.clear();
  await clock.advanceAsync(60_000);
  const lease = await balancer.acquire();
  lease.end({ kind: 'success' });
});

it('calls fail with the error of a function of the application, if that is the reason', async () => {
  const { clock, refusals, addresses, start } = world();
  const failing = () =>
    markLasting(new EvenkeelError('EVENKEEL_OPTION', 'password threw', { cause: new Error('vault') }));
  for (const address of addresses) refusals.set(address, failing);
  const balancer = start();
  await clock.advanceAsync(100);
  await expect(balancer.acquire()).rejects.toMatchObject({
    code: 'EVENKEEL_OPTION',
    message: 'password threw',
    cause: { message: 'vault' },
  });
});

it.each([
  'ERR_SSL_TLSV1_ALERT_NO_APPLICATION_PROTOCOL',
  'ERR_SSL_SSLV3_ALERT_HANDSHAKE_FAILURE',
  'ERR_SSL_TLSV1_ALERT_UNKNOWN_CA',
])('calls do not wait for %s', async (code) => {
  const { clock, refusals, addresses, start } = world();
  for (const address of addresses) refusals.set(address, () => Object.assign(new Error('an alert'), { code }));
  const balancer = start();
  const waiting = expect(balancer.acquire()).rejects.toMatchObject({ code: 'EVENKEEL_CONNECT', cause: { code } });
  await clock.advanceAsync(100);
  await waiting;
});

it('calls do not wait either if a certificate is rejected after the connection opened, as with TLS 1.3', async () => {
  const clock = new FakeClock();
  const transport = new FakeTransport();
  const resolver = staticEndpoints([{ address: '10.0.0.1', port: 80 }]);
  const balancer = createBalancer({ resolver, transport, clock, rng: seededRng(1), waitTimeoutMs: 60_000 });
  open.push(balancer);
  (await balancer.acquire()).end({ kind: 'success' });
  const code = 'ERR_SSL_TLSV13_ALERT_CERTIFICATE_REQUIRED';
  transport.connections[0]?.end(Object.assign(new Error('certificate required'), { code }));
  await settle();
  await expect(balancer.acquire()).rejects.toMatchObject({
    code: 'EVENKEEL_CONNECT',
    message: expect.stringMatching(/no endpoint can be connected to \(certificate required\)/),
    cause: { code },
  });
  // It is tried again, and calls succeed once it is accepted.
  await clock.advanceAsync(1_000);
  (await balancer.acquire()).end({ kind: 'success' });
});
