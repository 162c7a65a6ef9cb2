import { describe, expect, it } from 'vitest';
import { perEndpointError } from '../../../src/credentials/per-endpoint.js';
import { createEndpoint, type Endpoint, type EndpointInit, withOtherFirst } from '../../../src/endpoint/endpoint.js';
import { isEvenkeelError } from '../../../src/errors.js';
import { markLasting } from '../../../src/pool/lasting-error.js';
import { settle } from '../../../src/testing/fake-clock.js';
import {
  expectNothingLeft,
  SubchannelFixture,
  type SubchannelFixtureOptions,
} from '../../support/fixtures/subchannel-fixture.js';

const V4 = '10.0.0.1:80';
const V6 = 'fd00::1:80';

function twoAddresses(options: SubchannelFixtureOptions = {}): SubchannelFixture {
  return new SubchannelFixture({ ...options, endpoint: { uid: 'u1', otherAddress: 'fd00::1' } });
}

/** The pod of the fixture with other addresses, under the same key. */
function pod(
  { endpoint }: SubchannelFixture,
  { address, otherAddress }: Pick<EndpointInit, 'address' | 'otherAddress'>,
): Endpoint {
  return { ...createEndpoint({ address, otherAddress, port: 80, uid: 'u1' }), key: endpoint.key };
}

