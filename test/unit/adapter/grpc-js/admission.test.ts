import { connectivityState, status } from '@grpc/grpc-js';
import { describe, expect, it } from 'vitest';
import { Admission, type AdmissionOptions, type Waiter } from '../../../../src/adapter/grpc-js/admission.js';
import type { PodConnection } from '../../../../src/adapter/grpc-js/pod-connection.js';
import { ResolveError } from '../../../../src/errors.js';
import type { SubchannelState } from '../../../../src/observe/observer.js';
import type { PickSet } from '../../../../src/picker/picker.js';
import type { Subchannel } from '../../../../src/pool/subchannel.js';
import { FakeClock } from '../../../../src/testing/fake-clock.js';

const anybody = (): Waiter => ({ sinceMs: undefined, isWaiting: true });

interface FakeMember {
  readonly state: SubchannelState;
  readonly lastError?: Error;
  readonly inFlight?: number;
}

function setOf(...members: readonly FakeMember[]): PickSet<Subchannel<PodConnection>> {
  const all = members.map((member) => ({ inFlight: 0, capacity: 1, ...member }));
  return { all, targets: all.filter(({ state }) => state === 'ready') } as unknown as PickSet<
    Subchannel<PodConnection>
  >;
}

function admission(options: Partial<AdmissionOptions> = {}) {
  const clock = new FakeClock();
  const channel = { service: 'orders.shop:50051', closed: false };
  let changes = 0;
  const made = new Admission({ channel, clock, isEmpty: () => true, ...options }, () => changes++);
  const assessed = () => {
    const state = connectivityState[made.assess()];
    const { details, code } = made.refusal ?? {};
    return made.refusal === undefined ? state : `${state}: ${status[code as status]} ${details}`;
  };
  return { admission: made, channel, clock, assessed, changes: () => changes };
}

const refused = new Error('no connection to 10.0.0.1:80: connect ECONNREFUSED');

describe('the state of a channel', () => {
  it('is CONNECTING until a first set is known, or its resolver fails', () => {
    const { admission: subject, assessed } = admission();
    expect(assessed()).toBe('CONNECTING');
    subject.resolveFailed(new ResolveError('DNS has no answer'), false);
    expect(assessed()).toBe('TRANSIENT_FAILURE: UNAVAILABLE orders.shop:50051: DNS has no answer (EVENKEEL_RESOLVE)');
    subject.resolved(1);
    subject.setChanged(setOf({ state: 'connecting' }));
    expect(assessed()).toBe('CONNECTING');
    subject.setChanged(setOf({ state: 'ready' }, { state: 'connecting' }));
    expect(assessed()).toBe('READY');
  });

  it('says whether a Service is empty or its endpoints are unusable', () => {
    const { admission: subject, assessed } = admission();
    subject.resolved(0);
    subject.setChanged(setOf());
    expect(assessed()).toContain('orders.shop:50051: it has no endpoint (EVENKEEL_NO_ENDPOINTS)');
    subject.resolveFailed(new ResolveError('orders.shop:50051: not in a cluster'), true);
    expect(assessed()).toContain('orders.shop:50051: it has no endpoint; not in a cluster (EVENKEEL_NO_ENDPOINTS)');
    subject.resolveRecovered();
    expect(assessed()).toContain('orders.shop:50051: it has no endpoint (EVENKEEL_NO_ENDPOINTS)');
    subject.resolved(0, 'orders.shop:50051: DNS has no address for it');
    expect(assessed()).toContain('it has no endpoint; DNS has no address for it (EVENKEEL_NO_ENDPOINTS)');
    subject.resolved(3);
    expect(assessed()).toContain('none of its 3 endpoints is usable (EVENKEEL_NO_ENDPOINTS)');
  });

  it('differs for an empty Service and for one whose endpoints all stand by, which is waited for', () => {
    const { admission: subject, clock, assessed } = admission({ isEmpty: () => false, waitTimeoutMs: 100 });
    subject.resolved(2);
    subject.setChanged(setOf());
    expect(assessed()).toBe('CONNECTING');
    subject.wait(anybody());
    clock.advance(100);
    expect(assessed()).toContain('within 100 ms (all are on standby) (EVENKEEL_NOT_READY)');
  });

  it('names the Service once', () => {
    const { admission: subject, assessed } = admission();
    subject.resolveFailed(new ResolveError('orders.shop:50051: nobody knows it'), false);
    expect(assessed()).toBe('TRANSIENT_FAILURE: UNAVAILABLE orders.shop:50051: nobody knows it (EVENKEEL_RESOLVE)');
  });

  it('is TRANSIENT_FAILURE once every endpoint has failed, also while they are tried again', () => {
    const { admission: subject, assessed } = admission();
    subject.setChanged(setOf({ state: 'backoff', lastError: refused }, { state: 'connecting' }));
    expect(assessed()).toBe('CONNECTING');
    subject.setChanged(setOf({ state: 'backoff' }, { state: 'connecting', lastError: refused }));
    expect(assessed()).toBe(
      'TRANSIENT_FAILURE: UNAVAILABLE orders.shop:50051: no endpoint can be reached (1 backoff, 1 connecting; ' +
        'no connection to 10.0.0.1:80: connect ECONNREFUSED) (EVENKEEL_NOT_READY)',
    );
    subject.setChanged(setOf({ state: 'ready' }, { state: 'backoff', lastError: refused }));
    expect(assessed()).toBe('READY');
  });

  it('is final when the balancer is closed', () => {
    const { admission: subject, channel, assessed } = admission();
    subject.setChanged(setOf({ state: 'ready' }));
    channel.closed = true;
    subject.closed();
    expect(assessed()).toContain('TRANSIENT_FAILURE: UNAVAILABLE orders.shop:50051: the channel is closed');
    expect(subject.refusal?.final).toBe(true);
  });
});

