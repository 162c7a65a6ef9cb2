import { beforeEach, describe, expect, it } from 'vitest';
import { AuthenticationFailures } from '../../../../src/adapter/mysql2/authentication-failures.js';
import { createEndpoint, type EndpointSnapshot, EvenkeelError, type ObserverEvents } from '../../../../src/index.js';

type State = ObserverEvents['subchannelChanged']['to'];

const endpoints = [1, 2, 3].map((last) => createEndpoint({ address: `10.0.0.${last}`, port: 3306 }));
const states = new Map<string, State>();
let authenticationFailures: AuthenticationFailures;
let told: EvenkeelError[];
let stop: () => void;

/** Endpoint `index` changes, as the balancer would say it. */
function change(index: number, to: State, errno?: number): void {
  const endpoint = endpoints[index] as (typeof endpoints)[number];
  states.set(endpoint.key, to);
  const cause = Object.assign(new Error('Access denied'), { errno });
  const message = `no connection to ${endpoint.address}:3306: Access denied`;
  const error = new EvenkeelError('EVENKEEL_CONNECT', message, { cause, endpoint: `${endpoint.address}:3306` });
  authenticationFailures.changed({ endpoint, from: 'connecting', to, ...(errno !== undefined && { error }) });
}

beforeEach(() => {
  states.clear();
  authenticationFailures = new AuthenticationFailures(() =>
    [...states].map(([key, state]) => ({ key, state }) as EndpointSnapshot),
  );
  told = [];
  stop = authenticationFailures.listen((error) => told.push(error));
});

describe('servers that refuse who we are', () => {
  it('are a reason to give up once all have done so', () => {
    for (const index of [0, 1, 2]) change(index, 'connecting');
    change(0, 'backoff', 1045);
    change(1, 'backoff', 1044);
    expect(authenticationFailures.refusal).toBeUndefined();
    expect(told).toEqual([]);
    change(2, 'backoff', 1049);
    expect(told).toHaveLength(1);
    expect(told[0]).toMatchObject({ code: 'EVENKEEL_CONNECT', endpoint: '10.0.0.3:3306', cause: { errno: 1049 } });
    expect(authenticationFailures.refusal?.message).toBe(
      'all 3 servers refuse us: no connection to 10.0.0.3:3306: Access denied',
    );
  });

  it.each([
    ['too many connections', 1040],
    ['a user with too many', 1203],
    ['something without a number', 0],
  ])('but not one that has another reason: %s', (_what, errno) => {
    change(0, 'backoff', 1045);
    change(1, 'backoff', errno);
    expect(authenticationFailures.refusal).toBeUndefined();
  });

  it('are held to it while they are asked again, until they let us in', () => {
    change(0, 'backoff', 1045);
    change(0, 'connecting');
    expect(authenticationFailures.refusal?.message).toBe('no connection to 10.0.0.1:3306: Access denied');
    change(0, 'ready');
    expect(authenticationFailures.refusal).toBeUndefined();
    // Lost since: it may let us in again.
    change(0, 'backoff');
    expect(authenticationFailures.refusal).toBeUndefined();
  });

  it('do not count once they leave', () => {
    change(0, 'backoff', 1045);
    change(1, 'connecting');
    expect(authenticationFailures.refusal).toBeUndefined();
    change(1, 'draining');
    expect(authenticationFailures.refusal).toBeDefined();
    change(1, 'closed');
    change(0, 'closed');
    expect(authenticationFailures.refusal).toBeUndefined();
  });

  it('concern nobody who has stopped listening', () => {
    stop();
    change(0, 'backoff', 1045);
    expect(told).toEqual([]);
  });
});