describe('a pod with two addresses', () => {
  it('is connected to at the first alone while that works', async () => {
    const fixture = twoAddresses();
    await fixture.open();
    expect(fixture.fake.attempts).toEqual([V4]);
    expect(fixture.subchannel.endpoint.address).toBe('10.0.0.1');
  });

  it('is connected to at the second if the first refuses, and does not count as failed', async () => {
    const fixture = twoAddresses();
    fixture.fake.behaviour.set(V4, 'refuse');
    await fixture.open();
    expect(fixture.fake.attempts).toEqual([V4, V6]);
    expect(fixture.state).toBe('ready');
    expect(fixture.told).toEqual(['connected']);
    expect(fixture.troubles).toBe(0);
    expect(fixture.subchannel.endpoint).toMatchObject({
      address: 'fd00::1',
      otherAddress: '10.0.0.1',
      key: '10.0.0.1:80#u1',
    });
  });

  it('is connected to at the second if the first is silent, with the full time limit again', async () => {
    const fixture = twoAddresses({ pool: { connectTimeoutMs: 1_000 } });
    fixture.fake.behaviour.set(V4, 'hang');
    fixture.fake.behaviour.set(V6, 'hang');
    await fixture.open();
    await fixture.clock.advanceAsync(1_000);
    expect(fixture.fake.attempts).toEqual([V4, V6]);
    expect(fixture.fake.hanging).toBe(1);
    expect(fixture.state).toBe('connecting');
    await fixture.clock.advanceAsync(999);
    expect(fixture.state).toBe('connecting');
    await fixture.clock.advanceAsync(1);
    expect(fixture.state).toBe('backoff');
    expect(fixture.fake.hanging).toBe(0);
  });

  it('fails once both have, with one error that names both, and starts with the first again', async () => {
    const fixture = twoAddresses();
    fixture.fake.behaviour.set(V4, 'refuse').set(V6, 'refuse');
    await fixture.open();
    expect(fixture.troubles).toBe(1);
    expect(fixture.subchannel.lastError).toSatisfy((error) => isEvenkeelError(error, 'EVENKEEL_CONNECT'));
    expect(fixture.subchannel.lastError?.message).toBe(
      `no connection to ${V4}: refused ${V4}; no connection to [fd00::1]:80: refused ${V6}`,
    );
    await fixture.clock.advanceAsync(200);
    expect(fixture.fake.attempts).toEqual([V4, V6, V4, V6]);
  });

  it('is dialed at the second by a call that could not connect to the first, until that has failed too', async () => {
    const fixture = twoAddresses();
    const { subchannel } = fixture;
    expect(subchannel.useOtherAddress('10.0.0.1')).toBe(false);
    await fixture.open();
    expect(subchannel.useOtherAddress('10.0.0.1')).toBe(true);
    expect(subchannel.endpoint.address).toBe('fd00::1');
    expect(subchannel.useOtherAddress('10.0.0.1')).toBe(true);
    expect(subchannel.useOtherAddress('fd00::1')).toBe(false);
    expect(subchannel.endpoint).toMatchObject({ address: 'fd00::1', otherAddress: '10.0.0.1' });
    expect(fixture.state).toBe('ready');
  });

  it.each([
    ['the application’s function fails', (endpoint: Endpoint) => perEndpointError('tls', endpoint, 'failed')],
    ['only a change of the configuration helps', () => markLasting(new Error('unknown user'))],
  ])('is not tried a second time where %s', async (_when, error) => {
    const asked: string[] = [];
    const transport = {
      connect: async (endpoint: Endpoint): Promise<never> => {
        asked.push(endpoint.address);
        throw error(endpoint);
      },
    };
    const fixture = twoAddresses({ transport });
    await fixture.open();
    expect(asked).toEqual(['10.0.0.1']);
    expect(fixture.state).toBe('backoff');
  });

  it('discards a connection to the first that arrives while the second is tried', async () => {
    const fixture = twoAddresses({ pool: { connectTimeoutMs: 1_000 } });
    let arrive = (): void => {};
    const late = new Promise<void>((resolve) => {
      arrive = resolve;
    });
    const { fake } = fixture;
    const connect = fake.connect.bind(fake);
    fake.connect = async (endpoint, signal) => {
      if (endpoint.address !== '10.0.0.1') return connect(endpoint, signal);
      // Ignores its signal.
      await late;
      return connect(endpoint, new AbortController().signal);
    };
    fixture.fake.behaviour.set(V6, 'hang');
    await fixture.open();
    await fixture.clock.advanceAsync(1_000);
    arrive();
    await settle();
    expect(fixture.fake.connections).toHaveLength(1);
    expect(fixture.fake.open()).toEqual([]);
    expect(fixture.state).toBe('connecting');
    fixture.subchannel.destroy();
    await expectNothingLeft(fixture);
  });

  it('leaves nothing behind when it goes while the second is tried', async () => {
    const fixture = twoAddresses({ pool: { connectTimeoutMs: 1_000 } });
    fixture.fake.behaviour.set(V4, 'refuse').set(V6, 'hang');
    await fixture.open();
    fixture.subchannel.destroy();
    await settle();
    expect(fixture.fake.hanging).toBe(0);
    await expectNothingLeft(fixture);
  });
});

