import { Socket } from 'node:net';
import { expect, it } from 'vitest';
import type { Dialled } from '../../../../src/adapter/http/dial.js';
import { PodLink } from '../../../../src/adapter/http/pod-link.js';
import { FakeClock } from '../../../../src/testing/fake-clock.js';

const refused = Object.assign(new Error('connect ECONNREFUSED'), { code: 'ECONNREFUSED', syscall: 'connect' });

it('a pod without a socket that refuses one is gone, though callers with nowhere else to go dial all the time', async () => {
  const dials: { readonly socket: Socket; readonly dialled: Dialled }[] = [];
  const first = new Socket();
  let gone = 0;
  const link = new PodLink({
    dial: (dialled) => {
      const socket = new Socket();
      dials.push({ socket, dialled });
      return socket;
    },
    first,
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
});
