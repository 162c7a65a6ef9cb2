import { connectivityState, status } from '@grpc/grpc-js';
import { describe, expect, it } from 'vitest';
import { Admission, type AdmissionOptions } from '../../../../src/adapter/grpc-js/admission.js';
import type { PodConnection } from '../../../../src/adapter/grpc-js/pod-connection.js';
import { ResolveError } from '../../../../src/errors.js';
import type { SubchannelState } from '../../../../src/observe/observer.js';
import type { PickSet } from '../../../../src/picker/picker.js';
import type { Subchannel } from '../../../../src/pool/subchannel.js';

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
  const channel = { service: 'orders.shop:50051', closed: false };
  const made = new Admission({ channel, isEmpty: () => true, ...options }, () => {});
  const assessed = () => {
    const state = connectivityState[made.assess()];
    const { details, code } = made.refusal ?? {};
    return made.refusal === undefined ? state : `${state}: ${status[code as status]} ${details}`;
  };
  return { admission: made, channel, assessed };
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
    const { admission: subject, assessed } = admission({ isEmpty: () => false });
    subject.resolved(2);
    subject.setChanged(setOf());
    expect(assessed()).toBe('CONNECTING');
  });

  it('is CONNECTING for an empty Service whose first endpoint is waited for', () => {
    const { admission: subject, assessed } = admission({ waitForEndpoints: true });
    subject.setChanged(setOf());
    expect(assessed()).toBe('CONNECTING');
    subject.setChanged(setOf({ state: 'ready' }));
    expect(assessed()).toBe('READY');
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
    expect(assessed()).toContain('TRANSIENT_FAILURE: UNAVAILABLE orders.shop:50051: the channel is closed');
    expect(subject.refusal?.final).toBe(true);
  });
});