describe('new data for a pod with two addresses', () => {
  it('leaves a connection open whose address the pod still has', async () => {
    const fixture = twoAddresses();
    await fixture.open();
    for (const addresses of [
      { address: '10.0.0.1' },
      { address: '10.0.0.1', otherAddress: 'fd00::2' },
      { address: 'fd00::2', otherAddress: '10.0.0.1' },
      { address: '10.0.0.1', otherAddress: 'fd00::1' },
    ]) {
      fixture.subchannel.update(pod(fixture, addresses));
      expect(fixture.subchannel.endpoint.address).toBe('10.0.0.1');
    }
    expect(fixture.changes).toEqual(['idle → connecting', 'connecting → ready']);
    expect(fixture.fake.connections).toHaveLength(1);
  });

  it('leaves a connection to the second address open when the first arrives', async () => {
    const fixture = new SubchannelFixture({ endpoint: { address: 'fd00::1', uid: 'u1' } });
    await fixture.open();
    fixture.subchannel.update(pod(fixture, { address: '10.0.0.1', otherAddress: 'fd00::1' }));
    await settle();
    expect(fixture.subchannel.endpoint).toMatchObject({ address: 'fd00::1', otherAddress: '10.0.0.1' });
    expect(fixture.changes).toEqual(['idle → connecting', 'connecting → ready']);
  });

  it('stops the use of an address that the pod lost: running calls finish, the next connection goes to the other', async () => {
    const fixture = twoAddresses();
    await fixture.open();
    await fixture.clock.advanceAsync(60_000);
    const old = fixture.last;
    const call = old.begin();
    fixture.subchannel.update(pod(fixture, { address: 'fd00::1' }));
    await settle();
    expect(fixture.state).toBe('ready');
    expect(fixture.subchannel.endpoint.address).toBe('fd00::1');
    expect(old.closing).toBe('finish');
    expect(old.isOpen).toBe(true);
    call.finish();
    await settle();
    expect(old.isOpen).toBe(false);
  });

  it('discards a connection to an address that the pod lost while the transport was called', async () => {
    const fixture = twoAddresses();
    const connect = fixture.fake.connect.bind(fixture.fake);
    fixture.fake.connect = (endpoint, signal) => {
      fixture.subchannel.update(pod(fixture, { address: 'fd00::1' }));
      return connect(endpoint, signal);
    };
    await fixture.open();
    await settle();
    expect(fixture.fake.open()).toEqual([]);
    await fixture.clock.advanceAsync(200);
    expect(fixture.subchannel.endpoint.address).toBe('fd00::1');
    expect(fixture.state).toBe('ready');
  });

  it('ends a dial to an address that the pod lost, and dials one that it has', async () => {
    const fixture = twoAddresses();
    fixture.fake.behaviour.set(V4, 'hang');
    await fixture.open();
    expect(fixture.state).toBe('connecting');
    fixture.subchannel.update(pod(fixture, { address: 'fd00::1' }));
    await settle();
    expect([fixture.state, fixture.fake.attempts, fixture.fake.hanging]).toEqual(['ready', [V4, V6], 0]);
    expect(fixture.changes).toEqual(['idle → connecting', 'connecting → ready']);
    expect(fixture.clock.timers).toBe(0);
  });

  it('ends a dial to the second address if the pod lost that one', async () => {
    const fixture = twoAddresses();
    fixture.fake.behaviour.set(V4, 'refuse').set(V6, 'hang');
    await fixture.open();
    fixture.fake.behaviour.delete(V4);
    fixture.subchannel.update(pod(fixture, { address: '10.0.0.1' }));
    await settle();
    expect([fixture.state, fixture.fake.attempts]).toEqual(['ready', [V4, V6, V4]]);
  });

  it('leaves a dial to an address alone that the pod still has', async () => {
    const fixture = twoAddresses();
    fixture.fake.behaviour.set(V4, 'hang');
    await fixture.open();
    fixture.subchannel.update(pod(fixture, { address: 'fd00::2', otherAddress: '10.0.0.1' }));
    await settle();
    expect([fixture.state, fixture.fake.attempts, fixture.fake.hanging]).toEqual(['connecting', [V4], 1]);
    fixture.subchannel.destroy();
    await expectNothingLeft(fixture);
  });

  it('ends the backoff if there is a new address', async () => {
    const fixture = new SubchannelFixture({ endpoint: { address: 'fd00::1', uid: 'u1' } });
    fixture.fake.behaviour.set(V6, 'refuse');
    await fixture.open();
    expect(fixture.state).toBe('backoff');
    fixture.subchannel.update(pod(fixture, { address: '10.0.0.1', otherAddress: 'fd00::1' }));
    await settle();
    expect(fixture.state).toBe('ready');
    expect(fixture.subchannel.endpoint.address).toBe('10.0.0.1');
    expect(fixture.clock.timers).toBe(0);
  });
});

it('an endpoint with one address is its own reverse', () => {
  const endpoint = createEndpoint({ address: '10.0.0.1', otherAddress: '10.0.0.1', port: 80 });
  expect(withOtherFirst(endpoint)).toBe(endpoint);
});