describe('calls that have no endpoint', () => {
  it('wait, and are turned away when none was served for waitTimeoutMs', () => {
    const { admission: subject, clock, assessed, changes } = admission({ waitTimeoutMs: 5_000 });
    subject.setChanged(setOf({ state: 'ready', inFlight: 1 }));
    expect(subject.wait(anybody())).toBeUndefined();
    clock.advance(4_999);
    expect(assessed()).toBe('READY');
    clock.advance(1);
    expect(changes()).toBe(2);
    expect(assessed()).toBe(
      'READY: UNAVAILABLE orders.shop:50051: no endpoint could take a call within 5000 ms (1 at capacity) (EVENKEEL_NOT_READY)',
    );
    // One that finds room ends it.
    subject.placed();
    expect(subject.refusal).toBeUndefined();
    expect(assessed()).toBe('READY');
    expect(clock.timers).toBe(0);
  });

  it('start their waiting time again with each call served', () => {
    const { admission: subject, clock, assessed } = admission({ waitTimeoutMs: 100 });
    subject.setChanged(setOf({ state: 'ready' }));
    subject.wait(anybody());
    clock.advance(90);
    subject.placed();
    subject.wait(anybody());
    clock.advance(90);
    expect(assessed()).toBe('READY');
  });

  it('wait as long for a resolver, and for the first endpoint if that is configured', () => {
    const starting = admission({ waitTimeoutMs: 100 });
    starting.admission.wait(anybody());
    starting.clock.advance(100);
    expect(starting.assessed()).toContain('no answer within 100 ms (EVENKEEL_NOT_READY)');
    const empty = admission({ waitTimeoutMs: 100, waitForEndpoints: true });
    empty.admission.setChanged(setOf());
    expect(empty.assessed()).toBe('CONNECTING');
    empty.admission.wait(anybody());
    empty.clock.advance(100);
    expect(empty.assessed()).toContain('EVENKEEL_NO_ENDPOINTS');
    empty.admission.setChanged(setOf({ state: 'ready' }));
    expect(empty.assessed()).toBe('READY');
  });

  it('are turned away beyond maxWaiting, counted afresh ten times a second', () => {
    const { admission: subject, clock, changes } = admission({ maxWaiting: 2 });
    expect([subject.wait(anybody()), subject.wait(anybody()), subject.waiting]).toEqual([undefined, undefined, 2]);
    expect(subject.wait(anybody())?.result().status).toMatchObject({
      code: status.RESOURCE_EXHAUSTED,
      details: 'orders.shop:50051: 2 calls wait for an endpoint already (maxWaiting) (EVENKEEL_QUEUE_FULL)',
    });
    subject.wait(anybody());
    expect(changes()).toBe(0);
    clock.advance(100);
    expect(changes()).toBe(1);
    subject.retrying();
    expect(subject.wait(anybody())).toBeUndefined();
    subject.stop();
    expect(clock.timers).toBe(0);
  });
});
