import { once } from 'node:events';
import { Socket } from 'node:net';
import { describe, expect, it } from 'vitest';
import { type Dialled, isPodLeftError } from '../../../../src/adapter/http/dial.js';
import { Pod, type PodHttpClient } from '../../../../src/adapter/http/pod.js';
import { createEndpoint } from '../../../../src/endpoint/endpoint.js';
import { FakeClock } from '../../../../src/testing/fake-clock.js';

const refused = Object.assign(new Error('connect ECONNREFUSED'), { code: 'ECONNREFUSED', syscall: 'connect' });

/** The client of a pod that takes four requests; `finished` is called when the pod is gone. */
const client = (finished: () => void): PodHttpClient<undefined> => ({
  handle: undefined,
  capacity: 4,
  getStatus: async () => 200,
  finish: async () => finished(),
  cut: () => {},
});

it('a pod without a socket that refuses one is gone, even if callers with no other pod keep dialing it', async () => {
  const dials: { readonly socket: Socket; readonly dialled: Dialled }[] = [];
  const first = new Socket();
  let gone = 0;
  const pod = new Pod(
    first,
    {
      endpoint: createEndpoint({ address: '10.0.0.1', port: 80 }),
      dial: (dialled) => {
        const socket = new Socket();
        dials.push({ socket, dialled });
        return socket;
      },
      healthPath: undefined,
      clock: new FakeClock(),
      rng: { next: () => 0.5 },
    },
    () => client(() => gone++),
  );
  first.destroy();
  await new Promise((resolve) => first.once('close', resolve));
  const errors: unknown[] = [];
  const call = (): void => pod.dial((error) => errors.push(error));
  call();
  call();
  const [one, two] = dials;
  one?.dialled(refused, one.socket);
  expect([errors, gone]).toEqual([[refused], 1]);
  expect(await pod.closed).toBe(refused);
  two?.dialled(refused, two.socket);
  expect([errors.length, gone]).toEqual([2, 1]);
  // What waits in the HTTP client for a connection dials as well, one request after the other.
  call();
  const [, , third] = dials;
  const [error] = await once(third?.socket as Socket, 'error');
  expect(isPodLeftError(error)).toBe(true);
});

describe('a pod that left the Service', () => {
  const opened = () => {
    const dials: { readonly socket: Socket; readonly dialled: Dialled }[] = [];
    let gone = 0;
    const pod = new Pod(
      new Socket(),
      {
        endpoint: createEndpoint({ address: '10.0.0.1', port: 80 }),
        dial: (dialled) => {
          const socket = new Socket();
          socket.once('error', (error) => dialled(error, socket));
          dials.push({ socket, dialled });
          return socket;
        },
        healthPath: undefined,
        clock: new FakeClock(),
        rng: { next: () => 0.5 },
      },
      () => client(() => gone++),
    );
    return { pod, dials, gone: () => gone };
  };
  const turn = (): Promise<void> => new Promise((resolve) => setImmediate(resolve));

  it('aborts the sockets that requests wait for, and dials no more; that is not held against it', async () => {
    const { pod, dials, gone } = opened();
    const errors: (Error | undefined)[] = [];
    pod.dial((error) => errors.push(error));
    pod.left();
    pod.dial((error) => errors.push(error));
    await turn();
    expect(errors.map((error) => error !== undefined && isPodLeftError(error))).toEqual([true, true]);
    expect(errors[0]?.message).toBe('10.0.0.1:80 left the Service before the request was sent');
    expect(dials.every(({ socket }) => socket.destroyed)).toBe(true);
    expect([gone(), pod.capacity]).toEqual([0, 4]);
  });

  it('is dialed again once it is back', async () => {
    const { pod, dials } = opened();
    pod.left();
    pod.returned();
    const errors: (Error | undefined)[] = [];
    pod.dial((error) => errors.push(error));
    await turn();
    dials[0]?.dialled(undefined, dials[0].socket);
    expect(errors).toEqual([undefined]);
  });

  it('is still pinged: a dial that no request waits for is not aborted', async () => {
    const { pod, dials } = opened();
    const pinged = pod.ping(new AbortController().signal);
    pod.left();
    await turn();
    dials[0]?.dialled(undefined, dials[0].socket);
    await pinged;
  });
});
