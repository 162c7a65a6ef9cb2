import { once } from 'node:events';
import { Socket } from 'node:net';
import { describe, expect, it } from 'vitest';
import { type Dialled, isPodLeftError } from '../../../../src/adapter/http/dial.js';
import { PodLink } from '../../../../src/adapter/http/pod-link.js';
import { createEndpoint } from '../../../../src/endpoint/endpoint.js';
import { FakeClock } from '../../../../src/testing/fake-clock.js';

const refused = Object.assign(new Error('connect ECONNREFUSED'), { code: 'ECONNREFUSED', syscall: 'connect' });

it('a pod without a socket that refuses one is gone, even if callers with no other pod keep dialing it', async () => {
  const dials: { readonly socket: Socket; readonly dialled: Dialled }[] = [];
  const first = new Socket();
  let gone = 0;
  const link = new PodLink(first, {
    endpoint: createEndpoint({ address: '10.0.0.1', port: 80 }),
    dial: (dialled) => {
      const socket = new Socket();
      dials.push({ socket, dialled });
      return socket;
    },
    capacity: 4,
    clock: new FakeClock(),
    rng: { next: () => 0.5 },
    gone: () => {
      gone++;
      link.stop();
    },
  });
  first.destroy();
  await new Promise((resolve) => first.once('close', resolve));
  const errors: unknown[] = [];
  const call = (): void => link.dial((error) => errors.push(error));
  call();
  call();
  const [one, two] = dials;
  one?.dialled(refused, one.socket);
  expect([errors, gone]).toEqual([[refused], 1]);
  expect(await link.closed).toBe(refused);
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
    const link = new PodLink(new Socket(), {
      endpoint: createEndpoint({ address: '10.0.0.1', port: 80 }),
      dial: (dialled) => {
        const socket = new Socket();
        socket.once('error', (error) => dialled(error, socket));
        dials.push({ socket, dialled });
        return socket;
      },
      capacity: 4,
      clock: new FakeClock(),
      rng: { next: () => 0.5 },
      gone: () => gone++,
    });
    return { link, dials, gone: () => gone };
  };
  const turn = (): Promise<void> => new Promise((resolve) => setImmediate(resolve));

  it('aborts the sockets that requests wait for, and dials no more; that is not held against it', async () => {
    const { link, dials, gone } = opened();
    const errors: (Error | undefined)[] = [];
    link.dial((error) => errors.push(error));
    link.left();
    link.dial((error) => errors.push(error));
    await turn();
    expect(errors.map((error) => error !== undefined && isPodLeftError(error))).toEqual([true, true]);
    expect(errors[0]?.message).toBe('10.0.0.1:80 left the Service before the request was sent');
    expect(dials.every(({ socket }) => socket.destroyed)).toBe(true);
    expect([gone(), link.capacity]).toEqual([0, 4]);
  });

  it('is dialed again once it is back', async () => {
    const { link, dials } = opened();
    link.left();
    link.returned();
    const errors: (Error | undefined)[] = [];
    link.dial((error) => errors.push(error));
    await turn();
    dials[0]?.dialled(undefined, dials[0].socket);
    expect(errors).toEqual([undefined]);
  });

  it('is still pinged: a dial that no request waits for is not aborted', async () => {
    const { link, dials } = opened();
    const pinged = link.connectProbe(new AbortController().signal);
    link.left();
    await turn();
    dials[0]?.dialled(undefined, dials[0].socket);
    await pinged;
  });
});
